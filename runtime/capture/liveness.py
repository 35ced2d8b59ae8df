"""Tell by the pace of arrival which frames of a source without a clock are new.

    opened --not known--> at its pace --live--> late, early, or never waited for --not known--> ...

After a pause of the link, the camera or this process, frames wait in buffers. They arrive in a
burst, and none of them says how old it is. So a frame counts as new only while the stream keeps
its pace. Until then, a frame is only known to be exposed after the last new one.
"""

import itertools
import math
import time
from collections import deque
from typing import NamedTuple

_STEADY = 8  # intervals in a row that make a pace
_RUN = 33  # arrivals of a live stream that its period is taken from
_PACE = 0.9  # of the period: frames that come faster are drained from a buffer
_UNEVEN = (0.5, 1.5)  # of their mean: intervals that are no pace
_LATE = 0.75  # of the period: more than jitter
_NEW_RATE_S = 5.0  # after which frames that come faster than before are of a camera that is faster
_WAITED = 0.05  # of an interval: the reader slept until the frame was there


class Arrival(NamedTuple):
    """The arrival of a frame, by both clocks, and how long the reader slept until then."""

    now_s: float
    wall_s: float
    waited_s: float

    def stamps(self, exposed_s: float) -> tuple[int, float]:
        """Return an earlier moment by both clocks, as a `Grab` has them."""
        return int(exposed_s * 1e9), self.wall_s - (self.now_s - exposed_s)


class ReadClock:
    """A stopwatch of one blocking read: decoding uses processor time, waiting does not."""

    def __init__(self) -> None:
        self._begun_s, self._busy_s = time.monotonic(), time.thread_time()

    def arrival(self) -> Arrival:
        """Stop when the frame has arrived."""
        now_s = time.monotonic()
        busy_s = time.thread_time() - self._busy_s
        return Arrival(now_s, time.time(), max(0.0, now_s - self._begun_s - busy_s))


def has_waited(waited_s: float, interval_s: float) -> bool:
    """Whether a read had to wait, so that no frame was in a buffer of this computer."""
    return waited_s > _WAITED * interval_s


class Arrivals:
    """The pace of one connection, whose opening began at `opened_s`."""

    def __init__(self, opened_s: float) -> None:
        self._since_s = opened_s  # the last moment at which nothing older can have waited
        self._count = 0  # frames that have come since then
        self._last_s = opened_s
        self._live = False
        self._period_s = math.inf  # when it was live
        self._recent: deque[tuple[float, bool]] = deque(maxlen=_STEADY + 1)
        self._run: deque[float] = deque(maxlen=_RUN)

    def earliest_exposure_s(self, arrival: Arrival) -> float:
        """Return a time before which the frame that arrives now was not exposed."""
        now_s = arrival.now_s
        waited = has_waited(arrival.waited_s, now_s - self._last_s)
        self._last_s = now_s
        self._recent.append((now_s, waited))
        self._count += 1
        if self._live and not self._keeps_up(now_s):
            self._live = False
            self._recent = deque([(now_s, waited)], maxlen=_STEADY + 1)
        elif not self._live and self._at_pace():
            self._live = True
            self._run = deque([at_s for at_s, _ in self._recent][:-1], maxlen=_RUN)
            self._period_s = (now_s - self._run[0]) / len(self._run)
        if self._live:
            self._since_s = max(self._since_s, now_s - max(0.0, self._late_s(now_s)))
            self._run.append(now_s)
            self._period_s = (now_s - self._run[0]) / (len(self._run) - 1)
            self._count = 0
        return self._since_s

    def _keeps_up(self, now_s: float) -> bool:
        """Whether the frame is on time, and the reader waited for one of the last frames.

        A frame that is early shows that those before it waited somewhere, and others may still
        wait.
        """
        waited = any(waited for _, waited in self._recent)
        return waited and abs(self._late_s(now_s)) <= _LATE * self._period_s

    def _late_s(self, now_s: float) -> float:
        """Return the delay behind the promptest of the last frames; negative if early."""
        before = list(self._run)[-_STEADY:]
        due_s = (at_s + (len(before) - i) * self._period_s for i, at_s in enumerate(before))
        return now_s - min(due_s)

    def _at_pace(self) -> bool:
        """Whether intervals are even, and not shorter than before: a buffer is drained faster.

        Frames that came since nothing waited were exposed since then, so the average interval is
        never below the camera's own. For a stream that was live the average counts after a while:
        frames that came too early had waited unseen, while a new rate continues.
        """
        if len(self._recent) <= _STEADY:
            return False
        times = [at_s for at_s, _ in self._recent]
        intervals = [later - at for at, later in itertools.pairwise(times)]
        mean_s = sum(intervals) / len(intervals)
        least, most = (share * mean_s for share in _UNEVEN)
        elapsed_s, expected_s = times[-1] - self._since_s, self._period_s
        if math.isinf(expected_s) or elapsed_s > _NEW_RATE_S:
            expected_s = min(expected_s, elapsed_s / self._count)
        return (
            mean_s >= _PACE * expected_s
            and all(least <= interval <= most for interval in intervals)
            and sum(waited for _, waited in list(self._recent)[1:]) >= _STEADY // 2
        )
