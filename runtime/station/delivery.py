"""Results to their listeners: in order, each once, from whichever thread ends them."""

import threading
from collections import deque
from collections.abc import Callable

from edgeseg.runtime.station.records import StationResult


class Delivery:
    """A listener may have a lock of its own, and call back: it is called without the station's."""

    def __init__(self, on_error: Callable[[str, str], None]) -> None:
        self._on_error = on_error
        self._listeners: list[Callable[[StationResult], None]] = []
        self._waiting: deque[StationResult] = deque()
        self._delivering = threading.Lock()

    def subscribe(self, listener: Callable[[StationResult], None]) -> None:
        """Hand every result to this too."""
        self._listeners.append(listener)

    def add(self, result: StationResult) -> None:
        """The next result; the caller sees to the order."""
        self._waiting.append(result)

    def flush(self) -> None:
        """Hand results on; whoever delivers now takes those of other threads along."""
        while self._waiting and self._delivering.acquire(blocking=False):
            try:
                while self._waiting:
                    result = self._waiting.popleft()
                    for listener in self._listeners:
                        self.call("result", listener, result)
            finally:
                self._delivering.release()

    def call(self, what: str, listener: Callable[..., None], value: object) -> None:
        """Call one listener; what it raises is counted, and stops nobody."""
        try:
            listener(value)
        except Exception as error:
            self._on_error("station", f"a listener failed on a {what} ({type(error).__name__})")
