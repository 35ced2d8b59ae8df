"""Detect that this computer was suspended: `time.monotonic` stops meanwhile, and shows no gap."""

import time

_SLEPT_S = 0.1


class Suspension:
    """A comparison of the clock that stops in suspension with the one that does not."""

    def __init__(self) -> None:
        _, self._most_s = ahead_s()

    def has_slept(self) -> bool:
        """Whether the computer was suspended since the last call."""
        least_s, most_s = ahead_s()
        before_s, self._most_s = self._most_s, most_s
        return least_s - before_s > _SLEPT_S


def ahead_s() -> tuple[float, float]:
    """Return how far one clock is ahead, at least and at most: they are not read at once."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0, 0.0
    before_s = time.monotonic()
    awake_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    return awake_s - time.monotonic(), awake_s - before_s
