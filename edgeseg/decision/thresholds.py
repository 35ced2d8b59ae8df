"""The thresholds of a model, and what is known of them."""

import math
from dataclasses import dataclass, replace

from edgeseg.vision.appearance import AppearanceLimits
from edgeseg.vision.part_groups import Grouping


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """The score above which a frame is anomalous, and the value above which a pixel is.

    The score alone decides on a frame; the pixel threshold only says what is marked in it.
    """

    score: float
    pixel: float
    false_alarm_rate: float  # what the good images behind it answer for; 1: nothing is known
    method: str
    requested_rate: float | None = None  # files of earlier versions lack it
    unsure: float | None = None  # scores above it and up to `score` are neither good nor a defect
    unsure_rate: float | None = None
    # Of the map's floor: an anomalous frame above it is not this part; earlier files lack it.
    foreign: float | None = None
    appearance: AppearanceLimits | None = None  # of brightness and sharpness; earlier files lack it
    # Good images behind it and the different parts that they show; earlier files say neither.
    images: int | None = None
    parts: int | None = None
    grouping: Grouping | None = None  # who told near-copies apart; None: there are none

    def __post_init__(self) -> None:
        if self.parts is not None and not 0 <= self.parts <= (self.images or 0):
            raise ValueError(f"parts: {self.parts}, expected from 0 to {self.images} images")
        for name in ("score", "pixel"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ValueError(f"{name}: {value}, expected a finite number from 0")
        for name in ("false_alarm_rate", "requested_rate", "unsure_rate"):
            rate = getattr(self, name)
            if rate is not None and not 0 <= rate <= 1:
                raise ValueError(f"{name}: {rate}, expected from 0 to 1")
        if self.unsure is not None and not 0 <= self.unsure <= self.score:
            raise ValueError(f"unsure: {self.unsure}, expected up to the score's {self.score}")
        if self.foreign is not None and not 0 <= self.foreign < math.inf:
            raise ValueError(f"foreign: {self.foreign}, expected a finite number from 0")

    def with_score(self, score: float) -> "Thresholds":
        """Return a copy with another score threshold; the others keep their ratio to it."""
        if not self.score:
            return replace(self, score=score, pixel=score, unsure=None)
        factor = score / self.score
        unsure = None if self.unsure is None else min(self.unsure * factor, score)
        return replace(self, score=score, pixel=self.pixel * factor, unsure=unsure)
