"""Results to their subscribers: in order, each once, from whichever thread ends them."""

import threading
from collections import deque

from edgeseg.runtime.events.publisher import Publisher
from edgeseg.runtime.station.records import StationResult


class Delivery:
    """A subscriber may have a lock of its own and call back: it runs without the station's."""

    def __init__(self, events: Publisher) -> None:
        self._events = events
        self._waiting: deque[StationResult] = deque()
        self._delivering = threading.Lock()

    def add(self, result: StationResult) -> None:
        """The next result; the caller sees to the order."""
        self._waiting.append(result)

    def flush(self) -> None:
        """Publish results; whoever delivers now takes those of other threads along."""
        while self._waiting and self._delivering.acquire(blocking=False):
            try:
                while self._waiting:
                    self._events.publish(self._waiting.popleft())
            finally:
                self._delivering.release()
