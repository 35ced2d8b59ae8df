"""Predict test pictures that show several parts: each cut out and judged, all laid together."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.data.samples import Sample, frames_at_once, read_mask_of, read_picture
from edgeseg.decision.prediction import Prediction
from edgeseg.decision.several import JudgedParts, PartLooks, judge_parts
from edgeseg.decision.thresholds import Thresholds
from edgeseg.model.gaussian_head import Insides
from edgeseg.model.predictor import VariantPredictor, variant_scores
from edgeseg.vision.appearance import appearance_of
from edgeseg.vision.geometry import Geometry
from edgeseg.vision.ignored import paint_ignored
from edgeseg.vision.images import resize_image, resize_mask


@dataclass(frozen=True, kw_only=True)
class PictureOfParts:
    """A test picture and its result, at the size of its map."""

    sample: Sample
    frame_hwc: NDArray[np.uint8]
    mask_hw: NDArray[np.bool_] | None  # None: a defect that nobody has marked
    judged: JudgedParts


@dataclass(frozen=True, kw_only=True)
class PartsPredictor:
    """A predictor of single parts, and what makes pictures of them."""

    predict: VariantPredictor
    geometry: Geometry
    size_hw: tuple[int, int]
    grid_hw: tuple[int, int] | None
    thresholds: Thresholds
    batch_size: int
    max_pixels: int

    def pictures(
        self,
        samples: Iterable[Sample],
        *,
        max_bad: int,
        on_bad: Callable[[Path, str], None] | None,
    ) -> Iterator[PictureOfParts]:
        """Yield the results of pictures; skip up to `max_bad` that cannot be read."""
        bad = 0
        for sample in samples:
            try:
                yield self._judge(sample)
            except DatasetError as error:
                bad += 1
                if bad > max_bad:
                    raise
                if on_bad is not None:
                    on_bad(sample.image, str(error))

    def _judge(self, sample: Sample) -> PictureOfParts:
        image_hwc = read_picture(sample, max_pixels=self.max_pixels)
        frame_hw = image_hwc.shape[:2]
        try:
            self.geometry.check(frame_hw, name=str(sample.image))
        except UsageError as error:
            raise DatasetError(error) from None
        looks = PartLooks.of(image_hwc, self.geometry, self.size_hw)
        if looks is None:
            raise UsageError("the model judges one part in a picture, expected one of several")
        mask_hw = read_mask_of(sample, frame_hw, max_pixels=self.max_pixels)
        inputs = [paint_ignored(view.picture(image_hwc), self.geometry) for view in looks.views]
        insides = (
            [] if self.grid_hw is None else [view.inside(self.grid_hw) for view in looks.views]
        )
        judged = judge_parts(looks, list(self._predictions(inputs, insides)), self.thresholds)
        shape = judged.prediction.map_hw.shape
        return PictureOfParts(
            sample=sample,
            frame_hwc=resize_image(image_hwc, shape),
            mask_hw=None if mask_hw is None else resize_mask(mask_hw, shape),
            judged=judged,
        )

    def _predictions(
        self, inputs: Sequence[NDArray[np.uint8]], insides: Insides
    ) -> Iterator[Prediction]:
        step = frames_at_once(self.size_hw, most=self.batch_size)
        for start in range(0, len(inputs), step):
            frames = np.stack(inputs[start : start + step])
            own = insides[start : start + step]
            run = partial(self.predict, frames)
            seen = variant_scores(run() if all(each is None for each in own) else run(own))
            for frame_hwc, map_hw, score in zip(frames, seen.maps, seen.scores, strict=True):
                look = appearance_of(frame_hwc)
                yield Prediction(map_hw=map_hw, score=float(score), appearance=look)
