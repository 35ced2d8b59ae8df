"""A real network camera, killed inside its frames and started again."""

import itertools
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import cv2
import pytest

from tests.doubles.coded_camera import Camera, draw_number, read_number
from tests.doubles.fakes import wait
from tests.support import HANGS_S
from tests.support.running_pipeline import running_pipeline


@pytest.fixture
def coded_camera() -> Iterator[Camera]:
    camera = Camera(fps=60)
    yield camera
    camera.kill()


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    """Set at the end, so that a failed test leaves no loop behind."""
    event = threading.Event()
    yield event
    event.set()


def threads_and_descriptors() -> tuple[int, int]:
    return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))


def wait_for_no_more(held: tuple[int, int], what: str) -> None:
    """What a lost camera held may end a moment later, what another test has left at any time."""

    def are_no_more() -> bool:
        return all(now <= then for now, then in zip(threads_and_descriptors(), held, strict=True))

    wait(are_no_more, what)


@pytest.mark.parametrize("number", [0, 1, 12345, 2**31])
def test_numbers_are_read_back_and_torn_frames_are_not(number: int) -> None:
    frame = draw_number(number)
    assert read_number(frame) == number
    torn = frame.copy()
    torn[150:] = 128
    assert read_number(torn) is None
    mixed = frame.copy()
    mixed[:100] = draw_number(number ^ 0xFF)[:100]
    assert read_number(mixed) is None


def test_a_camera_that_stalls_without_closing_is_opened_anew(stop: threading.Event) -> None:
    numbers = iter(range(1000))

    class Stalls(BaseHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            """Stay quiet."""

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
            self.end_headers()
            for number in itertools.islice(numbers, 8):
                jpeg = cv2.imencode(".jpg", draw_number(number))[1].tobytes()
                head = f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
                self.wfile.write(head.encode() + jpeg + b"\r\n")
                time.sleep(0.02)
            stop.wait(HANGS_S)  # silent, connected

    server = ThreadingHTTPServer(("127.0.0.1", 0), Stalls)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    with running_pipeline(address, stall_timeout_s=0.5) as (pipeline, sink):
        wait(lambda: pipeline.readers[0].reconnects >= 2, "two returns")
    stop.set()
    server.shutdown()
    server.server_close()
    kinds = [event.kind.removeprefix("source_") for event in sink.events]
    assert kinds[:5] == ["open", "lost", "back", "lost", "back"]
    scored = [read_number(result.frame_hwc) for result in sink.results]
    assert None not in scored
    assert len(scored) == len(set(scored))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
def test_a_camera_killed_and_restarted(coded_camera: Camera) -> None:
    coded_camera.start(0)
    with running_pipeline(coded_camera.url, stall_timeout_s=2.0) as (pipeline, sink):
        held = (0, 0)
        for life in range(1, 4):
            before = len(sink.results)
            wait(lambda before=before: len(sink.results) > before + 5, f"frames in life {life}")  # type: ignore[misc]
            if life == 1:
                held = threads_and_descriptors()
            wait_for_no_more(
                held, f"no more threads and descriptors in life {life} than in the first"
            )
            coded_camera.kill()
            wait(
                lambda life=life: [e.kind for e in sink.events].count("source_lost") == life,  # type: ignore[misc]
                f"loss {life}",
            )
            while_gone = len(sink.results)
            time.sleep(0.2)
            assert len(sink.results) == while_gone, "nothing is scored while the camera is gone"
            coded_camera.start(life * 100_000)
        wait(lambda: pipeline.readers[0].reconnects == 3, "the last reconnect")
    numbers = [read_number(result.frame_hwc) for result in sink.results]
    assert None not in numbers, "a frame was scored that the camera never sent"
    assert len(numbers) == len(set(numbers)), "a frame was scored twice"
    assert numbers == sorted(numbers)  # type: ignore[type-var]
    kinds = [event.kind.removeprefix("source_") for event in sink.events]
    assert kinds == ["open", "lost", "back", "lost", "back", "lost", "back", "end"]
    (source,) = pipeline.snapshot().sources
    assert source.frames_in == source.scored + sum(source.dropped.values())
    assert os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"].endswith("fflags;discardcorrupt")
