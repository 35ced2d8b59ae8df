"""Did this computer sleep? `time.monotonic` stands still meanwhile, so no gap is seen by it."""

import time

_SLEPT_S = 0.1  # more than it takes to read two clocks one after the other


class Suspension:
    """Compares the clock that stands still with the one that does not, where there are both."""

    def __init__(self) -> None:
        self._ahead_s = _ahead_s()

    def passed(self) -> bool:
        """Whether it slept since the last time that somebody asked."""
        before_s, self._ahead_s = self._ahead_s, _ahead_s()
        return self._ahead_s - before_s > _SLEPT_S


def _ahead_s() -> float:
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    # Read first: a pause between the two must not look like sleep.
    awake_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    return awake_s - time.monotonic()
