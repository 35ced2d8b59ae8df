"""The good images that decide the threshold: with few of them, those of the highest scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.decision.binomial import at_most
from edgeseg.decision.good_tail import FEWEST_SCORES, tail_size
from edgeseg.decision.operating_point import p_value, rate_threshold
from edgeseg.decision.outliers import outside
from edgeseg.decision.score_origin import Promise

MOST = 10
LEAST = 3  # images to show even where fewer decide
_BY_CHANCE = 0.2  # what seems to stand apart less often than this, among parts that are all good


@dataclass(frozen=True, kw_only=True)
class DecidingImage:
    """A good image among the highest scores, and what it does to the threshold."""

    image: str  # where it is
    score: float  # by a model without it
    p_value: float  # among the other good images
    threshold_without: float  # if this image and those above it had not been there


def deciding_count(scores: Sequence[float] | NDArray[np.floating[Any]], threshold: float) -> int:
    """Return how many of the highest good scores somebody looks at, with one score a part.

    Those from the threshold up, a few in any case, since by their tail a threshold lies above the
    scores that set it; and all that are far outside the others.
    """
    values = np.asarray(scores, np.float64)
    above = int(np.count_nonzero(values >= threshold))
    return min(max(min(max(above, LEAST), MOST), int(outside(values).sum())), values.size)


def apart_count(scores: Sequence[float] | NDArray[np.floating[Any]], *, most: int) -> int:
    """Return how many of the highest good scores seem to be of parts unlike the others; 0: none.

    Where the tail of m scores is exponential, the i-th highest logarithm is E / i above the next,
    with E of one law for all i. The first k of these then have a share of their sum that is
    Beta(k, m - k): the k whose share is the least likely stand apart.
    """
    count, size = len(scores), tail_size(len(scores))
    falling = -np.sort(-np.asarray(scores, np.float64))[: size + 1]
    if count < FEWEST_SCORES or falling[-1] <= 0 or falling[0] == falling[-1]:
        return 0
    steps = -np.diff(np.log(falling)) * np.arange(1, size + 1)
    shares = np.cumsum(steps) / steps.sum()
    places = range(1, min(most, size - 1) + 1)
    chances = {k: at_most(k - 1, size - 1, float(shares[k - 1])) for k in places}
    first = min(chances, key=chances.__getitem__)
    return first if chances[first] < _BY_CHANCE else 0


def deciding_images(
    scores: Sequence[float] | NDArray[np.floating[Any]],
    images: Sequence[str],
    *,
    rate: float,
    promise: Promise,
) -> tuple[DecidingImage, ...]:
    """Return the good images that `deciding_count` asks for.

    `images` names those of the highest scores, the highest first, as far as they are known.
    """
    if not images or len(scores) < 2:
        return ()
    falling = -np.sort(-np.asarray(scores, np.float64))

    def threshold_of(first: int) -> float:
        some = falling[first:].tolist()
        return rate_threshold(some, false_alarm_rate=rate, promise=promise).value

    count = deciding_count(falling, threshold_of(0))
    return tuple(
        DecidingImage(
            image=images[place],
            score=float(falling[place]),
            p_value=p_value(float(falling[place]), np.delete(falling, place)),
            threshold_without=threshold_of(place + 1),
        )
        for place in range(min(count, len(images), falling.size - 1))
    )


@dataclass(frozen=True, kw_only=True)
class OddGoodParts:
    """Good images that score unlike the others: bad ones by mistake, or rare good ones."""

    count: int
    threshold_without: float


def odd_good_parts(
    scores: Sequence[float], *, rate: float, promise: Promise
) -> OddGoodParts | None:
    """Return what good scores leave in doubt; None where all belong together.

    Nobody but who knows the parts can tell a bad part among the good ones from a rare good one.
    """
    values = np.asarray(scores, np.float64)
    odd = outside(values)
    if not odd.any():
        return None
    left = rate_threshold(values[~odd].tolist(), false_alarm_rate=rate, promise=promise)
    return OddGoodParts(count=int(odd.sum()), threshold_without=left.value)
