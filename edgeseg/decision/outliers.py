"""Outliers among scores: those too high to belong to the others.

Logarithms of good images' scores are nearly normal, so a score is too high if its own lies many
spreads above the middle: median and median absolute deviation, which a few bad images do not move.
"""

import math
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from edgeseg.decision.score_statistics import middle_and_spread

EXPECTED_BY_CHANCE = 0.1  # good images that a fit lists: one fit in ten lists one
_LEAST_SPREAD = 0.01  # scores one per cent apart are equal, even if all others are more so
FEWEST = 8  # scores: fewer do not tell what is usual
FAR = 3.0  # times the median score: no good part looks so odd
_MANY = 200  # images for whose median and deviation the asymptotic variances hold


@dataclass(frozen=True, kw_only=True)
class Yardstick:
    """The middle and the spread of the logarithms of scores."""

    middle: float
    spread: float

    @classmethod
    def of(cls, scores: NDArray[np.float64]) -> "Yardstick":
        """Measure the scores of images that are mostly good."""
        middle, spread = middle_and_spread(_logs(scores))
        return cls(middle=float(middle), spread=max(float(spread), _LEAST_SPREAD))

    def spreads(self, scores: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Return how many spreads each score is above the middle."""
        return (_logs(scores) - self.middle) / self.spread

    def score_at(self, spreads: float) -> float:
        """Return the score that is so many spreads above the middle."""
        return math.exp(self.middle + spreads * self.spread)


def _logs(scores: NDArray[np.float64] | float) -> NDArray[np.float64]:
    # An image like all others, of constant pixels, has no distance at all.
    return np.asarray(np.log(np.maximum(scores, 1e-30)))


@cache
def cut_for(images: int) -> float:
    """Return the spreads above the middle that EXPECTED_BY_CHANCE of so many normal scores exceed.

    Median and deviation are uncertain themselves. For few images the cut comes from draws; for many
    from their variances pi/2n and 1.36/n, which widen the normal quantile q to this c:
    c^2 = q^2 (1 + (pi/2 + 1.36 c^2) / n).
    """
    chance = EXPECTED_BY_CHANCE / images
    if images >= _MANY:
        q2 = NormalDist().inv_cdf(1 - chance) ** 2
        return math.sqrt(q2 * (1 + math.pi / 2 / images) / (1 - 1.36 * q2 / images))
    logs = np.random.default_rng(0).standard_normal((5000, images))
    middle, spread = middle_and_spread(logs)
    return float(np.quantile((logs - middle[:, None]) / spread[:, None], 1 - chance))


def outside(scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell which good images score far outside the others; none where they are too few."""
    if scores.size < FEWEST:
        return np.zeros(scores.size, np.bool_)
    spreads = Yardstick.of(scores).spreads(scores)
    return np.asarray((spreads > cut_for(scores.size)) | (scores > FAR * np.median(scores)))
