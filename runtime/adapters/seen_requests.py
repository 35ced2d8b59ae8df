"""Recognise a trigger that arrives twice: networks deliver again what was not confirmed.

The sender gives each request a name. The same name for the same part is a repeated delivery. The
same name with another part id, or after a change of the recipe, is a mistake of the sender: the
verdict of the old part would be a wrong answer. A repeated delivery comes within minutes, so a name
that comes later is a new part.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from edgeseg.base.errors import RuntimeFailure
from edgeseg.runtime.station.records import Job, TriggerEvent, part_id_of
from edgeseg.runtime.station.station import Station

MAX_REQUEST = 64  # characters
KEPT = 4096
KEPT_S = 300.0


class RequestReused(RuntimeFailure):
    """A request whose name was used for another part."""


@dataclass(frozen=True, kw_only=True)
class _SeenRequest:
    trigger_id: int
    part_id: str
    job: Job
    at_s: float


class SeenRequests:
    """The last requests by the names that their senders gave them, with their triggers."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._seen: OrderedDict[str, _SeenRequest] = OrderedDict()  # the oldest first

    def trigger(
        self, station: Station, *, origin: str, part_id: str, request: str, at_ns: int
    ) -> tuple[int, bool]:
        """Trigger a station, unless this request has done so; see `once`."""

        def take() -> TriggerEvent:
            return station.trigger(origin=origin, part_id=part_id, request=request, at_ns=at_ns)

        return self.once(request, take, part_id=part_id, job=station.current_job)

    def once(
        self, request: str, trigger: Callable[[], TriggerEvent], *, part_id: str, job: Job
    ) -> tuple[int, bool]:
        """Trigger once per name of a request; return the trigger's id, and whether it is new.

        A request without a name is always new.
        """
        if not request:
            return trigger().trigger_id, True
        with self._lock:  # two copies at once must not both trigger
            self._forget()
            seen, part_id = self._seen.get(request), part_id_of(part_id)
            if seen is None:
                event = trigger()
                self._seen[request] = _SeenRequest(
                    trigger_id=event.trigger_id, part_id=part_id, job=job, at_s=self._clock()
                )
                return event.trigger_id, True
            if seen.part_id != part_id:
                raise RequestReused(_reuse_text(request, f"part {seen.part_id!r}, now {part_id!r}"))
            if seen.job != job:
                raise RequestReused(_reuse_text(request, "another recipe"))
            return seen.trigger_id, False

    def _forget(self) -> None:
        before_s = self._clock() - KEPT_S
        while self._seen:
            oldest = next(iter(self._seen.values()))
            if oldest.at_s > before_s and len(self._seen) < KEPT:
                return
            self._seen.popitem(last=False)


def _reuse_text(request: str, what: str) -> str:
    return f"request {request!r} was used for {what}; give every part a request of its own"
