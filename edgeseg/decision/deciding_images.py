"""The good images that decide the threshold: with few of them, those of the highest scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.decision.operating_point import conformal_threshold, p_value

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
    scores: Sequence[float] | NDArray[np.floating[Any]], images: Sequence[str], *, rate: float
) -> tuple[DecidingImage, ...]:
    """Return the good images from the threshold up, a few in any case.

    `images` names those of the highest scores, the highest first, as far as they are known.
    """
    if not images or len(scores) < 2:
        return ()
    falling = -np.sort(-np.asarray(scores, np.float64))
    threshold = conformal_threshold(falling.tolist(), false_alarm_rate=rate).value
    count = max(int(np.count_nonzero(falling >= threshold)), LEAST)
    return tuple(
        DecidingImage(
            image=images[place],
            score=float(falling[place]),
            p_value=p_value(float(falling[place]), np.delete(falling, place)),
            threshold_without=conformal_threshold(
                falling[place + 1 :].tolist(), false_alarm_rate=rate
            ).value,
        )
        for place in range(min(count, MOST, len(images), falling.size - 1))
    )
