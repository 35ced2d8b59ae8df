"""Triggers whose results have not left yet, in the order in which they came."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from edgeseg.runtime.station.records import Inspection, StationResult, TriggerEvent, vote


@dataclass
class Pending:
    """A trigger whose result has not left yet."""

    event: TriggerEvent
    taken_ns: int  # a frame from before that may show what was there before the part
    acquired: bool = False
    frames: int = 1  # that answer for it
    needed: int = 1  # of them not good, for the part not to be
    seen: list[Inspection] = field(default_factory=list)
    result: StationResult | None = None  # waits for those before it

    def take(self, inspection: Inspection) -> Inspection | None:
        """One of its frames was scored; what they say together, when all were."""
        self.seen.append(inspection)
        return vote(self.seen, needed=self.needed) if len(self.seen) >= self.frames else None


class PendingTriggers:
    """Whoever calls holds the station's lock.

    Those without a result are few, those that only wait for their turn may be many: nothing looks
    through the latter, or a burst would take longer for each trigger than for the one before.
    """

    def __init__(self) -> None:
        self._waiting: deque[Pending] = deque()
        self._open: dict[int, Pending] = {}

    def add(self, event: TriggerEvent, *, taken_ns: int, acquired: bool) -> Pending:
        """The newest."""
        pending = Pending(event, taken_ns, acquired)
        self._waiting.append(pending)
        self._open[event.trigger_id] = pending
        return pending

    def open(self) -> list[Pending]:
        """Those without a result, the oldest first."""
        return list(self._open.values())

    def find(self, trigger_id: int) -> Pending | None:
        """One of them."""
        return self._open.get(trigger_id)

    def overdue(self, limit_ns: int) -> list[Pending]:
        """Those of them that came at that moment or before."""
        return [each for each in self._open.values() if each.event.monotonic_ns <= limit_ns]

    def end(self, pending: Pending, result: StationResult) -> Iterator[StationResult]:
        """Give one its result; yields the results whose turn it is, each once."""
        pending.result = result
        del self._open[pending.event.trigger_id]
        while self._waiting and (ended := self._waiting[0].result) is not None:
            self._waiting.popleft()
            yield ended
