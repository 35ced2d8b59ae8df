"""The tail of good scores: a threshold of a rate that one odd picture does not decide.

    x = log score - u         above u, the highest logarithm below the m = n / 4 highest scores
    P(x > t) = exp(-t / b)    taken for the law of the tail: exponential
    S = sum of x, in which the highest score counts as the second highest;  r = m - 1

A rank alone makes the highest scores the threshold, and with them the one good picture that is
unlike all others. Here all of the tail says how it falls off, and its highest score is only known
to be at least as high as the next: 2 S / b is chi-square with 2 r degrees of freedom, whatever
that score was. So a new good score lies above u + S ((p / rate)^(1/r) - 1) with probability `rate`
in the mean over fits, where p = (m + 1) / (n + 1) is that of u: exact where the law holds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgeseg.decision.binomial import Interval, rate_where

FEWEST_SCORES = 10  # fewer have no tail
_FEWEST_TAIL = 5
_SHARE = 4  # the tail: a quarter of the scores
_STEPS = 2000  # of sums that stand for integrals


@dataclass(frozen=True, kw_only=True)
class GoodTail:
    """The law of the highest good scores."""

    start: float  # u
    total: float  # S
    count: int  # n

    @classmethod
    def of(cls, scores: Sequence[float]) -> "GoodTail | None":
        """Return the tail of good scores; None where they are too few, or do not differ."""
        count = len(scores)
        if count < FEWEST_SCORES or min(scores) <= 0:
            return None
        logs = np.sort(np.log(np.asarray(scores, np.float64)))
        beyond = tail_size(count)
        start = float(logs[-beyond - 1])
        above = logs[-beyond:] - start
        total = float(above[:-1].sum() + above[-2])
        return cls(start=start, total=total, count=count) if total > 0 else None

    def threshold(self, rate: float) -> float:
        """Return the score that so many good ones exceed."""
        return math.exp(self.start + self.total * _reach(self.count, rate))


def has_tail(count: int, rate: float) -> bool:
    """Tell whether so many scores have a tail that a rate lies in."""
    return count >= FEWEST_SCORES and rate < _chance(count)


def tail_size(count: int) -> int:
    """Return m: how many of the scores are the tail."""
    return max(_FEWEST_TAIL, count // _SHARE)


def _reach(count: int, rate: float) -> float:
    """Return how far the threshold lies above u, in units of S."""
    return float((_chance(count) / rate) ** (1 / (tail_size(count) - 1)) - 1)


def _chance(count: int) -> float:
    """Return p: how often a new good score exceeds u, in the mean over fits."""
    return (tail_size(count) + 1) / (count + 1)


def tail_interval(count: int, rate: float, *, share: float) -> Interval:
    """Return the true rates between which such a share of all fits lies, as many below as above.

    The true rate is q exp(-c G): q is Beta(m + 1, n - m), how often a new score exceeds u, and
    G = S / b is Gamma(r).
    """
    beyond = tail_size(count)
    reach, freedom = _reach(count, rate), beyond - 1
    chances = (np.arange(_STEPS) + 0.5) / _STEPS
    weights = _density(beyond * np.log(chances) + (count - beyond - 1) * np.log1p(-chances))
    sums = np.linspace(0, freedom + 12 * math.sqrt(freedom) + 12, _STEPS + 1)[1:]
    below = np.cumsum(_density((freedom - 1) * np.log(sums) - sums))

    def chance_below(true_rate: float) -> float:
        needed = (np.log(chances) - math.log(true_rate)) / reach  # G from here on is as low
        return float(weights @ (1 - np.interp(needed, sums, below, left=0.0)))

    low = (1 - share) / 2
    return Interval(rate_where(chance_below, low), rate_where(chance_below, 1 - low))


def _density(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights that sum to one, from their logarithms up to a constant."""
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())
