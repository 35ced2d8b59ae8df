"""Pictures on their way in: several at once, so that a slow one holds nobody up, but not many.

place --the body comes, as slowly as it likes--> turn --one picture is decoded--> kept
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from edgeseg.base.messages import Message
from edgeseg.runtime.web.routes import Refused

PLACES, CLIENTS = 8, 3  # pictures at once, and how many may each send the largest
PER_CLIENT = 4  # nobody takes all places; who comes through one tunnel or proxy shares these
WAIT_S = 10.0  # for a place, and for a turn


class Uploads:
    """Bodies in memory, at most so many and of so many bytes; one of them in the decoder."""

    def __init__(self, *, largest: int) -> None:
        self._largest = largest  # bytes of one body, and of all that one client sends at once
        self._clients: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._turn = threading.Lock()

    @contextmanager
    def place(self, client: str, length: int) -> Iterator[None]:
        """Room for a body of that length until it has been dealt with."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._has_room(client, length), WAIT_S):
                raise _busy()
            self._clients[client] += 1
            self._bytes[client] += length
        try:
            yield
        finally:
            with self._changed:
                self._clients.subtract([client])
                self._bytes[client] -= length
                if not self._clients[client]:
                    del self._clients[client], self._bytes[client]
                self._changed.notify_all()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One picture is on its way through the decoder, not ten."""
        if not self._turn.acquire(timeout=WAIT_S):
            raise _busy()
        try:
            yield
        finally:
            self._turn.release()

    def _has_room(self, client: str, length: int) -> bool:
        return (
            self._clients.total() < PLACES
            and self._clients[client] < PER_CLIENT
            and self._bytes[client] + length <= self._largest
            and self._bytes.total() + length <= CLIENTS * self._largest
        )


def _busy() -> Refused:
    return Refused(HTTPStatus.SERVICE_UNAVAILABLE, Message("picture_turn"))
