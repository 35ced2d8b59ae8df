"""An HTTP server that cannot be filled: a bounded number of connections, each with its thread."""

import io
import socket
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from edgeseg.errors import RuntimeFailure
from edgeseg.runtime.web.connections import Connections, TimedReader
from edgeseg.runtime.web.routes import Refused

_TIMEOUT_S = 10.0  # for a whole request, and for a viewer that neither reads nor closes


class BoundedServer(ThreadingHTTPServer):
    """Serves from `start` until `stop` as many as `Connections` admits.

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
                f"{setting}={port}: cannot listen on {host}:{port} ({reason}); try another port"
            ) from None
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.1}, name=name, daemon=True
        )

    def start(self) -> None:
        """Accept connections in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Accept no more; connections under way end with their threads."""
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
        """Refuse at once when too many are connected: threads are not free."""
        if not self.connections.admit(request, client_address[0]):
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
        """A viewer that went away is no error; anything else is counted, without a traceback."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            self._on_error(self._name, f"a request failed ({type(error).__name__})")


class BoundedHandler(BaseHTTPRequestHandler):
    """One connection, which holds its place by asking and not by being slow."""

    server: BoundedServer
    protocol_version = "HTTP/1.1"
    timeout = _TIMEOUT_S
    server_version, sys_version = "edgeseg", ""

    def setup(self) -> None:
        """Read through a reader that knows how long a whole request may take."""
        super().setup()
        self.rfile.close()
        self._reader = TimedReader(self.connection, clock=time.monotonic)
        self.rfile = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        """Wait for a request and read it within the time for one, then answer it."""
        self._reader.allow(self.timeout)
        try:
            super().handle_one_request()
        finally:
            self.server.connections.set_busy(self.connection, False)

    def parse_request(self) -> bool:
        """The head has come; what has no body can be answered now."""
        parsed = super().parse_request()
        if parsed and not _is_address(self.path):
            self.send_error(HTTPStatus.BAD_REQUEST, "no address")
            return False
        if parsed and self.command != "POST":
            self.complete()
        return parsed

    def complete(self) -> None:
        """The whole request is there: whoever waits for the answer keeps the connection."""
        self.server.connections.set_busy(self.connection, True)

    def body_length(self) -> int | None:
        """What the head says of the body; None, and the last request here: nothing usable."""
        length = self.headers.get("Content-Length", "")
        if length.isdecimal() and len(length) < 16 and "Transfer-Encoding" not in self.headers:
            return int(length)
        self.close_connection = True  # where the next request would begin is not known
        return None

    def take_body(self, length: int) -> bytes:
        """The body; what was cut on its way would be another request, and is refused."""
        body = self.rfile.read(length)
        self.complete()
        if len(body) < length:
            self.close_connection = True
            raise Refused(HTTPStatus.BAD_REQUEST, "the body ended before its length")
        return body


def _is_address(path: str) -> bool:
    try:
        urlsplit(path)
    except ValueError:  # a bracket that nobody closes
        return False
    return True
