"""Frames that do not show this part at all: another product, an empty belt, a covered lens.

A defect is local: most of the map looks as on good parts. A foreign frame is odd nearly everywhere,
so the value that three quarters of its map exceed, its floor, is far above that of any good part.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHARE = 0.25  # of the map may lie below its floor: a background that other frames have too
# Above the highest floor of good parts, planted defects included. Of seven categories with one
# backbone, all real defects lay below it and all other products above: bench/results/decide/foreign
# has what they reach with the default settings.
MARGIN = 1.7
LEAST = 0.25  # of the pixel's threshold: where good parts lie still, their floor may be nothing
_SAMPLES = 32  # along the shorter side; the map is smooth, so that more tell nothing


def map_floor(map_hw: NDArray[np.floating[Any]]) -> float:
    """Return the value that three quarters of a map exceed; ignored pixels (0) do not count."""
    step = max(1, min(map_hw.shape) // _SAMPLES)
    values = map_hw[step // 2 :: step, step // 2 :: step]
    values = values[values > 0]
    if not values.size:
        return 0.0
    place = int(SHARE * (values.size - 1))
    return float(np.partition(values, place)[place])


def no_floors() -> NDArray[np.float32]:
    """Return the floors of images of which none were kept."""
    return np.empty(0, np.float32)


def foreign_limit(
    floors: Sequence[float] | NDArray[np.floating[Any]],
    *,
    planted: Sequence[float] | NDArray[np.floating[Any]] = (),
    threshold: float,
) -> float | None:
    """Return the floor above which a frame does not show this part; None without known floors.

    A good part's floor exceeds the highest of n others with a probability of 1 / (n + 1); the
    margin is for what good images do not show.
    """
    if not len(floors):
        return None
    known = np.concatenate([np.asarray(floors, np.float64), np.asarray(planted, np.float64)])
    return max(MARGIN * float(known.max()), LEAST * threshold)
