"""A part that was changed behind the camera's back, over real sockets: its trigger is no good."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import cv2
import numpy as np

from edgeseg.runtime.capture.captures import Capture
from edgeseg.runtime.capture.sources import SourceSpec, open_capture, parse_source
from tests.doubles.fakes import BrightnessSession
from tests.doubles.rig import Rig
from tests.support import HANGS_S

GOOD, BAD = 100, 250
VALUES = {
    "trigger": "modbus", "modbus": "0", "trigger_timeout": 600.0, "stall_timeout": 600.0,
}  # fmt: skip


def jpeg(level: int) -> bytes:
    return cv2.imencode(".jpg", np.full((32, 48, 3), level, np.uint8))[1].tobytes()


class Quiet(BaseHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def served(handler: type[Quiet]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def line_on(url: str) -> Rig:
    def opener(spec: SourceSpec, **opening: object) -> Capture:
        return open_capture(parse_source(url), **opening)  # type: ignore[arg-type]

    return Rig(BrightnessSession(), dict(VALUES), opener=opener)


def test_a_picture_that_was_exposed_before_the_trigger_and_answered_after_it() -> None:
    part, slow = [GOOD], threading.Event()
    exposed, answer = threading.Event(), threading.Event()

    class Camera(Quiet):
        def do_GET(self) -> None:
            picture = jpeg(part[0])  # exposed
            if slow.is_set():
                exposed.set()
                answer.wait(HANGS_S)
            self.send_response(200)
            self.send_header("Content-Length", str(len(picture)))
            self.end_headers()
            self.wfile.write(picture)

    with served(Camera) as url, line_on(f"{url}/now.jpg") as line:
        slow.set()
        assert exposed.wait(HANGS_S), "a picture of the good part is on its way"
        part[0] = BAD
        line.station.trigger(origin="test")
        answer.set()
        line.wait(lambda: len(line.results) == 1, "the answer")
    assert [result.verdict for result in line.results] == ["defect"]


def test_what_a_link_that_stood_still_delivers_in_a_burst() -> None:
    part, gone, still, stopped = [GOOD], threading.Event(), threading.Event(), threading.Event()

    class Camera(Quiet):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
            self.end_headers()
            while not gone.wait(0.02):
                if still.is_set():
                    waiting = [jpeg(GOOD + index % 2) for index in range(60)]
                    stopped.set()
                    while still.is_set():
                        time.sleep(0.01)
                    for picture in waiting:  # exposed while the link stood
                        self._send(picture)
                self._send(jpeg(part[0]))

        def _send(self, picture: bytes) -> None:
            head = f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {len(picture)}\r\n\r\n"
            self.wfile.write(head.encode() + picture + b"\r\n")

    with served(Camera) as url, line_on(f"{url}/video") as line:
        line.station.trigger(origin="test")
        line.wait(lambda: len(line.results) == 1, "the stream to be live")
        still.set()
        assert stopped.wait(HANGS_S)
        time.sleep(0.6)  # 30 frames and more: longer only makes the gap plainer
        part[0] = BAD
        line.station.trigger(origin="test")
        still.clear()
        line.wait(lambda: len(line.results) == 2, "the answer")
        gone.set()
    assert [result.verdict for result in line.results] == ["good", "defect"]
