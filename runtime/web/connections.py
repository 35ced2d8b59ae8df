"""Who may hold a connection to the page: a bounded number, and nobody by doing nothing.

A connection that is not being answered gives way to a new one, the oldest first; one that is being
answered stays. Whoever asks from this computer finds a place to ask for the health in any case.
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
        """Take a new connection in, if need be in the place of an idle one."""
        with self._lock:
            local = is_loopback(address)
            if not local:
                same = [one for one in self._open.values() if one.address == address]
                if len(same) >= PER_ADDRESS and not self._send_away(same):
                    return False
            place: Place = "full"
            held = self._held("full")
            if len(held) >= MAX_CONNECTIONS and not self._send_away(held):
                reserved = self._held("health")
                if not local or (len(reserved) >= RESERVE and not self._send_away(reserved)):
                    return False
                place = "health"
            self._open[id(connection)] = _Connection(
                connection, address, place, time.monotonic_ns()
            )
            return True

    def since_ns(self, connection: socket.socket) -> int | None:
        """When a connection was taken in; None: it had to leave."""
        with self._lock:
            held = self._open.get(id(connection))
            return None if held is None else held.since_ns

    def place(self, connection: socket.socket) -> Place:
        """What a connection may ask for."""
        with self._lock:
            held = self._open.get(id(connection))
            return "health" if held is None else held.place

    def set_busy(self, connection: socket.socket, busy: bool) -> None:
        """A request has come in whole and is being answered, or has been."""
        with self._lock:
            if id(connection) in self._open:
                self._open[id(connection)].busy = busy

    def release(self, connection: socket.socket) -> None:
        """The connection has ended."""
        with self._lock:
            self._open.pop(id(connection), None)

    def _held(self, place: Place) -> list[_Connection]:
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
    """Reads a request within a time for all of it: a byte now and then does not extend it.

    It also knows when what it read last came, at the latest: a request that waited in the system's
    buffer, while the one before it was answered, is older than the moment it is read.
    """

    def __init__(
        self,
        connection: socket.socket,
        *,
        clock: Callable[[], float],
        clock_ns: Callable[[], int] = time.monotonic_ns,
        since_ns: int | None = None,
    ) -> None:
        """`since_ns`: when the connection was taken."""
        self._connection, self._clock, self._clock_ns = connection, clock, clock_ns
        self._deadline_s: float | None = None
        self.came_ns = self._empty_ns = clock_ns() if since_ns is None else since_ns

    def allow(self, seconds: float | None) -> None:
        """From now on, until the request is complete; None: as long as it takes."""
        self._deadline_s = None if seconds is None else self._clock() + seconds

    def look(self) -> None:
        """Before an answer: what is not there yet comes later than now."""
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
        """It is."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """What there is, or TimeoutError."""
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
