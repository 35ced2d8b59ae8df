"""Publish events to their subscribers: the one way in which the parts of a run inform others.

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
    """Calls subscribers in the order of subscription, from the thread that publishes.

    Subscribers must return quickly: slow work belongs to their own threads. An exception of one is
    counted under its name, and stops neither the others nor the line.
    """

    def __init__(self, on_error: Callable[[str, str], None]) -> None:
        self._on_error = on_error
        self._subscriptions: list[_Subscription] = []

    def subscribe(self, kind: type[Event], take: Callable[[Event], None], *, name: str) -> None:
        """Call `take` with every event of that class; subscribe before the run begins."""
        self._subscriptions.append(_Subscription(kind=kind, take=take, name=name))

    def publish(self, event: object) -> None:
        """Pass an event to all subscribers of its class."""
        for subscription in self._subscriptions:
            if isinstance(event, subscription.kind):
                try:
                    subscription.take(event)
                except Exception as error:
                    self._on_error(subscription.name, f"{type(error).__name__}: {error}")
