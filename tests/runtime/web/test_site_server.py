"""A table of routes over HTTP: roles, and bodies that are large."""

import http.client
import json
import threading
from collections.abc import Iterator

import pytest

from edgeseg.runtime.web.access import Access
from edgeseg.runtime.web.routes import Request, Route, health_answer, json_answer
from edgeseg.runtime.web.site_server import SiteServer
from tests.support import HANGS_S
from tests.support.http_client import request, send_raw

OPERATOR, SUPERVISOR = "an-operators-token-0", "a-supervisors-token-0"
LARGE = 1_000_000


class Site:
    """Three routes and a client."""

    def __init__(self) -> None:
        self.lock, self.errors = threading.Lock(), []

        def echo(request: Request) -> object:
            size = [len(request.body), self.lock.locked()]
            return json_answer([request.role, *request.caught, dict(request.query), *size])

        def health(request: Request) -> object:
            return health_answer(True, "ok")

        routes = (
            Route(method="GET", path="/healthz", public=True, answer=health),
            Route(method="GET", path=r"/part/([^/]+)", answer=echo),
            Route(method="POST", path="/decide", role="supervisor", answer=echo),
            Route(
                method="POST",
                path="/upload",
                answer=echo,
                max_body=LARGE,
                body_s=60.0,
                hold=lambda address, length: self.lock,
            ),
        )
        access = Access(host="127.0.0.1", token=OPERATOR, supervisor_token=SUPERVISOR)
        self.server = SiteServer(
            routes, access=access, port=0, on_error=lambda *error: self.errors.append(error)
        )
        self.server.start()

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple:
        status, told, content = request(
            self.server.server_port, method, path, body=body, headers=headers
        )
        kept = told.get("Set-Cookie", "").partition(";")[0]
        is_json = told.get("Content-Type") == "application/json"
        return status, json.loads(content) if is_json else kept

    def act(self, path: str, *, token: str = OPERATOR, body: bytes = b"") -> tuple:
        return self.ask("POST", path, body, X_Edgeseg="1", Authorization=f"Bearer {token}")


@pytest.fixture
def site() -> Iterator[Site]:
    started = Site()
    yield started
    started.server.stop()
    assert started.errors == []


def test_what_changes_a_decision_needs_the_supervisor(site: Site) -> None:
    refusal = {"error": "this needs the supervisor's token"}
    assert site.act("/decide") == (403, refusal)
    assert site.act("/decide", body=b"x" * 5000) == (403, refusal)
    answer = ["supervisor", {"a": "1"}, 0, False]
    assert site.act("/decide?a=1", token=SUPERVISOR) == (200, answer)
    assert site.act("/decide", token="nobody")[0] == 403
    assert site.ask("POST", "/decide", b"")[0] == 403


def test_a_supervisor_logs_in_and_out(site: Site) -> None:
    cookies = {}
    for token, role in ((OPERATOR, "operator"), (SUPERVISOR, "supervisor")):
        status, cookies[role] = site.ask("POST", "/login", f"token={token}".encode())
        assert status == 303
        assert site.ask("GET", "/part/1", Cookie=cookies[role])[1][0] == role
    both = "; ".join(cookies.values())  # a tablet that a supervisor took over for a while
    assert site.ask("GET", "/part/1", Cookie=both)[1][0] == "supervisor"
    own = {"X_Edgeseg": "1", "Cookie": both}
    assert site.ask("POST", "/logout", b"", **own) == (303, "edgeseg-supervisor=")
    assert site.ask("POST", "/logout", b"")[0] == 403
    assert site.ask("GET", "/part/1", Cookie="edgeseg=")[0] == 401


def test_addresses_are_matched_whole_and_by_their_method(site: Site) -> None:
    own = {"Authorization": f"Bearer {OPERATOR}"}
    assert site.ask("GET", "/part/a%20b?c=d&c=e", **own)[1] == ["operator", "a b", {"c": "d"}, 0, 0]
    for method, path in (
        ("GET", "/decide"),
        ("GET", "/part/a/b"),
        ("GET", "/part/..%2fb"),
        ("GET", "/part"),
    ):
        assert site.ask(method, path, **own) == (404, {"error": "no such address"})
    assert site.act("/part/1") == (404, {"error": "no such address"})
    assert site.ask("GET", "/healthz")[0] == 200


def test_a_large_body_waits_for_its_permission(site: Site) -> None:
    whole = b"x" * LARGE
    assert site.act("/upload", body=whole) == (200, ["operator", {}, LARGE, True])
    sentence = f"expected a body of at most {LARGE} bytes with its length"
    assert site.act("/upload", body=whole + b"x") == (400, {"error": sentence})
    # Refused before it is read, and still heard by a client that sends first.
    assert site.ask("POST", "/upload", whole, X_Edgeseg="1") == (
        403,
        {"error": "not from this page"},
    )
    assert site.act("/upload", token="nobody", body=whole)[0] == 403
    assert site.act("/decide", token=SUPERVISOR, body=whole)[0] == 400
    assert not site.lock.locked()


def test_a_body_has_a_length(site: Site) -> None:
    own = {"X_Edgeseg": "1", "Authorization": f"Bearer {SUPERVISOR}"}
    for length in ("-1", "1e3", "9" * 30, "٣"):
        connection = http.client.HTTPConnection(
            "127.0.0.1", site.server.server_port, timeout=HANGS_S
        )
        connection.putrequest("POST", "/decide")
        for name, value in own.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.putheader("Content-Length", length.encode())
        connection.endheaders()
        assert connection.getresponse().status == 400
        connection.close()


def test_a_body_that_was_cut_is_refused(site: Site) -> None:
    head = f"POST /decide HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {SUPERVISOR}\r\n"
    sent = head.encode() + b"X-Edgeseg: 1\r\nContent-Length: 9\r\n\r\n{"
    answer = send_raw(site.server.server_port, sent)
    assert b" 400 " in answer.splitlines()[0]
    assert b"the body ended before its length" in answer
