"""Serve HTTP for our pages, and for programs that trigger a station.

request -> who asks (access) -> which route -> its body, within its limit -> an answer
"""

import re
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from edgeseg.base.errors import EdgesegError, words_of
from edgeseg.base.messages import Message, Words
from edgeseg.runtime.web.access import ACTION_HEADER, Access, Role
from edgeseg.runtime.web.bounded_server import BoundedHandler, BoundedServer
from edgeseg.runtime.web.routes import (
    MAX_BODY,
    Answer,
    LivePictures,
    Refused,
    Request,
    Route,
    json_answer,
)

_NEXT_FRAME_S = 2.0
GUESS_S = 0.5  # before a wrong token is refused
_BOUNDARY = "edgeseg-frame"
_TOKEN_WANTED = f"expected the token (Authorization: Bearer) and, to act, {ACTION_HEADER}: 1"
_YEAR_S = 365 * 24 * 3600
_LOGIN = b"""<!doctype html><meta name=viewport content="width=device-width"><title>edgeseg</title>
<form method=post action=/login><p>This page needs a token.</p>
<input name=token type=password autocomplete=current-password autofocus> <button>Open</button>
</form>"""


class SiteServer(BoundedServer):
    """A server of a table of routes, for those whom `access` lets in."""

    def __init__(
        self,
        routes: Sequence[Route],
        *,
        access: Access,
        port: int,
        on_error: Callable[[str, str], None],
        name: str = "page",
        setting: str = "serve",
        for_people: bool = True,
        refusal: Callable[[Words], object] = lambda sentence: {"error": str(sentence)},
    ) -> None:
        """Let people log in with a form and a cookie; programs send the token in a header.

        `refusal` makes the JSON of a sentence that refuses.
        """
        self.routes, self.access, self.refusal = routes, access, refusal
        self.for_people = for_people
        self.closing = False
        super().__init__(
            SiteHandler,
            name=name,
            setting=setting,
            host=access.host,
            port=port,
            on_error=on_error,
        )

    def stop(self) -> None:
        """Accept no more; live pictures end with their next frame."""
        self.closing = True
        super().stop()

    @property
    def url(self) -> str:
        """The address for a browser, without the token."""
        host = self.access.host if ":" not in self.access.host else f"[{self.access.host}]"
        return f"http://{host}:{self.server_port}/"


