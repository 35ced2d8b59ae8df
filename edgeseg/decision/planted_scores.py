"""Scores of planted defects: the cost of a threshold before real defects are known."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.decision.foreign import no_floors


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
