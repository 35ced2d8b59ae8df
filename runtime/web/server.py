"""The listening socket of the page: a bounded number of connections, quiet about lost viewers."""

import socket
import sys
import threading
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from typing import Any

from edgeseg.errors import RuntimeFailure
from edgeseg.runtime.web.handler import PageHandler
from edgeseg.runtime.web.view import Page

MAX_CONNECTIONS = 64


class PageServer(ThreadingHTTPServer):
    """One thread per connection, no more than MAX_CONNECTIONS of them."""

    daemon_threads = True
    block_on_close = False  # a viewer that hangs must not hold up the end of the run
    request_queue_size = 32

    def __init__(
        self, page: Page, *, host: str, port: int, on_error: Callable[[str, str], None]
    ) -> None:
        self.page = page
        self.closing = False
        self._on_error = on_error
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), PageHandler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise RuntimeFailure(
                f"--serve: cannot listen on {host}:{port} ({reason}); try another port"
            ) from None
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.1}, name="page", daemon=True
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
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            self._on_error("page", f"a request failed ({type(error).__name__})")
