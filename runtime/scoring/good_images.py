"""What the session of this computer says of good images: scores, and d^2 of every cell."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.appearance import GoodAppearance
from edgeseg.contract.foreign import map_floor
from edgeseg.contract.images import read_with_bits
from edgeseg.contract.metadata import DriftBaseline, ScoreStatistics
from edgeseg.contract.picture_kinds import PictureKinds, is_grey
from edgeseg.contract.picture_size import MAX_PIXELS
from edgeseg.contract.prediction import Prediction
from edgeseg.errors import DatasetError, RuntimeFailure
from edgeseg.progress import Note
from edgeseg.runtime.scoring.detector import Detector


@dataclass(kw_only=True)
class GoodImages:
    """Sums over the images seen so far."""

    scores: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    floors: list[float] = field(default_factory=list)
    looks: GoodAppearance = field(default_factory=GoodAppearance)
    frame_d2: list[float] = field(default_factory=list)  # none where the model gives no grid
    _sum_hw: NDArray[np.float64] | None = None
    _squares_hw: NDArray[np.float64] | None = None

    def add(self, prediction: Prediction, *, grey: bool = False) -> None:
        """Take one image."""
        self.scores.append(prediction.score)
        self.peaks.append(float(prediction.map_hw.max()))
        self.floors.append(map_floor(prediction.map_hw))
        if prediction.appearance is not None:
            look = GoodAppearance.of([prediction.appearance], grey=int(grey))
            self.looks = self.looks.joined(look)
        if prediction.grid_hw is None:
            return
        d2_hw = prediction.grid_hw.astype(np.float64) ** 2
        if self._sum_hw is None or self._squares_hw is None:
            self._sum_hw, self._squares_hw = np.zeros_like(d2_hw), np.zeros_like(d2_hw)
        self._sum_hw += d2_hw
        self._squares_hw += d2_hw**2
        self.frame_d2.append(float(d2_hw.mean()))

    @property
    def statistics(self) -> ScoreStatistics:
        """As they are stored."""
        return ScoreStatistics.of(
            np.asarray(self.scores, np.float32), np.asarray(self.peaks, np.float32)
        )

    @property
    def drift(self) -> DriftBaseline | None:
        """What the drift watch compares with; None without grids: tiles, or `--no-grid`."""
        if self._sum_hw is None or self._squares_hw is None:
            return None
        mean_hw = self._sum_hw / len(self.frame_d2)
        spread_hw = np.sqrt(np.maximum(self._squares_hw / len(self.frame_d2) - mean_hw**2, 0.0))
        return DriftBaseline.of(
            mean_hw=mean_hw.astype(np.float32),
            std_hw=spread_hw.astype(np.float32),
            frame_d2=np.asarray(self.frame_d2, np.float32),
        )


def score_good_images(
    detector: Detector, paths: Iterable[Path], *, note: Note, max_pixels: int = MAX_PIXELS
) -> GoodImages:
    """Every file as the stream would see it; those that cannot be read are named and left out."""
    good, kinds = GoodImages(), PictureKinds()
    for path in paths:
        try:
            image_hwc, used_bits = read_with_bits(path, max_pixels=max_pixels)
        except DatasetError as error:
            note(f"skipped {error}")
            continue
        grey = is_grey(image_hwc)
        kinds.add(grey=grey, used_bits=used_bits)
        prediction = detector.score(image_hwc)
        if not np.isfinite(prediction.score):
            raise RuntimeFailure(
                f"{path}: {detector.backend} gives no finite score for it; this file cannot be "
                "trusted here, try another backend or precision"
            )
        good.add(prediction, grey=grey)
    for sentence in kinds.sentences(detector.fitted_colour):
        note(sentence)
    if not good.scores:
        raise DatasetError("no good images to calibrate on; expected at least one that is readable")
    return good
