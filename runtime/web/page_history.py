"""Keep what the page shows engineers: scores over time and the last events, both bounded."""

import threading
from collections import deque
from typing import Any

from edgeseg.base.plain import finite
from edgeseg.runtime.events.records import FrameResult

BUCKET_S = 0.25
BUCKETS = 1200  # five minutes per source
EVENTS = 200


class ScoreHistory:
    """The highest score of every quarter of a second: no peak is lost at any frame rate."""

    def __init__(self) -> None:
        # seconds, highest score or None when all were invalid, whether any frame was not good
        self._buckets: deque[tuple[int, float | None, bool]] = deque(maxlen=BUCKETS)

    def add(self, result: FrameResult) -> None:
        """Take one scored frame."""
        index = int(result.wall_s / BUCKET_S)
        score = finite(result.prediction.score)
        bad = result.verdict != "good"
        last = self._buckets[-1] if self._buckets else None
        if last is not None and index <= last[0]:  # also when the wall clock was set back
            highest = max((s for s in (last[1], score) if s is not None), default=None)
            # One assignment: a reader sees the bucket before or after, never half of it.
            self._buckets[-1] = (last[0], highest, last[2] or bad)
        else:
            self._buckets.append((index, score, bad))

    def since(self, after: int) -> list[list[Any]]:
        """Return buckets [number, score, bad] from number `after` on; that one may have changed."""
        return [list(bucket) for bucket in list(self._buckets) if bucket[0] >= after]


class EventHistory:
    """The last events, numbered, in the form of the event log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: deque[dict[str, object]] = deque(maxlen=EVENTS)
        self._count = 0

    def add(self, event: dict[str, object]) -> None:
        """Keep one event."""
        with self._lock:
            self._count += 1
            self._events.append({"number": self._count, **event})

    def since(self, after: int) -> list[dict[str, object]]:
        """Return events with a higher number, the oldest first."""
        with self._lock:
            return [event for event in self._events if int(str(event["number"])) > after]
