"""The good images that decide the threshold: with few of them, those of the highest scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.decision.operating_point import p_value, rate_threshold
from edgeseg.decision.outliers import outside
from edgeseg.decision.score_origin import Promise

MOST = 10
LEAST = 3  # images to show even where fewer decide


@dataclass(frozen=True, kw_only=True)
class DecidingImage:
    """A good image among the highest scores, and what it does to the threshold."""

    image: str  # where it is
    score: float  # by a model without it
    p_value: float  # among the other good images
    threshold_without: float  # if this image and those above it had not been there


def deciding_images(
    scores: Sequence[float] | NDArray[np.floating[Any]],
    images: Sequence[str],
    *,
    rate: float,
    promise: Promise,
) -> tuple[DecidingImage, ...]:
    """Return the good images from the threshold up, a few in any case.

    `images` names those of the highest scores, the highest first, as far as they are known.
    """
    if not images or len(scores) < 2:
        return ()
    falling = -np.sort(-np.asarray(scores, np.float64))

    def threshold_of(first: int) -> float:
        some = falling[first:].tolist()
        return rate_threshold(some, false_alarm_rate=rate, promise=promise).value

    count = max(int(np.count_nonzero(falling >= threshold_of(0))), LEAST)
    return tuple(
        DecidingImage(
            image=images[place],
            score=float(falling[place]),
            p_value=p_value(float(falling[place]), np.delete(falling, place)),
            threshold_without=threshold_of(place + 1),
        )
        for place in range(min(count, MOST, len(images), falling.size - 1))
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
