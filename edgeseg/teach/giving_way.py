"""Give way to the station and still get on: the priority of work beside it.

Linux shares processors among sessions first, where it does that, and then among their processes. A
child is a session of its own, whose niceness may rise and fall without privileges. A process may
only give way further and never come back, unless it is privileged. So a child begins with the
lowest priority where it can come back from it, and elsewhere with one that is low enough; a floor
raises it while it gets less than a tenth of a core.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

NICENESS = "EDGESEG_NICENESS"  # of jobs beside a station
FLOOR, ENOUGH = 0.1, 0.3  # of a core: below it the priority rises, above it falls again
_LOWEST = 19
_FIRST, _BOUND = 5, 10  # of a process that cannot come back: a third and a tenth of the weight of 0
_RISE, _FALL = 3, 1  # three steps are twice the weight
_EVERY_S = 3.0
_SESSION = Path("/proc/self/autogroup")


def niceness() -> int:
    """Return the niceness that jobs begin with: the lowest priority, unless told otherwise."""
    wish = os.environ.get(NICENESS, "")
    return min(int(wish), _LOWEST) if wish.isdecimal() else _LOWEST


def give_way_here() -> None:
    """Give this thread, and what it starts, a low priority."""
    if sys.platform == "linux":  # where a thread has a niceness of its own
        with suppress(OSError):
            lower = min(niceness(), _BOUND)
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), lower)


def next_niceness(now: int, share: float, *, lowest: int) -> int:
    """Return the niceness of one that got such a share of a core with the present one."""
    if share < FLOOR:
        return max(0, now - _RISE)
    return min(lowest, now + _FALL) if share > ENOUGH else now


class GivingWay:
    """The priority of this process, which is a session of its own: low, with a floor.

    It looks again and again at the share of a core that it gets.
    """

    def __init__(
        self,
        tell: Callable[[float], None],
        *,
        clock_s: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[], float] = time.process_time,
    ) -> None:
        self._tell, self._clock_s, self._cpu_s = tell, clock_s, cpu_s
        self._lowest = self.session = niceness()
        self._comes_back = _can_come_back()
        self.process = self._lowest if self._comes_back else min(self._lowest, _FIRST)
        set_process(self.process)
        set_session(self.session)
        self._before = clock_s(), cpu_s()

    def look(self) -> None:
        """Measure the share since the last look, tell it, and choose the priority by it."""
        now = self._clock_s(), self._cpu_s()
        share = (now[1] - self._before[1]) / max(now[0] - self._before[0], 1e-9)
        self._before = now
        self._tell(share)
        session = next_niceness(self.session, share, lowest=self._lowest)
        if session != self.session and set_session(session):
            self.session = session
        process = self._next_of_process(share)
        if process != self.process:
            self.process = process
            set_process(process)

    def watch(self, ended: threading.Event) -> None:
        """Look until the work has ended."""
        while not ended.wait(_EVERY_S):
            self.look()

    def _next_of_process(self, share: float) -> int:
        if self._comes_back:
            return next_niceness(self.process, share, lowest=self._lowest)
        bound = max(self.process, min(self._lowest, _BOUND))
        return bound if share > ENOUGH else self.process


def set_process(value: int) -> None:
    """Set the niceness of all threads of this process; those to come inherit it."""
    with suppress(OSError):
        threads = [int(path.name) for path in Path("/proc/self/task").iterdir()]
        for thread in threads or [0]:
            os.setpriority(os.PRIO_PROCESS, thread, value)


def set_session(value: int) -> bool:
    """Set the niceness of the session of this process; False where it is not to be had now."""
    try:  # some systems have none, and all jobs of a computer together may set one in .1 s
        _SESSION.write_text(f"{value}\n", encoding="ascii")
    except OSError:
        return False
    return True


def _can_come_back() -> bool:
    """Tell whether this process may lower its niceness again; it costs one step where not."""
    try:
        now = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, 0, min(now + 1, _LOWEST))
        os.setpriority(os.PRIO_PROCESS, 0, now)
    except OSError:
        return False
    return True
