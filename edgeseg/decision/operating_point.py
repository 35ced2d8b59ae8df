"""The false-alarm rate a threshold promises and what it costs, from the scores of good parts alone.

A model carries the scores of good images that were judged by models fitted without them. Choosing
another false-alarm rate, and saying how odd a new part is, needs these scores and nothing else.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message, Setting
from edgeseg.decision.binomial import Interval, rate_quantile
from edgeseg.decision.good_tail import GoodTail, has_tail, tail_interval
from edgeseg.decision.prediction import above
from edgeseg.decision.score_origin import Promise, ThresholdChoice, good_words, percent
from edgeseg.decision.threshold_bounds import finds_nothing
from edgeseg.decision.thresholds import Thresholds

FEWEST_PARTS = 5  # fewer different parts promise nothing that is worth the word exact
RATES = (0.005, 0.01, 0.02, 0.05)  # that are shown where a choice is offered
_MOST = 0.8  # share of all fits that an interval of rates is for


@dataclass(frozen=True, kw_only=True)
class RateThreshold:
    """A threshold and the false-alarm rate it answers for."""

    value: float
    rate: float  # the smallest rate that the number of scores can answer for, if above the wish


def conformal_threshold(scores: Sequence[float], *, false_alarm_rate: float) -> RateThreshold:
    """Return the threshold that a new good image exceeds with at most the requested probability.

    If the n scores and the new one are exchangeable, the new one is equally likely to have any of
    the n + 1 ranks, so it exceeds the ceil((n + 1)(1 - rate))-th smallest with probability at most
    `rate`: exact for every n and every distribution. With fewer than 1 / rate - 1 scores no finite
    threshold can promise it, and the highest score answers for 1 / (n + 1). Pictures of one part
    are not exchangeable with those of another: there must be one score a part.
    """
    if not len(scores):
        raise UsageError("no scores of good images to choose a threshold from; calibrate first")
    check_rate(false_alarm_rate)
    ordered = sorted(float(score) for score in scores)
    count = len(ordered)
    rank = _rank(count, false_alarm_rate)
    if rank > count:
        return RateThreshold(value=ordered[-1], rate=1 / (count + 1))
    return RateThreshold(value=ordered[max(rank, 1) - 1], rate=false_alarm_rate)


def rate_threshold(
    scores: Sequence[float], *, false_alarm_rate: float, promise: Promise
) -> RateThreshold:
    """Return the threshold of a rate, by the tail of the scores or by their ranks.

    Both answer for the same rate: the tail is not followed beyond 1 / (n + 1) either. Too few
    scores, or a rate that lies below the tail, leave the ranks.
    """
    ranked = conformal_threshold(scores, false_alarm_rate=false_alarm_rate)
    if promise == "conformal" or not has_tail(len(scores), ranked.rate):
        return ranked
    tail = GoodTail.of(scores)
    return ranked if tail is None else replace(ranked, value=tail.threshold(ranked.rate))


def _rank(count: int, rate: float) -> int:
    """Return the rank of the threshold among ascending scores; above `count` there is none."""
    # The rounding guards (n + 1)(1 - rate) against the binary form of a decimal rate.
    return math.ceil(round((count + 1) * (1 - rate), 9))


def rate_interval(count: int, *, rate: float, promise: Promise) -> Interval:
    """Return the true rates between which eight fits of ten on `count` parts lie.

    A promise holds on the average over fits: one set of good parts is luckier than another.
    """
    answered = max(rate, 1 / (count + 1))
    if promise == "tail" and has_tail(count, answered):
        return tail_interval(count, answered, share=_MOST)
    highest = count + 1 - min(max(_rank(count, rate), 1), count)
    low, high = (1 - _MOST) / 2, (1 + _MOST) / 2
    return Interval(*(rate_quantile(highest, count, share=share) for share in (low, high)))


def interval_words(count: int, *, rate: float, promise: Promise) -> str:
    """Say how the true rate varies from fit to fit."""
    low, high = (
        percent(float(f"{each:.2g}")) for each in rate_interval(count, rate=rate, promise=promise)
    )
    return f"from fit to fit it varies: eight fits of ten alarm at {low} to {high}"


def spread_table(
    counts: Sequence[int] = (10, 20, 49, 100, 200, 500),
    rates: Sequence[float] = (0.01, 0.02, 0.05, 0.1),
) -> list[list[str]]:
    """Tabulate the promised rate and that of one fit in ten (shown by docs/decisions.md)."""
    head = ["different parts", *(f"asked for {percent(rate)}" for rate in rates)]
    rows = [[str(count), *(_spread_cell(count, rate) for rate in rates)] for count in counts]
    return [head, *rows]


def _spread_cell(count: int, rate: float) -> str:
    by_tail, by_rank = (
        rate_interval(count, rate=rate, promise=promise).high for promise in get_args(Promise)
    )
    promised = max(rate, 1 / (count + 1))
    return f"{100 * promised:.2g} %: {100 * by_tail:.2g} %, {100 * by_rank:.2g} %"


def check_rate(rate: float) -> None:
    """Refuse a value that is not a rate."""
    if not 0 < rate < 1:
        raise UsageError(Setting("rate", rate), ": expected above 0 and below 1, for example 0.01")


def needed_images(rate: float) -> int:
    """Return how many good images, each of another part, can promise a false-alarm rate."""
    return math.ceil(round(1 / rate - 1, 9))


def p_value(score: float, good_scores: Sequence[float] | NDArray[np.floating]) -> float:
    """Return how often a good part looks at least this odd; a score that is NaN is the oddest.

    (1 + number of good scores from this one up) / (n + 1): for a good part that is exchangeable
    with those behind the scores, P(p <= a) <= a for every a.
    """
    values = np.asarray(good_scores, np.float64)
    as_odd = 0 if math.isnan(score) else int(np.count_nonzero(values >= score))
    return (1 + as_odd) / (values.size + 1)


def oddness(p: float, parts: int) -> Message:
    """Write a p-value in words; the scores of so many good parts are behind it."""
    # Where none of them is as odd, the p-value says how many parts there were, and nothing of how
    # odd this one is: the smallest that they can give.
    if parts > 1 and round(p * (parts + 1)) <= 1:
        return Message("odd_above_all", n=parts)
    one_in = round(1 / p)
    return Message("odd_not") if one_in < 2 else Message("odd_one_in", n=one_in)


@dataclass(frozen=True, kw_only=True)
class OperatingPoint:
    """The thresholds of one false-alarm rate, what they promise, and what they would cost."""

    requested_rate: float
    promised_rate: float  # above the request where there are too few good images for it
    score: float
    pixel: float
    images: int  # different parts behind it, each with one score: usually one image each
    needed: int  # different parts that could answer for the request
    recall: float | None = None  # share of planted defects above the threshold, where known
    exceeding: int = 0  # of these good images themselves
    pictures: int | None = None  # good images behind it; None: as many as parts
    promise: Promise = "conformal"

    @property
    def shortfall(self) -> str | None:
        """A sentence on what is missing, if there are too few images for the requested rate."""
        if self.kept:
            return None
        several = self.pictures is not None and self.pictures > self.images
        return (
            f"{good_words(self.pictures, self.images)} answer for a false-alarm rate of "
            f"{self.promised_rate:.1%}, not {self.requested_rate:.1%}; "
            f"{self.needed}{' different parts' * several} would do"
        )

    @property
    def interval(self) -> Interval:
        """The true rates between which eight fits of ten lie."""
        return rate_interval(self.images, rate=self.requested_rate, promise=self.promise)

    @property
    def kept(self) -> bool:
        """Whether there are enough images for the requested rate."""
        return self.promised_rate <= self.requested_rate


def operating_point(
    scores: Sequence[float] | NDArray[np.floating],
    peaks: Sequence[float] | NDArray[np.floating],
    *,
    rate: float,
    promise: Promise,
    planted: Sequence[float] | NDArray[np.floating] = (),
    pictures: int | None = None,
) -> OperatingPoint:
    """Return the thresholds of a rate, its promise and its cost; one score and peak per part."""
    good, high = np.asarray(scores, np.float64), np.asarray(peaks, np.float64)
    chosen, pixel = (
        rate_threshold(values.tolist(), false_alarm_rate=rate, promise=promise)
        for values in (good, high)
    )
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
        pictures=pictures,
        promise=promise,
    )


def by_rate(stored: Thresholds, point: OperatingPoint) -> Thresholds:
    """Return the stored thresholds with another rate; a band that no longer fits is dropped."""
    return replace(
        stored,
        score=point.score,
        pixel=point.pixel,
        false_alarm_rate=point.promised_rate,
        requested_rate=point.requested_rate,
        choice=ThresholdChoice(by="rate", number=point.requested_rate),
        promise=point.promise,
        unsure=None,
        unsure_rate=None,
    )


def by_value(stored: Thresholds, scores: Sequence[float], value: float) -> Thresholds:
    """Return the stored thresholds with a value chosen by hand, whose rate is an estimate."""
    if not math.isfinite(value) or value < min(scores):
        raise UsageError(
            Setting("value", value),
            f": every good image would be an alarm; expected a number from {min(scores):.4g}, "
            "the lowest of their scores",
        )
    why = finds_nothing(value, max(scores))
    if why is not None:
        raise UsageError(Setting("value", value), f": {why}; expected a lower one")
    exceeding = int(np.count_nonzero(above(np.asarray(scores, np.float64), value)))
    rate = (1 + exceeding) / (len(scores) + 1)
    return replace(
        stored.with_score(value),
        false_alarm_rate=rate,
        requested_rate=rate,
        choice=ThresholdChoice(by="value", number=value),
        unsure=None,
        unsure_rate=None,
    )


def with_band(chosen: Thresholds, scores: Sequence[float], *, rate: float) -> Thresholds:
    """Add a second threshold for a larger rate: what lies between the two is unsure."""
    wish = chosen.requested_rate
    lower = rate_threshold(scores, false_alarm_rate=rate, promise=chosen.promise).value
    if rate <= wish or lower > chosen.score:
        raise UsageError(
            Setting("unsure_rate", rate),
            f": expected above {wish:g}, the rate of the threshold itself, so that scores "
            "between the two are unsure",
        )
    return replace(chosen, unsure=lower, unsure_rate=rate)


def guarantee(chosen: Thresholds) -> Message:
    """Say what is known of the promise, by the way in which the good scores were obtained."""
    if chosen.false_alarm_rate >= 1:
        return Message("guarantee_none")
    if chosen.parts < FEWEST_PARTS:
        return Message("guarantee_few", n=chosen.parts)
    if chosen.grouping == "pictures":
        return Message("guarantee_copies", n=chosen.images, n_parts=chosen.parts)
    if chosen.by_tail and chosen.origin.kind in ("split", "cross"):
        return Message("guarantee_tail")
    known = {"split": "guarantee_split", "cross": "guarantee_cross"}
    return Message(known.get(chosen.origin.kind, "guarantee_estimate"))
