"""A crowd of connections: nobody holds a place by doing nothing, and the health can be asked."""

import contextlib
import http.client
import json
import select
import socket
from collections.abc import Iterator

import pytest

from edgeseg.runtime.web import connections as module
from edgeseg.runtime.web.connections import (
    MAX_CONNECTIONS,
    PER_ADDRESS,
    RESERVE,
    Connections,
    TimedReader,
)
from edgeseg.runtime.web.site_server import SiteHandler
from tests.doubles.fakes import wait
from tests.support import HANGS_S
from tests.support.page_site import TOKEN, Site, running

WATCH = b"GET /stream.mjpg HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def site() -> Iterator[Site]:
    with running() as started:
        yield started


@pytest.fixture
def crowd() -> Iterator[list[socket.socket]]:
    """Sockets that are closed at the end."""
    with contextlib.ExitStack() as stack:
        sockets: list[socket.socket] = []
        stack.callback(lambda: [client.close() for client in sockets])
        yield sockets


def connect(site: Site, crowd: list[socket.socket], first: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", site.port), timeout=HANGS_S)
    client.sendall(first)
    crowd.append(client)
    return client


def test_sockets_that_send_a_byte_now_and_then_do_not_keep_others_out(
    site: Site, crowd: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SiteHandler, "timeout", None)  # even if nobody were sent away for it
    for _ in range(MAX_CONNECTIONS):
        connect(site, crowd, b"G")
    for _ in range(2 * MAX_CONNECTIONS):  # each takes the place of the oldest that does nothing
        assert site.ask("/healthz")[0] == 200
        connect(site, crowd, b"G")
    assert site.ask("/state")[0] == 200


def test_viewers_are_not_sent_away_and_the_health_can_still_be_asked(
    site: Site, crowd: list[socket.socket]
) -> None:
    for _ in range(MAX_CONNECTIONS):
        connect(site, crowd, WATCH).recv(12)  # being answered
    for _ in range(3):
        assert site.ask("/healthz")[0] == 200
        status, _, body = site.ask("/state")
        assert (status, json.loads(body)["error"]) == (503, "too many are connected")
        assert site.ask("/login", method="POST", body="token=x")[0] == 503
    gone, _, _ = select.select(crowd, [], [], 0)
    assert not [client for client in gone if client.recv(1, socket.MSG_PEEK) == b""]
    crowd.pop().close()
    wait(lambda: site.ask("/state")[0] == 200, "the place of one who left stays taken")


def test_a_request_has_a_time_for_all_of_it(
    site: Site, crowd: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SiteHandler, "timeout", 0.3)
    client = connect(site, crowd, b"GET /healthz HTTP/1.1\r\nX: ")
    client.settimeout(0.1)  # between two bytes, much less than the time for a request

    def sent_away() -> bool:
        try:
            client.send(b"x")
            return client.recv(100) == b""
        except TimeoutError:
            return False
        except OSError:
            return True

    wait(sent_away, "a byte now and then extends the time")


def test_the_time_of_a_request_is_counted_from_its_beginning() -> None:
    now_s = [0.0]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reader = TimedReader(ours, clock=lambda: now_s[0])
        reader.allow(10.0)
        for now_s[0] in (0.0, 4.0, 8.0):
            theirs.send(b"x")
            assert reader.read(1) == b"x"
        now_s[0] = 12.0
        theirs.send(b"x")
        with pytest.raises(TimeoutError):
            reader.read(1)
        reader.allow(None)
        assert reader.read(1) == b"x"
        assert ours.gettimeout() is None


def test_a_body_that_does_not_come_has_the_same_time(
    site: Site, crowd: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SiteHandler, "timeout", 0.3)
    head = b"POST /recording HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
    assert connect(site, crowd, head).recv(100) == b""


class Held:
    """A socket that was sent away, or not."""

    def __init__(self) -> None:
        self.sent_away = False

    def shutdown(self, how: int) -> None:
        self.sent_away = True


def test_one_address_cannot_take_every_place() -> None:
    connections = Connections()
    ours = [Held() for _ in range(PER_ADDRESS)]
    for held in ours:
        assert connections.admit(held, "192.168.0.7")
        connections.set_busy(held, True)
    assert not connections.admit(Held(), "192.168.0.7")
    other = Held()
    assert connections.admit(other, "192.168.0.8")
    connections.set_busy(ours[3], False)
    assert connections.admit(Held(), "192.168.0.7")
    assert [held.sent_away for held in ours].index(True) == 3
    assert not other.sent_away, "it is of another address"


def test_only_this_computer_has_a_reserve() -> None:
    connections = Connections()
    for index in range(MAX_CONNECTIONS):
        held = Held()
        assert connections.admit(held, f"192.168.0.{index}")
        connections.set_busy(held, True)
    assert not connections.admit(Held(), "192.168.1.1")
    for _ in range(RESERVE):
        check = Held()
        assert connections.admit(check, "127.0.0.1")
        assert connections.place(check) == "health"
        connections.set_busy(check, True)
    assert not connections.admit(Held(), "127.0.0.1")
    connections.release(check)
    assert connections.admit(Held(), "::1")
    assert module.PER_ADDRESS < MAX_CONNECTIONS


@pytest.mark.parametrize("body", ["[" * 4000, '{"active":' * 400, "9" * 4000])
def test_nested_json_gets_an_answer(site: Site, body: str) -> None:
    status, _, answer = site.ask("/recording", method="POST", body=body, X_Edgeseg="1")
    assert status == 400
    assert json.loads(answer) == {"error": 'expected {"active": true or false}'}


def test_a_crowd_without_a_token_does_not_keep_those_with_one_out(
    crowd: list[socket.socket],
) -> None:
    with running(token=TOKEN) as site:
        for _ in range(MAX_CONNECTIONS + 5):
            client = connect(site, crowd, WATCH)
            with contextlib.suppress(http.client.HTTPException):
                assert b" 401 " in client.recv(100)
        assert site.ask("/state", Authorization=f"Bearer {TOKEN}")[0] == 200


class Stamps:
    """A connection, its reader, and a clock that the test moves."""

    def __init__(self) -> None:
        self.now_ns = 100
        ours, self.theirs = socket.socketpair()
        self.reader = TimedReader(
            ours, clock=lambda: 0.0, clock_ns=lambda: self.now_ns, since_ns=self.now_ns
        )

    def read_at(self, now_ns: int) -> int:
        """When what is there came, read then."""
        self.now_ns = now_ns
        assert self.reader.readinto(bytearray(4))
        return self.reader.came_ns


def test_what_is_there_at_once_came_after_the_connection_was_taken() -> None:
    stamps = Stamps()
    stamps.theirs.sendall(b"1234")
    assert stamps.read_at(700) == 100


def test_what_is_waited_for_came_when_it_came() -> None:
    class Silent(socket.socket):
        def recv_into(self, buffer: bytearray) -> int:  # type: ignore[override]
            if self.gettimeout() == 0:
                raise BlockingIOError
            return 4

    stamps = Stamps()
    stamps.reader._connection = Silent()
    assert stamps.read_at(700) == 700


def test_what_comes_after_an_answer_has_begun_is_no_older() -> None:
    stamps = Stamps()
    stamps.theirs.sendall(b"1234")
    stamps.read_at(200)
    stamps.now_ns = 500
    stamps.reader.note_empty()
    stamps.theirs.sendall(b"1234")
    assert stamps.read_at(700) == 500


def test_what_waited_while_the_one_before_it_was_answered_is_older() -> None:
    stamps = Stamps()
    stamps.theirs.sendall(b"12345678")
    stamps.read_at(200)
    stamps.now_ns = 500
    stamps.reader.note_empty()
    assert stamps.read_at(700) == 100