class SiteHandler(BoundedHandler):
    """One connection."""

    server: SiteServer
    disable_nagle_algorithm = True  # a PLC waits for the answer

    def do_GET(self) -> None:
        """Answer a read."""
        self._respond(self._read)

    def do_HEAD(self) -> None:
        """Answer a read without a body."""
        self.do_GET()

    def do_POST(self) -> None:
        """Answer an action."""
        self._respond(lambda: self._act(self._small_body()))

    def _read(self) -> Answer | LivePictures:
        path, query = self._address()
        route, caught = self._find("GET", path)
        if route is not None and route.public:
            return self._answer(route, "operator", caught, query)
        self._check_place()
        token = query.get("token") if self.server.for_people else None
        role = self.server.access.role(self.headers, query_token=token)
        if role is None:
            return self._ask_for_token()
        if path == "/" and token is not None:
            return self._let_in(token)  # and out of the address bar
        return self._answer(_permit(route, role), role, caught, query)

    def _answer(
        self,
        route: Route,
        role: Role,
        caught: tuple[str, ...],
        query: Mapping[str, str],
        body: bytes = b"",
    ) -> Answer | LivePictures:
        return route.answer(
            Request(role=role, caught=caught, query=query, body=body, came_ns=self.came_ns)
        )

    def _act(self, body: bytes | None) -> Answer | LivePictures:
        """Answer an action; a large body is None here, and read only after permission."""
        self._check_place()
        path, query = self._address()
        if path == "/login" and self.server.for_people:
            return self._log_in(body or b"")
        role = self.server.access.role(self.headers)
        if role is None or not self.server.access.may_act(self.headers):
            wanted = Message("not_this_page") if self.server.for_people else _TOKEN_WANTED
            raise Refused(HTTPStatus.FORBIDDEN, wanted)
        if path == "/logout" and self.server.for_people:
            name = self.server.access.cookie_name(role)  # what is left may be the operator's
            return self._see_page(f"{name}=", seconds=0)
        found, caught = self._find("POST", path)
        route = _permit(found, role)
        if body is None:
            self._check_length(route)
        with route.hold(self.client_address[0], self._unread):
            if body is None:
                body = self._large_body(route)
            return self._answer(route, role, caught, query, body)

    def _respond(self, find: Callable[[], Answer | LivePictures]) -> None:
        try:
            answer = find()
        except Refused as refusal:
            answer = self._error_answer(refusal.sentence, refusal.status)
        except EdgesegError as error:
            status = HTTPStatus.CONFLICT if self.command == "POST" else HTTPStatus.NOT_FOUND
            answer = self._error_answer(words_of(error), status)
        except TimeoutError:
            raise  # a body that does not come
        except Exception as error:  # a message we did not write may hold anything
            answer = self._error_answer(type(error).__name__, HTTPStatus.INTERNAL_SERVER_ERROR)
        if isinstance(answer, LivePictures):
            return self._stream(answer)
        self._head(answer.status, answer.content_type, len(answer.body), answer.headers)
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        return None

    def _error_answer(self, sentence: Words, status: HTTPStatus) -> Answer:
        return json_answer(self.server.refusal(sentence), status=status)

    def _address(self) -> tuple[str, dict[str, str]]:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        return unquote(url.path), query

    def _find(self, method: str, path: str) -> tuple[Route | None, tuple[str, ...]]:
        for route in self.server.routes:
            match = re.fullmatch(route.path, path)
            if match is not None and route.method == method:
                return route, match.groups()
        return None, ()

    def _check_place(self) -> None:
        """Refuse all but health checks on a connection that is reserved for them."""
        if self.server.connections.place(self.connection) != "full":
            self.close_connection = True
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, Message("too_many"))

    def _small_body(self) -> bytes | None:
        small = self.length is not None and self.length <= MAX_BODY
        return self.take_body(self._unread) if small else None

    def _check_length(self, route: Route) -> None:
        if not 0 < self._unread <= route.max_body:
            expected = f"expected a body of at most {route.max_body} bytes with its length"
            raise Refused(HTTPStatus.BAD_REQUEST, expected)

    def _large_body(self, route: Route) -> bytes:
        if route.body_s is not None:
            self._reader.allow(route.body_s)
        return self.take_body(self._unread)

    def _stream(self, pictures: LivePictures) -> None:
        self.close_connection = True
        self._head(HTTPStatus.OK, f"multipart/x-mixed-replace; boundary={_BOUNDARY}", None, {})
        if self.command == "HEAD":
            return
        self.wfile.write(f"--{_BOUNDARY}\r\n".encode())
        last: bytes | None = None
        with pictures.watch as next_jpeg:
            while not self.server.closing:
                last = next_jpeg(_NEXT_FRAME_S) or last
                if last is not None:  # the last one again: a viewer that has left is noticed
                    self.wfile.write(_part(last))
                elif self._has_left():
                    return

    def _has_left(self) -> bool:
        """Return whether the viewer has closed the connection; it has nothing to send."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""

    def _log_in(self, body: bytes) -> Answer:
        token = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]
        if self.server.access.cookie_for(token) is not None:
            return self._let_in(token)
        time.sleep(GUESS_S)  # slows guessing; only this connection's thread waits
        return self._ask_for_token()

    def _let_in(self, token: str) -> Answer:
        return self._see_page(self.server.access.cookie_for(token), seconds=_YEAR_S)

    def _see_page(self, cookie: str | None, *, seconds: int) -> Answer:
        rules = f"Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax"
        kept = {} if cookie is None else {"Set-Cookie": f"{cookie}; {rules}"}
        return Answer(
            content_type="text/plain",
            body=b"",
            status=HTTPStatus.SEE_OTHER,
            headers={"Location": "/", **kept},
        )

    def _ask_for_token(self) -> Answer:
        access = self.server.access
        if not self.server.for_people:
            raise Refused(HTTPStatus.FORBIDDEN, _TOKEN_WANTED)
        if access.token is None and access.supervisor_token is None:
            sentence = "served to this machine only: open it as localhost or 127.0.0.1"
            return json_answer({"error": sentence}, status=HTTPStatus.FORBIDDEN)
        return Answer(
            content_type="text/html; charset=utf-8",
            body=_LOGIN,
            status=HTTPStatus.UNAUTHORIZED,
            headers={
                "WWW-Authenticate": "Bearer",
                "Content-Security-Policy": "default-src 'none'; form-action 'self'",
            },
        )

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
        """Log nothing: request lines can contain the token."""


def _permit(route: Route | None, role: Role) -> Route:
    if route is None:
        raise Refused(HTTPStatus.NOT_FOUND, "no such address")
    if route.role == "supervisor" != role:
        raise Refused(HTTPStatus.FORBIDDEN, Message("needs_token"))
    return route


def _part(jpeg: bytes) -> bytes:
    # The boundary goes with its part: browsers show a picture when they see where it ends.
    head = f"Content-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
    return head.encode() + jpeg + f"\r\n--{_BOUNDARY}\r\n".encode()
