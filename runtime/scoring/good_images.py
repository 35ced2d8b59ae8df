"""Collect the scores of good images in this computer's session, and d^2 of every cell."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, RuntimeFailure
from edgeseg.base.progress import Note
from edgeseg.decision.doubt import DoubtKind
from edgeseg.decision.foreign import map_floor
from edgeseg.decision.prediction import Prediction
from edgeseg.decision.score_statistics import ScoreStatistics
from edgeseg.modelfile.metadata import DriftBaseline
from edgeseg.runtime.scoring.detector import Detector
from edgeseg.vision.appearance import GoodAppearance
from edgeseg.vision.group_by import GroupBy
from edgeseg.vision.images import read_with_bits
from edgeseg.vision.part_groups import GreyCopies, Grouping, highest_of_parts
from edgeseg.vision.picture_kinds import PictureKinds, is_grey
from edgeseg.vision.picture_size import MAX_PIXELS


@dataclass(kw_only=True)
class GoodImages:
    """Sums over the images so far, and which of them show the same part."""

    by: GroupBy = field(default_factory=GroupBy)
    grey_copies: GreyCopies = field(default_factory=GreyCopies)
    scores: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    floors: list[float] = field(default_factory=list)
    looks: GoodAppearance = field(default_factory=GoodAppearance)
    frame_d2: list[float] = field(default_factory=list)  # none where the model gives no grid
    _sum_hw: NDArray[np.float64] | None = None
    _squares_hw: NDArray[np.float64] | None = None

    def add(
        self,
        prediction: Prediction,
        *,
        path: PurePath,
        picture_hwc: NDArray[np.uint8],
        grey: bool = False,
    ) -> None:
        """Take one image: its prediction, its path, and what the model sees of it."""
        place = len(self.scores)
        if self.by.knows:
            self.grey_copies.told[place] = self.by.part(path, place=place)
        else:
            self.grey_copies.add(place, picture_hwc)
        seen = prediction.of_parts or (prediction,)
        self.scores.append(prediction.score)
        self.peaks.append(max(float(each.map_hw.max()) for each in seen))
        self.floors.append(max(map_floor(each.map_hw) for each in seen))
        looks = [each.appearance for each in seen if each.appearance is not None]
        self.looks = self.looks.merge(GoodAppearance.of(looks, grey=int(grey) * len(looks)))
        if prediction.shown_hw is None:
            return
        d2_hw = prediction.shown_hw.astype(np.float64) ** 2
        if self._sum_hw is None or self._squares_hw is None:
            self._sum_hw, self._squares_hw = np.zeros_like(d2_hw), np.zeros_like(d2_hw)
        self._sum_hw += d2_hw
        self._squares_hw += d2_hw**2
        self.frame_d2.append(float(d2_hw.mean()))

    @cached_property
    def groups(self) -> NDArray[np.float32]:
        """The part that each image shows; read it after the last image."""
        places = range(len(self.scores))
        parts = self.grey_copies.groups(places)
        return np.array([parts[place] for place in places], np.float32)

    @property
    def parts(self) -> int:
        """The number of different parts."""
        return int(np.unique(self.groups).size)

    @property
    def grouping(self) -> Grouping | None:
        """How near-copies were recognised; None if there are none."""
        return self.grey_copies.grouping if self.parts < len(self.scores) else None

    @property
    def statistics(self) -> ScoreStatistics:
        """The statistics as stored, one score a part. One part alone is no evidence."""
        images = len(self.scores)
        whole = ScoreStatistics.of(
            self._of_parts(self.scores),
            self._of_parts(self.peaks),
            images=images if self.parts < images else None,
        )
        return replace(whole, scores=(), peaks=()) if self.parts == 1 < images else whole

    @property
    def highest(self) -> tuple[list[float], list[float], list[float]]:
        """Scores, peaks and floors of the parts."""
        values = (self.scores, self.peaks, self.floors)
        scores, peaks, floors = (self._of_parts(each).tolist() for each in values)
        return scores, peaks, floors

    def _of_parts(self, values: list[float]) -> NDArray[np.float32]:
        return highest_of_parts(np.asarray(values, np.float32), self.groups)

    @property
    def drift(self) -> DriftBaseline | None:
        """The baseline of the drift watch; None without grids: tiles, or `--no-grid`."""
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
    detector: Detector,
    paths: Iterable[Path],
    *,
    note: Note,
    max_pixels: int = MAX_PIXELS,
    by: GroupBy | None = None,
) -> GoodImages:
    """Score every file as the stream would; unreadable files are named and left out."""
    good, kinds = GoodImages(by=by or GroupBy()), PictureKinds()
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
            doubt = detector.predict(image_hwc).doubt
            if doubt is not None and doubt.kind is DoubtKind.PARTS:
                raise DatasetError(f"{path}: {doubt}; expected good images that can be judged")
            raise RuntimeFailure(
                f"{path}: {detector.backend} gives no finite score for it; this file cannot be "
                "trusted here, try another backend or precision"
            )
        good.add(prediction, path=path, picture_hwc=detector.picture(image_hwc), grey=grey)
    for sentence in kinds.sentences(detector.fitted_colour):
        note(sentence)
    if not good.scores:
        raise DatasetError("no good images to calibrate on; expected at least one that is readable")
    return good
