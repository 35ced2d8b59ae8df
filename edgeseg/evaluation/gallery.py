"""Pictures of predictions in a folder: one per image, and a contact sheet, mistakes first."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.data.datasets import Sample
from edgeseg.decision.calibration import Calibration
from edgeseg.decision.judgement import Verdict
from edgeseg.evaluation.mistakes import FALSE_ALARM, MISS, distance_of, error_of
from edgeseg.evaluation.panels import add_heading, contact_sheet, render_panel
from edgeseg.vision.images import write_image
from edgeseg.vision.picture_names import PictureNames

SHEET_ROWS = 12  # of mistakes, and of others


@dataclass(frozen=True, kw_only=True)
class WrongPanel:
    """The picture of a mistake, and how far its score is from the threshold."""

    distance: float
    picture: NDArray[np.uint8]


class Gallery:
    """Pictures drawn with one range of values, so that they can be compared."""

    def __init__(self, folder: Path, calibration: Calibration):
        self.folder = folder
        self.threshold = calibration.score_threshold
        self.pixel_threshold = calibration.pixel_threshold
        # Up to twice the threshold, whatever the image: noise is dark, and a strong defect does
        # not hide a weak one.
        self.value_range = (0.0, 2.0 * max(calibration.pixel_threshold, 1e-6))
        self.panels: dict[str, list[NDArray[np.uint8]]] = {}  # of images that were judged right
        self.wrong: list[WrongPanel] = []  # the worst first
        self.errors: Counter[str] = Counter()
        self._names = PictureNames()

    def add(
        self,
        sample: Sample,
        frame_hwc: NDArray[np.uint8],
        mask_hw: NDArray[np.bool_] | None,
        map_hw: NDArray[np.float32],
        score: float,
        verdict: Verdict,
    ) -> None:
        """Write one test image's picture; keep the worst mistakes and some of each kind."""
        panel = self._panel(frame_hwc, map_hw, mask_hw, verdict)
        target = self._names.free(self.folder / sample.kind, sample.image, sample.image_index)
        write_image(target, panel)
        error = error_of(verdict, label=sample.label)
        name = f"{sample.kind}/{target.stem}, score {score:.4g}"
        if verdict not in ("good", "defect"):  # which the score alone does not tell
            name += f", {verdict}"
        if error is None:
            kept = self.panels.setdefault(sample.kind, [])
            if len(kept) < 3:
                kept.append(add_heading(panel, name))
            return
        self.errors[error] += 1
        picture = add_heading(panel, f"{error}: {name}, threshold {self.threshold:.4g}")
        distance = distance_of(score, verdict, self.threshold)
        self.wrong.append(WrongPanel(distance=distance, picture=picture))
        self.wrong.sort(key=lambda each: -each.distance)
        del self.wrong[SHEET_ROWS:]

    def finish(self, *, title: str) -> Path:
        """Write the contact sheet: the worst mistakes, then a few images of every kind."""
        kinds = sorted(self.panels, key=lambda kind: (kind == "good", kind))
        per_kind = max(1, SHEET_ROWS // max(len(kinds), 1))
        right = [panel for kind in kinds for panel in self.panels[kind][:per_kind]]
        panels = [*(each.picture for each in self.wrong), *right]
        misses, alarms = self.errors[MISS], self.errors[FALSE_ALARM]
        title = f"{title}: {misses} misses and {alarms} false alarms" + (
            ", the worst first" if self.wrong else ""
        )
        target = self.folder / "sheet.png"
        write_image(target, contact_sheet(panels, columns=2, title=title))
        return target

    def _panel(
        self,
        frame_hwc: NDArray[np.uint8],
        map_hw: NDArray[np.float32],
        mask_hw: NDArray[np.bool_] | None,
        verdict: Verdict,
    ) -> NDArray[np.uint8]:
        return render_panel(
            frame_hwc,
            map_hw,
            mask_hw=mask_hw,
            pixel_threshold=self.pixel_threshold,
            value_range=self.value_range,
            verdict=verdict,
        )
