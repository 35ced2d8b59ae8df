"""What a threshold promises and what it costs, from the scores of good parts alone.

A model carries the scores of good images that were judged by models fitted without them. Choosing
another false-alarm rate, and saying how odd a new part is, needs these scores and nothing else.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.prediction import above
from edgeseg.errors import UsageError

RATES = (0.005, 0.01, 0.02, 0.05)  # that are shown where a choice is offered


@dataclass(frozen=True, kw_only=True)
class ConformalThreshold:
    """A threshold and the false-alarm rate it answers for."""

    value: float
    rate: float  # the smallest rate that the number of scores can answer for, if above the wish


def conformal_threshold(scores: Sequence[float], *, false_alarm_rate: float) -> ConformalThreshold:
    """The threshold that a new good image exceeds with at most the requested probability.

    If the n scores and the new one are exchangeable, the new one is equally likely to have any of
    the n + 1 ranks, so it exceeds the ceil((n + 1)(1 - rate))-th smallest with probability at most
    `rate`: exact for every n and every distribution. With fewer than 1 / rate - 1 scores no finite
    threshold can promise it, and the highest score answers for 1 / (n + 1).
    """
    if not len(scores):
        raise UsageError("no scores of good images to choose a threshold from; calibrate first")
    if not 0 < false_alarm_rate < 1:
        raise UsageError(f"false_alarm_rate={false_alarm_rate}: expected above 0 and below 1")
    ordered = sorted(float(score) for score in scores)
    count = len(ordered)
    # The rounding guards (n + 1)(1 - rate) against the binary form of a decimal rate.
    rank = math.ceil(round((count + 1) * (1 - false_alarm_rate), 9))
    if rank > count:
        return ConformalThreshold(value=ordered[-1], rate=1 / (count + 1))
    return ConformalThreshold(value=ordered[max(rank, 1) - 1], rate=false_alarm_rate)


def needed_images(rate: float) -> int:
    """How many good images can answer for a false-alarm rate."""
    return math.ceil(round(1 / rate - 1, 9))


def p_value(score: float, good_scores: Sequence[float] | NDArray[np.floating]) -> float:
    """How often a good part looks at least this odd; a score that is no number is the oddest.

    (1 + number of good scores from this one up) / (n + 1): for a good part that is exchangeable
    with those behind the scores, P(p <= a) <= a for every a.
    """
    values = np.asarray(good_scores, np.float64)
    as_odd = 0 if math.isnan(score) else int(np.count_nonzero(values >= score))
    return (1 + as_odd) / (values.size + 1)


def oddness(p: float) -> str:
    """A p-value as people say it."""
    parts = round(1 / p)
    return "as a good part looks" if parts < 2 else f"one good part in {parts} looks this odd"


@dataclass(frozen=True, kw_only=True)
class OperatingPoint:
    """One choice of a rate: its thresholds, what it promises, and what it would cost."""

    requested_rate: float
    promised_rate: float  # above the request where there are too few good images for it
    score: float
    pixel: float
    images: int  # good images behind it
    needed: int  # good images that could answer for the request
    recall: float | None = None  # share of planted defects above the threshold, where known
    exceeding: int = 0  # of these good images themselves

    @property
    def kept(self) -> bool:
        """Whether the images can answer for the rate that was asked for."""
        return self.promised_rate <= self.requested_rate


def operating_point(
    scores: Sequence[float] | NDArray[np.floating],
    peaks: Sequence[float] | NDArray[np.floating],
    *,
    rate: float,
    planted: Sequence[float] | NDArray[np.floating] = (),
) -> OperatingPoint:
    """The thresholds of a rate, with its promise and its price."""
    good, high = np.asarray(scores, np.float64), np.asarray(peaks, np.float64)
    chosen = conformal_threshold(good.tolist(), false_alarm_rate=rate)
    pixel = conformal_threshold(high.tolist(), false_alarm_rate=rate)
    defects = np.asarray(planted, np.float64)
    return OperatingPoint(
        requested_rate=rate,
        promised_rate=chosen.rate,
        score=chosen.value,
        pixel=pixel.value,
        images=int(good.size),
        needed=needed_images(rate),
        recall=float(np.mean(above(defects, chosen.value))) if defects.size else None,
        exceeding=int(np.count_nonzero(above(good, chosen.value))),
    )
