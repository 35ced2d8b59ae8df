"""A camera that gives a picture for every request: the rules of a file, and no other."""

import base64
import threading
import time
from collections.abc import Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from edgeseg.runtime.capture.picture_address import PictureAddress, is_picture_address, seconds_kept
from edgeseg.runtime.capture.sources import open_capture, parse_source
from tests.support.picture_bytes import encode

PIXELS = np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8)
WHOLE = encode(".jpg", PIXELS)
PAGES = {
    "/whole.jpg": WHOLE,
    "/cut.jpg": WHOLE[: len(WHOLE) // 2],
    "/text.png": b"no picture",
    "/empty.jpg": b"",
}


ASKED_NS: list[int] = []  # when each request came


class Camera(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        ASKED_NS.append(time.monotonic_ns())
        path = self.path.partition("?")[0]
        secret = base64.b64encode(b"eye:p@ss").decode()
        if path == "/secret.jpg" and self.headers.get("Authorization") != f"Basic {secret}":
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="camera"')
            self.end_headers()
            return
        data = WHOLE if path == "/secret.jpg" else PAGES.get(path)
        self.send_response(404 if data is None else 200)
        self.end_headers()
        self.wfile.write(data or b"")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture(scope="module")
def camera() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Camera)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def address(text: str, **options: int) -> PictureAddress:
    return PictureAddress(text, timeout_s=5.0, wait=lambda seconds: False, **options)


def test_pictures_come_as_often_as_they_are_asked_for(camera):
    source = address(f"http://{camera}/whole.jpg?quality=9")
    for _ in range(2):
        grab = source.read()
        assert grab is not None
        assert grab.image_hwc is not None
        assert (grab.image_hwc.shape, grab.channels) == ((40, 60, 3), "rgb")


@pytest.mark.parametrize("name", ["cut.jpg", "text.png"])
def test_what_a_fit_refuses_is_an_unreadable_frame(camera, name):
    grab = address(f"http://{camera}/{name}").read()
    assert grab is not None
    assert grab.image_hwc is None


def test_a_picture_beyond_the_limit_is_not_decoded(camera):
    grab = address(f"http://{camera}/whole.jpg", max_pixels=100).read()
    assert grab is not None
    assert grab.image_hwc is None


@pytest.mark.parametrize("name", ["gone.jpg", "empty.jpg"])
def test_no_picture_is_a_lost_source(camera, name):
    assert address(f"http://{camera}/{name}").read() is None
    assert address("http://127.0.0.1:9/a.jpg").read() is None


def test_a_camera_with_a_password(camera):
    assert address(f"http://{camera}/secret.jpg").read() is None
    grab = address(f"http://eye:p%40ss@{camera}/secret.jpg").read()
    assert grab is not None
    assert grab.image_hwc is not None


def test_which_addresses_are_pictures(camera):
    assert is_picture_address("http://cam/now.JPG?user=x")
    for text in ("http://cam/stream", "rtsp://cam/a.jpg", "http://cam/a.mp4", "http://a:[@cam/b"):
        assert not is_picture_address(text)
    spec = parse_source(f"http://u:secret@{camera}/whole.jpg", max_pixels=100)
    assert (spec.kind, spec.live, spec.reconnects) == ("picture", True, True)
    assert "secret" not in spec.name
    capture = open_capture(spec, wait=lambda seconds: False, timeout_s=5.0)
    grab = capture.read()
    assert grab is not None
    assert grab.image_hwc is None, "over its limit"


def test_a_picture_is_no_newer_than_the_request_for_it(camera):
    grab = address(f"http://{camera}/whole.jpg").read()
    assert grab is not None
    assert grab.grabbed_ns < ASKED_NS[-1]


@pytest.mark.parametrize(
    ("headers", "kept_s"),
    [
        ({}, 0),
        ({"Age": "0"}, 0),
        ({"Age": "7"}, 8),
        ({"Age": "soon"}, 0),
        ({"Date": "Wed, 18 Nov 2026 08:00:10 GMT"}, 0),
        ({"Last-Modified": "Wed, 18 Nov 2026 08:00:10 GMT"}, 0),
        ({"Date": "now", "Last-Modified": "Wed, 18 Nov 2026 08:00:10 GMT"}, 0),
        (
            {
                "Date": "Wed, 18 Nov 2026 08:00:10 GMT",
                "Last-Modified": "Wed, 18 Nov 2026 08:00:08 GMT",
            },
            3,
        ),
        (
            {
                "Date": "Wed, 18 Nov 2026 08:00:10 GMT",
                "Last-Modified": "Wed, 18 Nov 2026 08:00:11 GMT",
            },
            0,
        ),
    ],
)
def test_an_answer_may_say_that_its_picture_is_older(headers, kept_s):
    message = Message()
    for name, value in headers.items():
        message[name] = value
    assert seconds_kept(message) == kept_s
