"""HTTP for the page: routes, headers and refusals. What there is to say comes from `Page`."""

import base64
import hashlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from edgeseg.errors import EdgesegError, RuntimeFailure
from edgeseg.runtime.access import COOKIE, Access

MAX_CONNECTIONS = 64
_SOCKET_TIMEOUT_S = 10.0  # of a viewer that neither reads nor closes
_MAX_BODY = 4096
_BOUNDARY = "edgeseg-frame"
_NEXT_FRAME_S = 2.0

_LOGIN = """<!doctype html><meta name=viewport content="width=device-width"><title>edgeseg</title>
<form method=post action=/login><p>This page needs a token.</p>
<input name=token type=password autocomplete=current-password autofocus> <button>Open</button>
</form>"""


class Page(Protocol):
    """What the server shows."""

    access: Access

    def html(self) -> bytes: ...
    def state(self, *, source_index: int, after: int) -> dict[str, object]: ...
    def events(self, *, after: int) -> list[dict[str, object]]: ...
    def metrics(self) -> tuple[str, bytes]: ...
    def health(self) -> tuple[bool, str]: ...
    def alarm_picture(self, number: int) -> bytes | None: ...
    def drift_picture(self, source_index: int) -> bytes | None: ...
    def watch(self, source_index: int) -> Any: ...
    def record(self, *, active: bool) -> bool: ...


class PageServer(ThreadingHTTPServer):
    """One thread per connection, no more than MAX_CONNECTIONS of them."""

    daemon_threads = True
    block_on_close = False  # a viewer that hangs must not hold up the end of the run
    request_queue_size = 32

    def __init__(
        self, page: Page, *, port: int, on_error: Callable[[str, str], None]
    ) -> None:
        self.page = page
        self.closing = False
        self._on_error = on_error
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        host = page.access.host
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise RuntimeFailure(
                f"--serve: cannot listen on {host}:{port} ({reason}); try another port"
            ) from None

    def process_request(self, request: Any, client_address: Any) -> None:
        """Refuse at once when too many are connected: threads are not free."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A viewer that went away is no error; anything else is counted, without a traceback."""
        import sys

        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            self._on_error("page", f"a request failed ({type(error).__name__})")


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"
    timeout = _SOCKET_TIMEOUT_S
    server_version, sys_version = "edgeseg", ""
