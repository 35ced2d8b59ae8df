"""Buffer results until one reader has read them."""

import threading
from collections import deque

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.runtime.station.records import StationResult


class ResultBuffer:
    """A bounded buffer that shows one result at a time.

    When buffered, a result stays until it is acknowledged, and later ones queue behind it. When the
    queue is full the newest result is lost, and `overruns` counts it. Otherwise the newest is
    shown.
    """

    def __init__(self, capacity: int, *, buffered: bool = True) -> None:
        if capacity < 1:
            raise UsageError(Setting("result_buffer", capacity), ": expected at least 1")
        self.capacity, self.buffered = capacity, buffered
        self.overruns = 0
        self._lock = threading.Lock()
        self._waiting: deque[StationResult] = deque()
        self._shown: StationResult | None = None
        self._valid = False
        self._toggle = False

    def offer(self, result: StationResult) -> bool:
        """Take a result; return False when the buffer is full."""
        with self._lock:
            if not self.buffered:
                self._waiting.clear()
                self._show(result)
            elif not self._valid:
                self._show(result)
            elif len(self._waiting) >= self.capacity - 1:
                self.overruns += 1
                return False
            else:
                self._waiting.append(result)
            return True

    def _show(self, result: StationResult) -> None:
        self._shown, self._valid, self._toggle = result, True, not self._toggle

    def acknowledge(self) -> StationResult | None:
        """Show the next result, if there is one; return the one that was read."""
        with self._lock:
            read = self._shown if self._valid else None
            self._valid = False
            if self._waiting:
                self._show(self._waiting.popleft())
            return read

    def view(self) -> tuple[StationResult | None, bool, bool]:
        """Return the last result shown, whether it is valid, and the bit that toggles with each."""
        with self._lock:
            return self._shown, self._valid, self._toggle

    @property
    def full(self) -> bool:
        """Whether the next result would be lost."""
        with self._lock:
            return self.buffered and self._valid and len(self._waiting) >= self.capacity - 1
