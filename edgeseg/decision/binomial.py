"""Exact confidence intervals of a rate from a count of mistakes (Clopper and Pearson)."""

import math
from collections.abc import Callable
from typing import NamedTuple

from edgeseg.base.errors import UsageError

_STEPS = 60  # of bisection: far below the last digit of a float


class Interval(NamedTuple):
    """An interval that contains the true rate in at least the stated share of all samples."""

    low: float
    high: float


def exact_interval(mistakes: int, trials: int, *, confidence: float = 0.95) -> Interval:
    """Return the exact interval of a rate.

    high is where P(mistakes or fewer) is (1 - confidence) / 2, low where P(mistakes or more) is.
    Without trials every rate is possible.
    """
    if not 0 <= mistakes <= trials:
        raise UsageError(f"{mistakes} mistakes in {trials} trials: expected 0 up to the trials")
    if not 0 < confidence < 1:
        raise UsageError(f"confidence={confidence}: expected above 0 and below 1")
    tail = (1 - confidence) / 2
    low, high = 0.0, 1.0
    if mistakes:
        low = rate_where(lambda rate: 1 - at_most(mistakes - 1, trials, rate), tail, rising=True)
    if mistakes < trials:
        high = rate_where(lambda rate: at_most(mistakes, trials, rate), tail, rising=False)
    return Interval(low, high)


def rate_quantile(highest: int, count: int, *, share: float) -> float:
    """Return the false-alarm rate that such a share of all fits stays below.

    With the m-th highest of n scores as threshold, the true rate is distributed as
    Beta(m, n + 1 - m) over sets of n good parts; below x it lies as often as a binomial of n trials
    at x gives m or more.
    """
    if not 1 <= highest <= count or not 0 < share < 1:
        raise UsageError(f"the {highest}th highest of {count} and a share of {share}: no such rate")
    return rate_where(lambda rate: 1 - at_most(highest - 1, count, rate), share, rising=True)


def rate_where(chance: Callable[[float], float], wanted: float, *, rising: bool = True) -> float:
    """Return the rate at which a chance that rises or falls with it is the wanted one."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if (chance(middle) < wanted) == rising:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def at_most(mistakes: int, trials: int, rate: float) -> float:
    """Return P(X <= mistakes) of a binomial; logarithms, since terms can be below any float."""
    if rate <= 0:
        return 1.0
    if rate >= 1:
        return float(mistakes >= trials)
    hit, miss = math.log(rate), math.log1p(-rate)
    whole = math.lgamma(trials + 1)
    terms = (
        math.exp(
            whole
            - math.lgamma(count + 1)
            - math.lgamma(trials - count + 1)
            + count * hit
            + (trials - count) * miss
        )
        for count in range(mistakes + 1)
    )
    return min(1.0, math.fsum(terms))
