"""A body is a body: whatever its method, its length or its answer, it is no further request."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from edgeseg.runtime.adapters.http_service import HttpService
from edgeseg.runtime.station.records import StationResult
from edgeseg.runtime.station.station import Station
from edgeseg.runtime.web.access import Access
from edgeseg.runtime.web.connections import Connections
from edgeseg.runtime.web.routes import Route, json_answer
from edgeseg.runtime.web.site_server import SiteServer
from tests.support.http_client import send_raw

SECOND = b"POST /trigger HTTP/1.1\r\nHost: localhost\r\nX-Edgeseg: 1\r\nContent-Length: 2\r\n\r\n{}"
OWN = "Host: localhost\r\nX-Edgeseg: 1\r\n"


class Door:
    """A server, and how often its action was done."""

    def __init__(self, port: int, done: list[int]) -> None:
        self.port, self.done = port, done

    def send(self, data: bytes) -> bytes:
        return send_raw(self.port, data)


@contextmanager
def http_service() -> Iterator[Door]:
    station, done = Station(), list[int]()
    station.events.subscribe(
        StationResult, lambda result: done.append(result.trigger.trigger_id), name="test"
    )
    service = HttpService(
        station,
        host="127.0.0.1",
        port=0,
        token=None,
        may_trigger=True,
        wait_s=1.0,
        on_error=lambda name, text: None,
    )  # offline: every trigger is answered at once
    yield Door(service.port, done)
    service.close()


@contextmanager
def site() -> Iterator[Door]:
    done = list[int]()
    routes = (
        Route(method="GET", path="/state", answer=lambda asked: json_answer("read")),
        Route(method="POST", path="/trigger", answer=lambda asked: json_answer(done.append(1))),
    )
    server = SiteServer(
        routes, access=Access(host="127.0.0.1"), port=0, on_error=lambda name, text: None
    )
    server.start()
    yield Door(server.server_port, done)
    server.stop()


@pytest.fixture(scope="module", params=[http_service, site], ids=["http", "page"])
def served(request: pytest.FixtureRequest) -> Iterator[Door]:
    with request.param() as door:
        yield door


@pytest.fixture
def door(served: Door) -> Door:
    served.done.clear()
    return served


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)


@pytest.mark.parametrize("path", ["/state", "/nothing"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "PUT", "OPTIONS"])
def test_with_a_method_that_has_no_use_for_it(door: Door, method: str, path: str) -> None:
    head = f"{method} {path} HTTP/1.1\r\n{OWN}Content-Length: {len(SECOND)}\r\n\r\n"
    answer = door.send(head.encode() + SECOND)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert door.done == []


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "headers",
    [
        "Transfer-Encoding: chunked",
        "Transfer-Encoding:\tx, chunked",
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Content-Length: 4\r\nContent-Length: 5",
        "Content-Length: 0\r\nContent-Length: 0",
        "Content-Length: 0, 0",
        "Content-Length: +0",
        "Content-Length: ",
        "Content-Length : 400",
        "Content-Length: 0\r\nTransfer-Encoding : chunked",
        "no header\r\nContent-Length: 400",
    ],
)
def test_with_a_length_that_can_be_read_in_two_ways(door: Door, method: str, headers: str) -> None:
    path = "/state" if method == "GET" else "/trigger"
    head = f"{method} {path} HTTP/1.1\r\n{OWN}{headers}\r\n\r\n"
    answer = door.send(head.encode() + chunked(SECOND))
    assert answer.splitlines()[0].split()[1] == b"400"
    assert answer.count(b"HTTP/1.1 ") == 1
    assert door.done == []


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/trigger", "Host: evil.example\r\nX-Edgeseg: 1\r\n", b"403"),
        ("/trigger", "Host: localhost\r\n", b"403"),
        ("/nothing", OWN, b"404"),
    ],
)
@pytest.mark.parametrize("size", [0, 100_000], ids=["short", "too long"])
def test_of_an_action_that_is_refused(
    door: Door, path: str, headers: str, status: bytes, size: int
) -> None:
    body = SECOND + b" " * size
    head = f"POST {path} HTTP/1.1\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    answer = door.send(head.encode() + body)
    assert answer.splitlines()[0].split()[1] in (status, b"400")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert door.done == []


def test_that_is_longer_than_a_read_may_carry_ends_the_connection(door: Door) -> None:
    body = SECOND + b" " * 100_000
    head = f"GET /state HTTP/1.1\r\n{OWN}Content-Length: {len(body)}\r\n\r\n"
    answer = door.send(head.encode() + body + SECOND)
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert door.done == []


def test_after_it_the_next_request_is_read(door: Door) -> None:
    head = f"GET /state HTTP/1.1\r\n{OWN}Content-Length: {len(SECOND)}\r\n\r\n"
    answer = door.send(head.encode() + SECOND + SECOND)
    assert answer.count(b"HTTP/1.1 2") == 2
    assert len(door.done) == 1


def test_that_waits_to_be_asked_for(door: Door) -> None:
    head = f"{OWN}Expect: 100-continue\r\nContent-Length: {len(SECOND)}\r\n\r\n"
    answer = door.send(f"GET /state HTTP/1.1\r\n{head}".encode() + SECOND)
    assert answer.count(b"HTTP/1.1 2") == 1
    assert door.done == []


def test_whoever_finds_no_place_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connections, "admit", lambda connections, connection, address: False)
    with site() as door:
        assert door.send(b"").startswith(b"HTTP/1.1 503 ")
