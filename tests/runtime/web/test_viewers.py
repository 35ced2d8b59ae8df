"""Viewers of the page: the newest frame for all, and nobody slows another."""

import socket
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from edgeseg.runtime.web import live_view, site_server
from edgeseg.runtime.web.live_view import LiveView
from tests.doubles.fakes import wait
from tests.support import HANGS_S
from tests.support.page_site import Site, running
from tests.support.scored_frames import make_result


@pytest.fixture
def site() -> Iterator[Site]:
    with running() as started:
        yield started


class Viewer:
    """A browser that looks at the live view."""

    def __init__(self, site: Site, *, receive_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(60)
        self.socket.connect(("127.0.0.1", site.port))
        self.socket.sendall(b"GET /stream.mjpg HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self._file = self.socket.makefile("rb")

    def jpeg(self, *, other_than: bytes = b"") -> bytes:
        """The next picture; one that stays is sent again from time to time."""
        while True:
            line = self._file.readline()
            assert line, "the stream has ended"
            if line.lower().startswith(b"content-length:"):
                assert self._file.readline() == b"\r\n"
                jpeg = self._file.read(int(line.split(b":")[1]))
                if jpeg != other_than:
                    return jpeg

    def close(self) -> None:
        self._file.close()
        self.socket.close()


@pytest.fixture
def encoders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the threads that draw and encode, one for every picture of the live view."""
    threads: list[str] = []
    encode = live_view.encode_jpeg

    def encode_noted(picture: np.ndarray, *, quality: int) -> bytes:
        threads.append(threading.current_thread().name)
        return encode(picture, quality=quality)

    monkeypatch.setattr(live_view, "encode_jpeg", encode_noted)
    return threads


def test_viewers_see_the_newest_frame(site: Site) -> None:
    site.page.on_frame(make_result())  # scored before anybody watched: shown at once
    viewers = [Viewer(site) for _ in range(3)]
    first = [viewer.jpeg() for viewer in viewers]
    assert first[0][:2] == b"\xff\xd8"
    assert first[0] == first[1] == first[2]
    assert site.state()["viewers"] == 3
    site.page.on_frame(make_result(frame_hwc=np.full((48, 64, 3), 255, np.uint8)))
    white = [viewer.jpeg(other_than=first[0]) for viewer in viewers]
    assert white[0] == white[1] == white[2]
    for viewer in viewers:
        viewer.close()

    def gone() -> bool:
        site.page.on_frame(make_result())
        return site.state()["viewers"] == 0

    wait(gone, "viewers that left are still counted")


def test_a_still_source_keeps_its_viewers_and_notices_their_end(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_server, "_NEXT_FRAME_S", 0.02)
    waiting = Viewer(site)  # before the first frame
    wait(lambda: site.state()["viewers"] == 1, "a viewer")
    waiting.close()
    wait(lambda: site.state()["viewers"] == 0, "left before the first frame")
    site.page.on_frame(make_result())
    viewer = Viewer(site)
    assert viewer.jpeg() == viewer.jpeg(), "no new frame: the same picture again"
    viewer.close()
    wait(lambda: site.state()["viewers"] == 0, "left while no frame came")
    assert site.ask("/stream.mjpg?source=1")[0] == 404


def test_nothing_is_encoded_without_viewers(encoders: list[str]) -> None:
    """Round by round, without the thread: no frame can come too late to be counted."""
    view = LiveView(on_error=lambda name, text: pytest.fail(text))
    for _ in range(50):
        view.offer(make_result())
        view.encode_watched()
    assert encoders == []
    with view.watch(0) as next_jpeg:
        view.encode_watched()
        assert next_jpeg(0.0) is not None
        view.encode_watched()
        assert next_jpeg(0.0) is None, "nothing new"
    view.offer(make_result())
    view.encode_watched()
    assert len(encoders) == 1


def test_a_watcher_that_takes_nothing_slows_nobody() -> None:
    view = LiveView(on_error=lambda name, text: pytest.fail(text))
    with view.watch(0), view.watch(0) as next_jpeg:
        for level in range(20):
            view.offer(make_result(frame_hwc=np.full((48, 64, 3), 10 * level, np.uint8)))
            view.encode_watched()
            assert next_jpeg(0.0) is not None


def test_a_viewer_that_does_not_read_slows_nobody(site: Site, encoders: list[str]) -> None:
    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 256, (480, 640, 3), dtype=np.uint8) for _ in range(7)]
    asleep = [Viewer(site, receive_bytes=4096) for _ in range(3)]  # never read
    wait(lambda: site.state()["viewers"] == 3, "three viewers")
    awake, jpeg = Viewer(site), b""
    # Far more than the sleepers' buffers hold: their threads are stuck before the end.
    for index in range(20):
        site.page.on_frame(make_result(frame_hwc=noise[index % 7], frame_index=index))
        jpeg = awake.jpeg(other_than=jpeg)
        assert jpeg[:2] == b"\xff\xd8"
    assert site.state()["viewers"] == 4
    assert set(encoders) == {"page-encoder"}, "scoring neither draws nor encodes"
    for viewer in (*asleep, awake):
        viewer.close()


def test_close_ends_streams_and_threads() -> None:
    before = set(threading.enumerate())
    site = Site()
    site.page.on_frame(make_result(score=20.0, alarm_started=True))
    viewer = Viewer(site)
    viewer.jpeg()
    site.page.close()
    while viewer.socket.recv(65536):
        pass
    viewer.close()
    wait(lambda: not set(threading.enumerate()) - before, "a thread is left")
    with pytest.raises(OSError, match="refused"):
        site.ask("/")


def test_garbage_is_answered_or_dropped(site: Site) -> None:
    for garbage in (b"\x16\x03\x01\x02", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0" * 70000):
        client = socket.create_connection(("127.0.0.1", site.port), timeout=HANGS_S)
        client.sendall(garbage)
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass
        client.close()
    assert site.ask("/healthz")[0] == 200
