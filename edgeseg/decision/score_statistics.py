"""The scores of good parts that a graph keeps to support its threshold: one per part."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

_QUANTILES = (0.05, 0.5, 0.9, 0.95, 0.99)


def middle_and_spread(values: NDArray[np.floating[Any]]) -> tuple[Any, Any]:
    """Return median and median absolute deviation along the last axis: few odd values move neither.

    The factor makes the deviation of normal values their standard deviation.
    """
    middle = np.median(values, axis=-1, keepdims=True)
    return middle[..., 0], 1.4826 * np.median(np.abs(values - middle), axis=-1)


@dataclass(frozen=True, kw_only=True)
class ScoreStatistics:
    """Scores of good images that the model had not seen: per part, the highest of its images."""

    count: int
    mean: float
    std: float
    min: float
    max: float
    quantiles: dict[str, float] = field(default_factory=dict)
    scores: tuple[float, ...] = ()  # of each image, ascending; none: they were fitted on
    peaks: tuple[float, ...] = ()  # highest values of their maps, ascending
    images: int | None = None  # good images that show these parts; None: one each

    @property
    def pictures(self) -> int:
        """The number of good images."""
        return self.count if self.images is None else self.images

    def __post_init__(self) -> None:
        if self.count < 0 or not self.min <= self.max:
            raise ValueError(f"count: {self.count} from {self.min} to {self.max}, expected some")
        if self.images is not None and self.images < self.count:
            raise ValueError(f"images: {self.images}, expected at least one a part ({self.count})")
        for name in ("scores", "peaks"):
            values = getattr(self, name)
            if len(values) not in (0, self.count) or list(values) != sorted(values):
                raise ValueError(f"{name}: expected none or {self.count} in ascending order")

    @classmethod
    def of(
        cls,
        scores: NDArray[np.floating[Any]],
        peaks: NDArray[np.floating[Any]],
        *,
        images: int | None = None,
    ) -> "ScoreStatistics":
        """Keep the score and the highest map value of every part as they are."""
        return cls(
            count=int(scores.size),
            mean=float(scores.mean()),
            std=float(scores.std()),
            min=float(scores.min()),
            max=float(scores.max()),
            quantiles={str(q): float(np.quantile(scores, q)) for q in _QUANTILES},
            scores=tuple(np.sort(scores).tolist()),
            peaks=tuple(np.sort(peaks).tolist()),
            images=images,
        )

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The scores as an array."""
        return np.asarray(self.scores, np.float64)
