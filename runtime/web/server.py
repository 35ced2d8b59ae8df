"""HTTP for the page: routes, headers and refusals.

What there is to show comes from a `Page`.
"""

import base64
import hashlib
import json
import re
import select
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import SplitResult, parse_qs, urlsplit

from edgeseg.errors import EdgesegError
from edgeseg.runtime.web.access import COOKIE, Access
from edgeseg.runtime.web.bounded_server import BoundedHandler, BoundedServer

_MAX_BODY = 4096
_NEXT_FRAME_S = 2.0
_BOUNDARY = "edgeseg-frame"
_YEAR_S = 365 * 24 * 3600
_LOGIN = b"""<!doctype html><meta name=viewport content="width=device-width"><title>edgeseg</title>
<form method=post action=/login><p>This page needs a token.</p>
<input name=token type=password autocomplete=current-password autofocus> <button>Open</button>
</form>"""


class Page(Protocol):
    """What the server shows."""

    access: Access

    def html(self) -> bytes:
        """The page itself."""

    def state(self, *, source_index: int, after: int) -> Mapping[str, object]:
        """Live numbers; scores of one source from a bucket on."""

    def events(self, *, after: int) -> list[dict[str, object]]:
        """Events with a higher number."""

    def metrics(self) -> tuple[str, bytes]:
        """Content type and body for Prometheus."""

    def health(self) -> tuple[bool, str]:
        """Whether frames are being scored, and a sentence."""

    def alarm_picture(self, number: int) -> bytes | None:
        """JPEG of a recent alarm."""

    def drift_picture(self, source_index: int) -> bytes | None:
        """JPEG of where a source has drifted."""

    def source_count(self) -> int:
        """How many sources there are."""

    def watch(self, source_index: int) -> AbstractContextManager[Callable[[float], bytes | None]]:
        """The next JPEG of the live view, again and again."""

    def record(self, *, active: bool) -> bool:
        """Start or stop recording; returns whether a video is being written now."""

    def load_recipe(self, name: str) -> bool:
        """Ask for a recipe; false: there is none of that name, and none is inspected with."""


@dataclass(frozen=True, kw_only=True)
class Action:
    """What a POST may ask for: one value in a JSON object."""

    key: str
    kind: type
    expected: str
    run: Callable[[Page, Any], dict[str, object]]


ACTIONS = {
    "/recording": Action(
        key="active",
        kind=bool,
        expected='{"active": true or false}',
        run=lambda page, active: {"active": page.record(active=active)},
    ),
    "/recipe": Action(
        key="recipe",
        kind=str,
        expected='{"recipe": "NAME"}',
        run=lambda page, name: {"accepted": page.load_recipe(name)},
    ),
}


class PageServer(BoundedServer):
    """The page's own."""

    def __init__(
        self, page: Page, *, host: str, port: int, on_error: Callable[[str, str], None]
    ) -> None:
        self.page = page
        self.closing = False
        super().__init__(
            PageHandler, name="page", setting="serve", host=host, port=port, on_error=on_error
        )


def content_security_policy(html: bytes) -> str:
    """Only our own inline script and style run, named by their hashes."""

    def hashes(tag: bytes) -> str:
        bodies = re.findall(b"<%s>(.*?)</%s>" % (tag, tag), html, re.DOTALL)
        digests = (base64.b64encode(hashlib.sha256(body).digest()).decode() for body in bodies)
        return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"

    return (
        f"default-src 'none'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
        f"base-uri 'none'; frame-ancestors 'none'; "
        f"script-src {hashes(b'script')}; style-src {hashes(b'style')}"
    )


