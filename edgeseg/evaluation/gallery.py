"""Pictures of predictions in a folder: one per image, and a contact sheet."""

from itertools import chain, count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.images import write_image
from edgeseg.data.datasets import Sample
from edgeseg.evaluation.panels import contact_sheet, render_panel
from edgeseg.evaluation.threshold import Calibration

SHEET_ROWS = 12


class Gallery:
    """Draws with one range for all, so that pictures can be compared with each other."""

    def __init__(self, folder: Path, calibration: Calibration):
        self.folder = folder
        self.pixel_threshold = calibration.pixel_threshold
        # Up to twice the threshold, whatever the image: noise is dark, and a strong defect does
        # not hide a weak one.
        self.value_range = (0.0, 2.0 * max(calibration.pixel_threshold, 1e-6))
        self.panels: dict[str, list[NDArray[np.uint8]]] = {}
        self._taken: set[Path] = set()

    def add(
        self,
        sample: Sample,
        frame_hwc: NDArray[np.uint8],
        mask_hw: NDArray[np.bool_],
        map_hw: NDArray[np.float32],
        score: float,
    ) -> None:
        """Write one test image's picture and keep a few of each kind for the sheet."""
        panel = self._panel(frame_hwc, map_hw, mask_hw)
        target = self._free_name(self.folder / sample.kind, sample.image, sample.image_index)
        write_image(target, panel)
        kept = self.panels.setdefault(sample.kind, [])
        if len(kept) < 3:
            kept.append(panel)

    def picture(
        self, path: Path, frame_hwc: NDArray[np.uint8], map_hw: NDArray[np.float32]
    ) -> Path:
        """Write the picture of one image without ground truth."""
        target = self._free_name(self.folder, path, None)
        write_image(target, self._panel(frame_hwc, map_hw, None))
        return target

    def _free_name(self, folder: Path, image: Path, index: int | None) -> Path:
        """Images of one name (kos01/Part0, kos02/Part0; frames of a video) keep a picture each."""
        stem = image.stem if index is None else f"{image.stem}-{index:05}"
        names = chain((stem, f"{image.parent.name}-{stem}"), (f"{stem}-{n}" for n in count(2)))
        target = next(path for name in names if (path := folder / f"{name}.png") not in self._taken)
        self._taken.add(target)
        return target

    def finish(self, *, title: str) -> Path:
        """Write the contact sheet, a few images of every kind."""
        kinds = sorted(self.panels, key=lambda kind: (kind == "good", kind))
        per_kind = max(1, SHEET_ROWS // max(len(kinds), 1))
        panels = [panel for kind in kinds for panel in self.panels[kind][:per_kind]]
        target = self.folder / "sheet.png"
        write_image(target, contact_sheet(panels, columns=2, title=title))
        return target

    def _panel(
        self,
        frame_hwc: NDArray[np.uint8],
        map_hw: NDArray[np.float32],
        mask_hw: NDArray[np.bool_] | None,
    ) -> NDArray[np.uint8]:
        return render_panel(
            frame_hwc,
            map_hw,
            mask_hw=mask_hw,
            pixel_threshold=self.pixel_threshold,
            value_range=self.value_range,
        )
