"""Serve HTTP to a bounded number of connections, each with its thread."""

import io
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from email.errors import (
    FirstHeaderLineIsContinuationDefect,
    InvalidHeaderDefect,
    MisplacedEnvelopeHeaderDefect,
    MissingHeaderBodySeparatorDefect,
)
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.messages import Setting
from edgeseg.runtime.web.connections import Connections, TimedReader
from edgeseg.runtime.web.routes import Refused

_TIMEOUT_S = 10.0  # for a whole request, and for a viewer that neither reads nor closes
_DISCARDED = 64_000_000  # bytes of a refused body that are taken in, so that the refusal is heard
_IDLE_BODY = 65_536  # bytes that come with a request which has no use for them
_NO_HEADER = (  # a line of the head, after which or in which headers were not read as such
    MissingHeaderBodySeparatorDefect,
    FirstHeaderLineIsContinuationDefect,
    MisplacedEnvelopeHeaderDefect,
    InvalidHeaderDefect,
)
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class BoundedServer(ThreadingHTTPServer):
    """A server from `start` until `stop`, with as many connections as `Connections` admits.

    `name` is the key of its error counter, `setting` the one that chose its port.
    """

    daemon_threads = True
    block_on_close = False  # a viewer that hangs must not hold up the end of the run
    request_queue_size = 32

    def __init__(
        self,
        handler: "type[BoundedHandler]",
        *,
        name: str,
        setting: str,
        host: str,
        port: int,
        on_error: Callable[[str, str], None],
    ) -> None:
        self._name, self._on_error = name, on_error
        self.connections = Connections()
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise RuntimeFailure(
                Setting(setting, port),
                f": cannot listen on {host}:{port} ({reason}); try another port",
            ) from None
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.1}, name=name, daemon=True
        )

    def start(self) -> None:
        """Accept connections in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Accept no more; open connections end with their threads."""
        self.shutdown()
        self.server_close()
        self._thread.join(5.0)

    def server_bind(self) -> None:
        """Bind without asking the DNS for a name, which can take seconds offline."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Refuse at once when too many are connected, since each needs a thread."""
        if not self.connections.admit(request, client_address[0]):
            with suppress(OSError):
                request.setblocking(False)
                request.send(_FULL)
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.release(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Count an error without a traceback; a viewer that went away is none."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            self._on_error(self._name, f"a request failed ({type(error).__name__})")


class BoundedHandler(BaseHTTPRequestHandler):
    """One connection; a slow client does not keep its place."""

    server: BoundedServer
    protocol_version = "HTTP/1.1"
    timeout = _TIMEOUT_S
    server_version, sys_version = "edgeseg", ""

    def setup(self) -> None:
        """Read through a reader that knows how long a whole request may take."""
        super().setup()
        self.rfile.close()
        since_ns = self.server.connections.since_ns(self.connection)
        self._reader = TimedReader(self.connection, clock=time.monotonic, since_ns=since_ns)
        self.rfile = self._buffered = io.BufferedReader(self._reader)
        self.length: int | None = 0  # of the body; None: nothing usable is said of it
        self._unread = 0  # bytes of it

    def handle_one_request(self) -> None:
        """Wait for a request and read it within the time for one, then answer it."""
        self._reader.allow(self.timeout)
        try:
            self._buffered.peek(1)  # until it begins
            self.came_ns = self._reader.came_ns
            super().handle_one_request()
            if self._unread:
                self._discard()
        except TimeoutError:
            self.close_connection = True
        finally:
            self.server.connections.set_busy(self.connection, False)

    def parse_request(self) -> bool:
        """Parse the head; a request without a body can be answered now.

        An unwanted body is thrown away: it would be read as the next request.
        """
        self._unread = 0
        if not super().parse_request():
            return False
        if not _is_address(self.path):
            self.send_error(HTTPStatus.BAD_REQUEST, "no address")
            return False
        self.length = length = body_length(self.headers)
        self._unread = length or 0
        self.close_connection |= length is None  # where the next request would begin is not known
        if self.command == "POST":
            return True
        if length is None:
            self.send_error(HTTPStatus.BAD_REQUEST, "no usable length of the body")
            return False
        if 0 < length <= _IDLE_BODY:
            self.rfile.read(length)
            self._unread = 0
        self.complete()
        return True

    def send_response(self, code: int, message: str | None = None) -> None:
        """Begin an answer; the next request cannot be older than that."""
        self._reader.note_empty()
        super().send_response(code, message)

    def complete(self) -> None:
        """Note that the whole request is there: the connection is kept until the answer is sent."""
        self.server.connections.set_busy(self.connection, True)

    def take_body(self, length: int) -> bytes:
        """Read the body; refuse one that is shorter than its length."""
        self._unread = 0  # what was cut does not come any more
        body = self.rfile.read(length)
        self.complete()
        if len(body) < length:
            self.close_connection = True
            raise Refused(HTTPStatus.BAD_REQUEST, "the body ended before its length")
        return body

    def _discard(self) -> None:
        """Read a refused body to its end: a client that is still sending reads no answer."""
        self.close_connection = True
        left = min(self._unread, _DISCARDED)
        while left and (data := self.rfile.read(min(left, 1 << 16))):
            left -= len(data)


def body_length(headers: Message) -> int | None:
    """Return the length of the body, 0 without one; None if the head is not clear.

    A proxy between a client and us may read such a head otherwise, and take a part of one request
    for another.
    """
    no_header = any(isinstance(defect, _NO_HEADER) for defect in headers.defects)
    if no_header or "Transfer-Encoding" in headers:
        return None
    length, *others = headers.get_all("Content-Length", ["0"])
    plain = length.isascii() and length.isdecimal() and len(length) < 16
    return int(length) if plain and not others else None


def _is_address(path: str) -> bool:
    try:
        urlsplit(path)
    except ValueError:  # a bracket that nobody closes
        return False
    return True
