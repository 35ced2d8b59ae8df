"""The thresholds of a model, and what is known of them."""

import math
from dataclasses import asdict, dataclass, replace

from edgeseg.base.plain import JsonObject
from edgeseg.decision.good_tail import has_tail
from edgeseg.decision.score_origin import Promise, ScoreOrigin, ThresholdChoice
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
    requested_rate: float
    origin: ScoreOrigin
    images: int  # good images behind it
    parts: int  # different parts that they show
    choice: ThresholdChoice | None = None  # what was chosen since; None: nothing
    unsure: float | None = None  # scores above it and up to `score` are neither good nor a defect
    unsure_rate: float | None = None
    # Of the map's floor: an anomalous frame above it is not this part; None: not known.
    foreign: float | None = None
    appearance: AppearanceLimits | None = None  # of brightness and sharpness; None: too few images
    grouping: Grouping | None = None  # who told near-copies apart; None: there are none
    promise: Promise = "conformal"  # how a rate became a threshold; files of 0.2.0 do not say it

    def __post_init__(self) -> None:
        if not 0 <= self.parts <= self.images:
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

    @property
    def by_tail(self) -> bool:
        """Whether the tail of the good scores decided it, and not their ranks or a person."""
        chosen = self.choice is None or self.choice.by == "rate"
        known = self.promise == "tail" and self.origin.kind != "best_f1"
        return known and chosen and has_tail(self.parts, self.false_alarm_rate)

    @property
    def method(self) -> str:
        """The words that say how it was obtained."""
        made = self.origin.words(images=self.images, parts=self.parts)
        if self.by_tail:
            made += ", by their tail"
        return made if self.choice is None else f"{made}; {self.choice.words}"

    @property
    def rule(self) -> str:
        """The words that say what decided it last."""
        return self.method if self.choice is None else self.choice.words

    def to_dict(self) -> JsonObject:
        """Return plain values: what files keep, and the words that say how it was obtained."""
        return asdict(self) | {"method": self.method}

    def with_score(self, score: float) -> "Thresholds":
        """Return a copy with another score threshold; the others keep their ratio to it."""
        if not self.score:
            return replace(self, score=score, pixel=score, unsure=None)
        factor = score / self.score
        unsure = None if self.unsure is None else min(self.unsure * factor, score)
        return replace(self, score=score, pixel=self.pixel * factor, unsure=unsure)