class PageHandler(BoundedHandler):
    """One connection."""

    server: PageServer

    def _is_crowded(self) -> bool:
        """Whether this connection has one of the places that are kept for health checks."""
        if self.server.connections.place(self.connection) == "full":
            return False
        self.close_connection = True
        self._error(HTTPStatus.SERVICE_UNAVAILABLE, "too many are connected")
        return True

    def do_GET(self) -> None:
        """Answer a read."""
        url = urlsplit(self.path)
        page = self.server.page
        if url.path == "/healthz":  # open to supervisors without the token: it says little
            healthy, sentence = page.health()
            status = HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE
            return self._send(status, "text/plain; charset=utf-8", sentence.encode() + b"\n")
        if self._is_crowded():
            return None
        token = parse_qs(url.query).get("token", [None])[0]
        if not page.access.may_read(self.headers, query_token=token):
            return self._refuse()
        if token is not None and url.path == "/":
            return self._let_in()  # and out of the address bar
        return self._read(page, url)

    def do_HEAD(self) -> None:
        """The same without a body."""
        self.do_GET()

    def do_POST(self) -> None:
        """Answer an action."""
        page = self.server.page
        body = self._body()
        self.complete()
        if self._is_crowded():
            return None
        if body is None:
            return self._error(HTTPStatus.BAD_REQUEST, "expected a short body with its length")
        if self.path == "/login":
            return self._login(page, body)
        if not page.access.may_act(self.headers):
            return self._error(HTTPStatus.FORBIDDEN, "not from this page")
        action = ACTIONS.get(self.path)
        if action is None:
            return self._error(HTTPStatus.NOT_FOUND, "no such action")
        try:
            value = json.loads(body)[action.key]
            if not isinstance(value, action.kind):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError):
            return self._error(HTTPStatus.BAD_REQUEST, f"expected {action.expected}")
        try:
            return self._json(action.run(page, value))
        except EdgesegError as error:
            return self._error(HTTPStatus.CONFLICT, str(error))
        except Exception as error:  # a message we did not write may hold anything
            return self._error(HTTPStatus.INTERNAL_SERVER_ERROR, type(error).__name__)

    def _read(self, page: Page, url: SplitResult) -> None:
        query = parse_qs(url.query)
        source, after = _whole(query, "source"), _whole(query, "after")
        picture = re.fullmatch(r"/(alarms|drift)/(\d{1,9})\.jpg", url.path)
        if url.path == "/":
            html = page.html()
            policy = {"Content-Security-Policy": content_security_policy(html)}
            return self._send(HTTPStatus.OK, "text/html; charset=utf-8", html, extra=policy)
        if url.path == "/state":
            return self._json(page.state(source_index=source, after=after))
        if url.path == "/events":
            return self._json(page.events(after=after))
        if url.path == "/metrics":
            content_type, body = page.metrics()
            return self._send(HTTPStatus.OK, content_type, body)
        if url.path == "/stream.mjpg":
            return self._stream(page, source)
        if picture is not None:
            find = page.alarm_picture if picture[1] == "alarms" else page.drift_picture
            jpeg = find(int(picture[2]))
            if jpeg is not None:
                return self._send(HTTPStatus.OK, "image/jpeg", jpeg)
        return self._error(HTTPStatus.NOT_FOUND, "no such page")

    def _stream(self, page: Page, source_index: int) -> None:
        if source_index >= page.source_count():
            return self._error(HTTPStatus.NOT_FOUND, "no such source")
        self.close_connection = True
        self._head(HTTPStatus.OK, f"multipart/x-mixed-replace; boundary={_BOUNDARY}", None, {})
        if self.command == "HEAD":
            return None
        self.wfile.write(f"--{_BOUNDARY}\r\n".encode())
        last: bytes | None = None
        with page.watch(source_index) as next_jpeg:
            while not self.server.closing:
                last = next_jpeg(_NEXT_FRAME_S) or last
                if last is not None:  # the last one again: a viewer that has left is noticed
                    self.wfile.write(_part(last))
                elif self._has_left():
                    return None
        return None

    def _has_left(self) -> bool:
        """Whether the viewer has closed its end; it has nothing to send."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""

    def _login(self, page: Page, body: bytes) -> None:
        token = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]
        if page.access.token is not None and page.access.may_read({}, query_token=token):
            return self._let_in()
        time.sleep(0.5)  # slows guessing; only this connection's thread waits
        return self._refuse()

    def _let_in(self) -> None:
        cookie = (
            f"{COOKIE}={self.server.page.access.cookie_value()}; Path=/; Max-Age={_YEAR_S}; "
            "HttpOnly; SameSite=Lax"
        )
        headers = {"Location": "/", "Set-Cookie": cookie}
        self._send(HTTPStatus.SEE_OTHER, "text/plain", b"", extra=headers)

    def _refuse(self) -> None:
        if self.server.page.access.token is None:
            sentence = "served to this machine only: open it as localhost or 127.0.0.1"
            return self._error(HTTPStatus.FORBIDDEN, sentence)
        policy = {
            "WWW-Authenticate": "Bearer",
            "Content-Security-Policy": "default-src 'none'; form-action 'self'",
        }
        return self._send(HTTPStatus.UNAUTHORIZED, "text/html; charset=utf-8", _LOGIN, extra=policy)

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _MAX_BODY:
            self.close_connection = True
            return None
        return self.rfile.read(int(length))

    def _json(self, value: object) -> None:
        body = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
        self._send(HTTPStatus.OK, "application/json", body)

    def _error(self, status: HTTPStatus, sentence: str) -> None:
        body = json.dumps({"error": sentence}).encode()
        self._send(status, "application/json", body)

    def _send(
        self,
        status: HTTPStatus,
        content_type: str,
        body: bytes,
        *,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        self._head(status, content_type, len(body), extra or {})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(
        self, status: HTTPStatus, content_type: str, length: int | None, extra: Mapping[str, str]
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        for name, value in extra.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: request lines can hold the token."""


def _part(jpeg: bytes) -> bytes:
    # The boundary goes with its part: browsers show a picture when they see where it ends.
    head = f"Content-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
    return head.encode() + jpeg + f"\r\n--{_BOUNDARY}\r\n".encode()


def _whole(query: dict[str, list[str]], key: str) -> int:
    """A number from the query; anything that is none counts as 0."""
    text = query.get(key, ["0"])[0]
    return int(text) if text.isdecimal() and len(text) < 16 else 0
