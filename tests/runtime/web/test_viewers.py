"""Viewers of the page: the newest frame for all, and nobody slows another."""

import http.client
import socket
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from edgeseg.runtime.web import handler as pagehandler
from edgeseg.runtime.web import live_view as live
from edgeseg.runtime.web.server import MAX_CONNECTIONS
from tests.support.page_site import Site, running, wait
from tests.support.scored_frames import make_result


@pytest.fixture
def site() -> Iterator[Site]:
    with running() as started:
        yield started


def _open_stream(site: Site, *, receive_bytes: int | None = None) -> socket.socket:
    viewer = socket.socket()
    if receive_bytes is not None:
        viewer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    viewer.settimeout(20)
    viewer.connect(("127.0.0.1", site.port))
    viewer.sendall(b"GET /stream.mjpg HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return viewer


def _read_jpegs(viewer: socket.socket, count: int) -> list[bytes]:
    file = viewer.makefile("rb")
    jpegs = []
    while len(jpegs) < count:
        line = file.readline()
        assert line, "the stream has ended"
        if line.lower().startswith(b"content-length:"):
            assert file.readline() == b"\r\n"
            jpegs.append(file.read(int(line.split(b":")[1])))
    return jpegs


def test_viewers_see_the_newest_frame(site: Site) -> None:
    site.page.on_frame(make_result())  # scored before anybody watched: shown at once
    viewers = [_open_stream(site) for _ in range(3)]
    first = [_read_jpegs(viewer, 1)[0] for viewer in viewers]
    assert first[0][:2] == b"\xff\xd8"
    assert first[0] == first[1] == first[2]
    assert site.state()["viewers"] == 3
    white = make_result(frame_hwc=np.full((48, 64, 3), 255, np.uint8))
    site.page.on_frame(white)
    assert all(_read_jpegs(viewer, 1)[0] != first[0] for viewer in viewers)
    for viewer in viewers:
        viewer.close()

    def gone() -> bool:
        site.page.on_frame(make_result())
        return site.state()["viewers"] == 0

    wait(gone, "viewers that left are still counted")


def test_a_still_source_keeps_its_viewers_and_notices_their_end(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagehandler, "_NEXT_FRAME_S", 0.02)
    waiting = _open_stream(site)  # before the first frame
    wait(lambda: site.state()["viewers"] == 1, "a viewer")
    waiting.close()
    wait(lambda: site.state()["viewers"] == 0, "left before the first frame")
    site.page.on_frame(make_result())
    viewer = _open_stream(site)
    first, again = _read_jpegs(viewer, 2)  # no new frame: the same picture again
    assert first == again
    viewer.close()
    wait(lambda: site.state()["viewers"] == 0, "left while no frame came")
    assert site.ask("/stream.mjpg?source=1")[0] == 404


def test_nothing_is_encoded_without_viewers(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []
    encode = live.encode_jpeg
    monkeypatch.setattr(
        live, "encode_jpeg", lambda *args, **rest: encoded.append(1) or encode(*args, **rest)
    )
    for _ in range(50):
        site.page.on_frame(make_result())
    time.sleep(0.2)
    assert encoded == []
    viewer = _open_stream(site)
    _read_jpegs(viewer, 1)
    assert len(encoded) == 1
    viewer.close()


def test_a_viewer_that_does_not_read_slows_nobody(site: Site) -> None:
    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 256, (480, 640, 3), dtype=np.uint8) for _ in range(7)]
    asleep = [_open_stream(site, receive_bytes=4096) for _ in range(3)]  # never read
    wait(lambda: site.state()["viewers"] == 3, "three viewers")
    awake = _open_stream(site)
    stop, slowest = threading.Event(), [0.0]

    def score() -> None:
        index = 0
        while not stop.wait(0.005):
            begin = time.thread_time()  # not the clock: another process may hold the processor
            site.page.on_frame(make_result(frame_hwc=noise[index % 7], frame_index=index))
            slowest[0] = max(slowest[0], time.thread_time() - begin)
            index += 1

    scorer = threading.Thread(target=score)
    scorer.start()
    try:
        # Far more than the sleepers' buffers hold: their threads are stuck by now.
        jpegs = _read_jpegs(awake, 20)
    finally:
        stop.set()
        scorer.join(20)
    assert not scorer.is_alive()
    assert all(jpeg[:2] == b"\xff\xd8" for jpeg in jpegs)
    assert len(set(jpegs)) > 1
    assert slowest[0] < 0.05
    for viewer in (*asleep, awake):
        viewer.close()


def test_close_ends_streams_and_threads() -> None:
    before = set(threading.enumerate())
    site = Site()
    site.page.on_frame(make_result(score=20.0, alarm_started=True))
    viewer = _open_stream(site)
    _read_jpegs(viewer, 1)
    site.page.close()
    while viewer.recv(65536):
        pass
    wait(lambda: not set(threading.enumerate()) - before, "a thread is left")
    with pytest.raises(OSError, match="refused"):
        site.ask("/")


def test_connections_are_limited(site: Site) -> None:
    crowd = []
    for _ in range(MAX_CONNECTIONS):
        client = socket.create_connection(("127.0.0.1", site.port), timeout=10)
        crowd.append(client)
    late = socket.create_connection(("127.0.0.1", site.port), timeout=10)
    assert late.recv(10) == b""  # closed at once
    for client in (*crowd, late):
        client.close()
    wait(lambda: _works(site), "the page does not recover")


def _works(site: Site) -> bool:
    try:
        return site.ask("/healthz")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def test_garbage_is_answered_or_dropped(site: Site) -> None:
    for garbage in (b"\x16\x03\x01\x02", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0" * 70000):
        client = socket.create_connection(("127.0.0.1", site.port), timeout=15)
        client.sendall(garbage)
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass
        client.close()
    assert site.ask("/healthz")[0] == 200
