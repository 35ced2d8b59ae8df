"""Rules that make a threshold of good scores and a rate: those that ship, and others to judge.

No rule follows the scores beyond 1 / (n + 1), as the product does not.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from edgeseg.decision.good_tail import has_tail, tail_size
from edgeseg.decision.operating_point import conformal_threshold, rate_threshold
from edgeseg.decision.outliers import Yardstick, outside

_FAR = 3.0  # median absolute deviations above the median
_SPREAD = NormalDist().cdf(1)  # the quantile one standard deviation above the middle

Scores = Sequence[float]


@dataclass(frozen=True, kw_only=True)
class ThresholdRule:
    """A way from good scores and a rate to a threshold."""

    name: str
    value: Callable[[Scores, float], float]
    rate: float | None = None  # that it is asked for; None: the rate of the fit

    def wish(self, rate: float) -> float:
        """Return the rate that it is asked for, by a fit with this rate."""
        return rate if self.rate is None else self.rate


def _ranks(scores: Scores, rate: float) -> float:
    return conformal_threshold(scores, false_alarm_rate=rate).value


def _tail(scores: Scores, rate: float) -> float:
    return rate_threshold(scores, false_alarm_rate=rate, promise="tail").value


def _plain_tail(scores: Scores, rate: float) -> float:
    """Follow the tail with its highest score as it is: S has 2 m degrees of freedom then."""
    least = _least_rate(scores, rate)
    if not has_tail(len(scores), least):
        return _ranks(scores, rate)
    beyond = tail_size(len(scores))
    logs = np.sort(np.log(scores))
    start = float(logs[-beyond - 1])
    chance = (beyond + 1) / (len(scores) + 1)
    reach = (chance / least) ** (1 / beyond) - 1
    return math.exp(start + reach * float((logs[-beyond:] - start).sum()))


def _log_normal(scores: Scores, rate: float) -> float:
    """Take the logarithms for normal, and their spread from the half above the median."""
    logs = np.log(scores)
    middle, high = np.quantile(logs, [0.5, _SPREAD])
    return math.exp(middle + (high - middle) * NormalDist().inv_cdf(1 - _least_rate(scores, rate)))


def _least_rate(scores: Scores, rate: float) -> float:
    return max(rate, 1 / (len(scores) + 1))


def _without_far(scores: Scores) -> Scores:
    values = np.asarray(scores, np.float64)
    near: Scores = values[Yardstick.of(values).spreads(values) <= _FAR].tolist()
    return near


def _without_odd(scores: Scores) -> Scores:
    """Leave out those that a fit asks about: it lists one by chance in one fit of ten."""
    values = np.asarray(scores, np.float64)
    usual: Scores = values[~outside(values)].tolist()
    return usual


TAIL = ThresholdRule(name="tail", value=_tail)
RANKS = ThresholdRule(name="ranks", value=_ranks)
RULES = (
    TAIL,
    RANKS,
    ThresholdRule(name="tail, its highest score as it is", value=_plain_tail),
    ThresholdRule(
        name="what a fit asks about left out, tail", value=lambda s, r: _tail(_without_odd(s), r)
    ),
    ThresholdRule(
        name="beyond 3 deviations left out, tail", value=lambda s, r: _tail(_without_far(s), r)
    ),
    ThresholdRule(
        name="beyond 3 deviations left out, ranks", value=lambda s, r: _ranks(_without_far(s), r)
    ),
    ThresholdRule(name="log-normal of the upper half", value=_log_normal),
    ThresholdRule(name="tail, asked for 3 %", value=_tail, rate=0.03),
    ThresholdRule(name="tail, asked for 4 %", value=_tail, rate=0.04),
    ThresholdRule(name="ranks, asked for 5 %", value=_ranks, rate=0.05),
)
