"""Keep triggers whose results have not been delivered yet, in the order of arrival."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from edgeseg.runtime.station.records import Inspection, StationResult, TriggerEvent, vote


@dataclass
class Pending:
    """A trigger whose result has not been delivered yet."""

    event: TriggerEvent
    taken_ns: int  # a frame from before that may show what was there before the part
    acquired: bool = False
    frames: int = 1  # that answer for it
    needed: int = 1  # of them not good, for the part not to be
    seen: list[Inspection] = field(default_factory=list)
    result: StationResult | None = None  # waits for those before it

    def take(self, inspection: Inspection) -> Inspection | None:
        """Take the inspection of one frame; return the vote when all frames are there."""
        self.seen.append(inspection)
        return vote(self.seen, needed=self.needed) if len(self.seen) >= self.frames else None


class PendingTriggers:
    """All pending triggers; the caller holds the station's lock.

    Triggers without a result are few, those that only wait for their turn may be many: nothing
    iterates over the latter, or each trigger of a burst would take longer than the one before.
    """

    def __init__(self) -> None:
        self._waiting: deque[Pending] = deque()
        self._open: dict[int, Pending] = {}

    def add(self, event: TriggerEvent, *, taken_ns: int, acquired: bool) -> Pending:
        """Add the newest trigger."""
        pending = Pending(event, taken_ns, acquired)
        self._waiting.append(pending)
        self._open[event.trigger_id] = pending
        return pending

    def open(self) -> list[Pending]:
        """List the triggers without a result, the oldest first."""
        return list(self._open.values())

    def find(self, trigger_id: int) -> Pending | None:
        """Return a trigger without a result, by its id."""
        return self._open.get(trigger_id)

    def overdue(self, limit_ns: int) -> list[Pending]:
        """List the triggers without a result that came at that moment or before."""
        return [each for each in self._open.values() if each.event.monotonic_ns <= limit_ns]

    def end(self, pending: Pending, result: StationResult) -> Iterator[StationResult]:
        """Set the result of a trigger; yield the results whose turn it is, each once."""
        pending.result = result
        del self._open[pending.event.trigger_id]
        while self._waiting and (ended := self._waiting[0].result) is not None:
            self._waiting.popleft()
            yield ended
