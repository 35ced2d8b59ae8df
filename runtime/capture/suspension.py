"""Did this computer sleep? `time.monotonic` stands still meanwhile, so no gap is seen by it."""

import time

_SLEPT_S = 0.1


class Suspension:
    """Compares the clock that stands still with the one that does not, where there are both."""

    def __init__(self) -> None:
        _, self._most_s = ahead_s()

    def passed(self) -> bool:
        """Whether it slept since the last time that somebody asked."""
        least_s, most_s = ahead_s()
        before_s, self._most_s = self._most_s, most_s
        return least_s - before_s > _SLEPT_S


def ahead_s() -> tuple[float, float]:
    """How far one clock is ahead, at least and at most: a busy computer may pause between them."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0, 0.0
    before_s = time.monotonic()
    awake_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    return awake_s - time.monotonic(), awake_s - before_s
