"""Triggers whose results have not left yet, in the order in which they came."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from edgeseg.runtime.station.records import Inspection, StationResult, TriggerEvent


@dataclass
class Pending:
    """A trigger whose result has not left yet."""

    event: TriggerEvent
    acquired: bool = False
    frames: int = 1  # that answer for it
    needed: int = 1  # of them not good, for the part not to be
    seen: list[Inspection] = field(default_factory=list)
    result: StationResult | None = None  # waits for those before it


class PendingTriggers:
    """Whoever calls holds the station's lock."""

    def __init__(self) -> None:
        self._waiting: deque[Pending] = deque()

    def add(self, event: TriggerEvent, *, acquired: bool) -> Pending:
        """The newest."""
        self._waiting.append(Pending(event, acquired))
        return self._waiting[-1]

    def open(self) -> list[Pending]:
        """Those without a result, the oldest first."""
        return [pending for pending in self._waiting if pending.result is None]

    def find(self, trigger_id: int) -> Pending | None:
        """One of them."""
        for pending in self._waiting:
            if pending.event.trigger_id == trigger_id:
                return pending if pending.result is None else None
        return None

    def leaving(self) -> Iterator[StationResult]:
        """Results whose turn it is, each once."""
        while self._waiting and (ended := self._waiting[0].result) is not None:
            self._waiting.popleft()
            yield ended
