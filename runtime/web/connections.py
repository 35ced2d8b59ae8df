"""Limit the connections to the page: a bounded number, and none for idle clients.

A new connection replaces the oldest one that is idle; one that is being answered stays. For health
checks from this computer there is always a place.
"""

import contextlib
import io
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from edgeseg.runtime.web.access import is_loopback

MAX_CONNECTIONS = 64
PER_ADDRESS = 24  # of another computer; a tunnel or a proxy on this one brings many people
RESERVE = 4  # beyond the others, for health checks from this computer

Place = Literal["full", "health"]  # what may be asked


@dataclass
class _Connection:
    held: socket.socket
    address: str
    place: Place
    since_ns: int
    busy: bool = False


class Connections:
    """The connections of one server, the oldest first."""

    def __init__(self) -> None:
        self._open: dict[int, _Connection] = {}
        self._lock = threading.Lock()

    def admit(self, connection: socket.socket, address: str) -> bool:
        """Admit a new connection, if necessary in the place of an idle one."""
        with self._lock:
            local = is_loopback(address)
            if not local:
                same = [one for one in self._open.values() if one.address == address]
                if len(same) >= PER_ADDRESS and not self._send_away(same):
                    return False
            place: Place = "full"
            held = self._at_place("full")
            if len(held) >= MAX_CONNECTIONS and not self._send_away(held):
                reserved = self._at_place("health")
                if not local or (len(reserved) >= RESERVE and not self._send_away(reserved)):
                    return False
                place = "health"
            self._open[id(connection)] = _Connection(
                connection, address, place, time.monotonic_ns()
            )
            return True

    def since_ns(self, connection: socket.socket) -> int | None:
        """Return when a connection was admitted; None if it was closed for another."""
        with self._lock:
            held = self._open.get(id(connection))
            return None if held is None else held.since_ns

    def place(self, connection: socket.socket) -> Place:
        """Return what a connection may ask for."""
        with self._lock:
            held = self._open.get(id(connection))
            return "health" if held is None else held.place

    def set_busy(self, connection: socket.socket, busy: bool) -> None:
        """Note that a connection waits for its answer, or has got it."""
        with self._lock:
            if id(connection) in self._open:
                self._open[id(connection)].busy = busy

    def release(self, connection: socket.socket) -> None:
        """Forget a connection that has ended."""
        with self._lock:
            self._open.pop(id(connection), None)

    def _at_place(self, place: Place) -> list[_Connection]:
        return [held for held in self._open.values() if held.place == place]

    def _send_away(self, candidates: Iterable[_Connection]) -> bool:
        idle = next((held for held in candidates if not held.busy), None)
        if idle is None:
            return False
        del self._open[id(idle.held)]
        with contextlib.suppress(OSError):  # it has just left by itself
            idle.held.shutdown(socket.SHUT_RDWR)  # its thread wakes up and ends
        return True


class TimedReader(io.RawIOBase):
    """A reader with one deadline for the whole request: single bytes do not extend it.

    It also knows when the bytes of the last read arrived, at the latest: a request that waited in
    the system's buffer, while the one before it was answered, is older than the moment it is read.
    """

    def __init__(
        self,
        connection: socket.socket,
        *,
        clock: Callable[[], float],
        clock_ns: Callable[[], int] = time.monotonic_ns,
        since_ns: int | None = None,
    ) -> None:
        """Read from a connection that was admitted at `since_ns`."""
        self._connection, self._clock, self._clock_ns = connection, clock, clock_ns
        self._deadline_s: float | None = None
        self.came_ns = self._empty_ns = clock_ns() if since_ns is None else since_ns

    def allow(self, seconds: float | None) -> None:
        """Set the time for the rest of the request; None sets no limit."""
        self._deadline_s = None if seconds is None else self._clock() + seconds

    def note_empty(self) -> None:
        """Note before an answer that nothing waits: bytes that are not there yet arrive later."""
        usual = self._connection.gettimeout()
        self._connection.settimeout(0)
        try:
            self._connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            self._empty_ns = self._clock_ns()
        except OSError:
            return  # it has left
        finally:
            self._connection.settimeout(usual)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read the bytes that are there, or wait; raise TimeoutError at the deadline."""
        usual = self._connection.gettimeout()
        left = None if self._deadline_s is None else self._deadline_s - self._clock()
        if left is not None and left <= 0:
            raise TimeoutError("the request took too long")
        try:
            self._connection.settimeout(0)
            try:
                count = int(self._connection.recv_into(buffer))
                self.came_ns = self._empty_ns
            except BlockingIOError:
                self._connection.settimeout(usual if left is None else left)
                count = int(self._connection.recv_into(buffer))
                self.came_ns = self._empty_ns = self._clock_ns()
            return count
        finally:
            self._connection.settimeout(usual)
