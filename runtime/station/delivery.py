"""Deliver results to their subscribers: in order, each once, from whichever thread ends them."""

import threading
from collections import deque

from edgeseg.runtime.events.publisher import Publisher
from edgeseg.runtime.station.records import StationResult


class Delivery:
    """A queue of results, published without the station's lock, since subscribers may call back."""

    def __init__(self, events: Publisher) -> None:
        self._events = events
        self._waiting: deque[StationResult] = deque()
        self._delivering = threading.Lock()

    def add(self, result: StationResult) -> None:
        """Queue the next result; the caller keeps the order."""
        self._waiting.append(result)

    def flush(self) -> None:
        """Publish the queued results; the thread that publishes now takes those of others too."""
        while self._waiting and self._delivering.acquire(blocking=False):
            try:
                while self._waiting:
                    self._events.publish(self._waiting.popleft())
            finally:
                self._delivering.release()
