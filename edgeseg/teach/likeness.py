"""Which collected pictures are nearly the same, and which are unlike all others.

Every picture is held against the others without it (leave one out), by a small grey copy: what a
fit will say with its network is told here while the part still lies before the camera.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edgeseg.runtime.drift.appearance import Look, LookWatch, same_view

FEWEST = 6  # pictures that can say what is usual
_SPREADS = 5.0  # deviations of the others, from which on a picture is odd
_LEAST = 2.0  # grey levels: parts that are all alike must not make each other odd
_AS_SIGMA = 1.4826  # a median deviation as a standard one


def flags_of(looks: Mapping[str, Look]) -> dict[str, list[str]]:
    """What is to be said of each picture; names in the order in which they came."""
    names = list(looks)
    flags: dict[str, list[str]] = {name: [] for name in names}
    for index, name in enumerate(names):
        for earlier in names[:index]:
            if same_view(looks[name], looks[earlier]):
                flags[name].append(f"duplicate of {earlier}")
                break
    if len(names) < FEWEST:
        return flags
    for name, far in zip(names, _unlike(list(looks.values())), strict=True):
        if far:
            flags[name].append("odd: unlike all other pictures")
    light = np.array([float(np.mean(look.brightness)) for look in looks.values()])
    focus = np.array([look.sharpness for look in looks.values()])
    for index, name in enumerate(names):
        darker = _below(light, index, least=LookWatch.LIGHT_ALONE)
        brighter = _below(-light, index, least=LookWatch.LIGHT_ALONE)
        if darker or brighter:
            flags[name].append(f"odd: {'darker' if darker else 'brighter'} than the others")
        if _below(focus, index, least=LookWatch.FOCUS_ALONE):
            flags[name].append("blurred")
    return flags


def _unlike(looks: list[Look]) -> list[bool]:
    """Whether the nearest other picture is far, as nearest ones go among the others."""
    thumbs = np.stack([look.thumb.astype(np.float32).ravel() for look in looks])
    count = len(thumbs)
    nearest = np.full(count, np.inf)
    for index in range(count):
        distances = np.abs(thumbs - thumbs[index]).mean(axis=1)
        distances[index] = np.inf
        nearest[index] = distances.min()
    return [_below(-nearest, index, least=_LEAST) for index in range(count)]


def _below(values: NDArray[np.float64], index: int, *, least: float) -> bool:
    """Whether one value lies far below those of the others."""
    others = np.delete(values, index)
    middle = float(np.median(others))
    spread = _AS_SIGMA * float(np.median(np.abs(others - middle)))
    return bool(middle - values[index] > max(least, _SPREADS * spread))
