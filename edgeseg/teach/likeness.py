"""Flags of collected pictures that are unlike all others.

Every picture is held against the others without it (leave one out), by a small grey copy: what a
fit will say with its network is told here while the part still lies before the camera.
"""

from collections.abc import Collection, Mapping

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.messages import Message
from edgeseg.decision.score_statistics import middle_and_spread
from edgeseg.runtime.drift.appearance import Look, LookWatch

FEWEST = 6  # pictures that can say what is usual
_SAMPLE = 200  # pictures whose neighbours say what is usual, from all over the list
_SPREADS = 5.0  # deviations of the others, from which on a picture is odd
_LEAST = 2.0  # grey levels: parts that are all alike must not make each other odd

Values = NDArray[np.float64]


def flags_of(
    looks: Mapping[str, Look], *, wanted: Collection[str] | None = None
) -> dict[str, list[Message]]:
    """Flag each picture, or those wanted; names are in the order they came in."""
    names = list(looks)
    asked = [index for index, name in enumerate(names) if wanted is None or name in wanted]
    flags: dict[str, list[Message]] = {names[index]: [] for index in asked}
    if not asked:
        return flags
    thumbs = np.stack([look.thumb.ravel() for look in looks.values()])
    nearest: dict[int, float] = {}
    for index in asked:
        nearest[index] = _nearest(_distances(thumbs, index), index)
    if len(names) < FEWEST:
        return flags
    sample = range(0, len(names), _step(len(names)))
    usual = np.array([_nearest(_distances(thumbs, index), index) for index in sample])
    light = np.array([float(np.mean(look.brightness)) for look in looks.values()])
    focus = np.array([look.sharpness for look in looks.values()])
    for index in asked:
        said = flags[names[index]]
        if _is_below(-nearest[index], -usual, least=_LEAST):
            said.append(Message("flag_unlike"))
        others = np.delete(light, index)
        if _is_below(light[index], others, least=LookWatch.LIGHT_ALONE):
            said.append(Message("flag_darker"))
        elif _is_below(-light[index], -others, least=LookWatch.LIGHT_ALONE):
            said.append(Message("flag_brighter"))
        if _is_below(focus[index], np.delete(focus, index), least=LookWatch.FOCUS_ALONE):
            said.append(Message("flag_blurred"))
    return flags


def _step(count: int) -> int:
    return max(1, count // _SAMPLE)


def _distances(thumbs: NDArray[np.uint8], index: int) -> NDArray[np.float32]:
    """Compute the mean difference in grey levels from one picture to all, in bytes for speed."""
    differences = cv2.absdiff(thumbs, np.broadcast_to(thumbs[index], thumbs.shape))
    sums = cv2.reduce(differences, 1, cv2.REDUCE_SUM, dtype=cv2.CV_32S).ravel()
    return np.asarray(sums / np.float32(thumbs.shape[1]), np.float32)


def _nearest(distances: NDArray[np.float32], index: int) -> float:
    """Distance to the nearest other picture."""
    distances[index] = np.inf
    return float(distances.min())


def _is_below(value: float, others: Values, *, least: float) -> bool:
    """Tell whether a value lies far below the others."""
    middle, spread = middle_and_spread(others)
    return bool(middle - value > max(least, _SPREADS * spread))
