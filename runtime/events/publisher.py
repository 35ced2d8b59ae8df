"""Events to whoever asked for their kind: the one way in which the parts of a run tell others.

pipeline        FrameResult, SourceEvent, UnscoredFrame, LoopTick
station         TriggerEvent, StationResult
changeover      ModelChange
drift, recipes, counters, triggers      a LoggedEvent of their own, for the log and the page
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Event = TypeVar("Event")


@dataclass(frozen=True, kw_only=True)
class _Subscription:
    kind: type[Any]
    take: Callable[[Any], None]
    name: str


class Publisher:
    """Calls subscribers in the order in which they subscribed, from the thread that publishes.

    So they must return quickly: slow work belongs to a thread of the subscriber's own. What one
    raises is counted under its name and stops neither the others nor the line.
    """

    def __init__(self, on_error: Callable[[str, str], None]) -> None:
        self._on_error = on_error
        self._subscriptions: list[_Subscription] = []

    def subscribe(self, kind: type[Event], take: Callable[[Event], None], *, name: str) -> None:
        """Hand every event of that class to this too; before the run begins."""
        self._subscriptions.append(_Subscription(kind=kind, take=take, name=name))

    def publish(self, event: object) -> None:
        """Hand an event to all who asked for its class."""
        for subscription in self._subscriptions:
            if isinstance(event, subscription.kind):
                try:
                    subscription.take(event)
                except Exception as error:
                    self._on_error(subscription.name, f"{type(error).__name__}: {error}")
