"""A trigger that arrives twice is one: networks deliver again what was not confirmed."""

import threading
from collections import OrderedDict
from collections.abc import Callable

from edgeseg.runtime.station.records import TriggerEvent

MAX_REQUEST = 64  # characters
_KEPT = 4096


class SeenRequests:
    """The last requests by the name that their sender gave them, and the triggers they became."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: OrderedDict[str, int] = OrderedDict()
        self._names: OrderedDict[int, str] = OrderedDict()

    def once(self, request: str, trigger: Callable[[], TriggerEvent]) -> tuple[int, bool]:
        """The trigger's id, and whether it is new; without a name every request is."""
        if not request:
            return trigger().trigger_id, True
        with self._lock:  # two copies at once must not both trigger
            if request in self._ids:
                return self._ids[request], False
            event = trigger()
            self._ids[request], self._names[event.trigger_id] = event.trigger_id, request
            for kept in (self._ids, self._names):
                while len(kept) > _KEPT:
                    kept.popitem(last=False)
            return event.trigger_id, True

    def name_of(self, trigger_id: int) -> str:
        """What the sender called that trigger; "" where it did not."""
        return self._names.get(trigger_id, "")
