"""Scores of planted defects: the cost of a threshold before real defects are known."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message
from edgeseg.base.plain import JsonObject
from edgeseg.decision.foreign import no_floors
from edgeseg.decision.prediction import above


@dataclass(frozen=True, kw_only=True)
class PlantedScores:
    """Scores of copies of good images with one planted defect each, by models without them."""

    scores: NDArray[np.float32]  # (m,)
    areas: NDArray[np.float32]  # (m,): shares of the picture
    kinds: tuple[str, ...]
    floors: NDArray[np.float32] = field(default_factory=no_floors)  # (m,), or none

    def __post_init__(self) -> None:
        if not self.scores.shape == self.areas.shape == (len(self.kinds),):
            raise UsageError(
                f"planted defects: {self.scores.shape} scores, {self.areas.shape} areas and "
                f"{len(self.kinds)} kinds, expected one of each"
            )

    @property
    def count(self) -> int:
        """The number of copies."""
        return len(self.kinds)


def spots_found(facts: JsonObject, threshold: float) -> Message:
    """Say how many planted spots of the smallest size a threshold finds."""
    scores = np.asarray(facts["scores"], np.float32)
    if not scores.size:
        return Message("smallest_untried", n=facts["px"])
    found = int(np.count_nonzero(above(scores, threshold)))
    return Message("smallest_found", n=found, n_all=int(scores.size), n_px=facts["px"])
