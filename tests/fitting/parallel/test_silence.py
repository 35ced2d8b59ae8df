"""A host that is gone is noticed, by what waits for it and by what sends to it."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeseg.fitting.parallel.silence import SILENCE_S, notice_silence
from tests.support import HANGS_S
from tests.support.hosts import Host, hosts, why_no_hosts

LISTEN = """
import socket
with socket.create_server(("0.0.0.0", 7000)) as server:
    print("listens", flush=True)
    connection, _ = server.accept()
    connection.recv(1)
    connection.recv(1)
"""
# `send` or `wait`, and what became of it.
CALL = """
import socket, sys
from edgeseg.fitting.parallel.silence import notice_silence
connection = socket.create_connection((sys.argv[1], 7000))
notice_silence(2)
connection.sendall(b"1")
print("connected", flush=True)
sys.stdin.readline()
try:
    if sys.argv[2] == "send":
        connection.sendall(b"2")
    connection.recv(1)
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture(scope="module")
def pair() -> Iterator[list[Host]]:
    reason = why_no_hosts()
    if reason is not None:
        pytest.skip(reason)
    with hosts(2) as machines:
        yield machines


def python(host: Host, code: str, *words: str) -> "subprocess.Popen[str]":
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return host.start([sys.executable, "-c", code, *words], **streams)


def first_line(program: "subprocess.Popen[str]") -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


@pytest.mark.parametrize("way", ["wait", "send"])
def test_a_pulled_cable_ends_a_connection(pair: list[Host], way: str) -> None:
    here, there = pair
    listener = python(there, LISTEN)
    assert first_line(listener) == "listens"
    caller = python(here, CALL, there.name, way)
    assert first_line(caller) == "connected"
    before = here.sent_bytes()
    assert before > 0
    there.cable(plugged=False)
    try:
        said, _ = caller.communicate("go\n", timeout=HANGS_S)
        assert said.strip() in ("TimeoutError", "OSError"), "no route, or no answer"
    finally:
        there.cable(plugged=True)
        for program in (listener, caller):
            program.kill()
            program.wait()


def test_all_connections_and_nothing_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
        unix = socket.socketpair()
        names = set(Path("/dev/fd").iterdir())
        notice_silence()
        assert set(Path("/dev/fd").iterdir()) == names, "no descriptor is left open, none is closed"
        for connection in (one, other):
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                given_ms = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
                assert given_ms == 1000 * SILENCE_S
        one.sendall(b"x")
        assert other.recv(1) == b"x"
        for connection in (one, other, *unix):
            connection.close()


def test_hosts_leave_nothing_behind(pair: list[Host]) -> None:
    with hosts(1) as (host,):
        known = host.names
        assert known.is_file()
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    assert host.name not in left.stdout
    assert pair[0].name in left.stdout, "of others nothing is taken away"
    assert not Path(known).exists()
