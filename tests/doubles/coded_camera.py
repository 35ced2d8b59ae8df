"""A network camera that can be killed: MJPEG over HTTP, every frame with a number in its pixels.

    python -m tests.doubles.coded_camera --port 8090 --first 0

The number is drawn twice, once inverted, so a frame that is torn, mixed or made up is recognised.
"""

import argparse
import itertools
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import cv2
import numpy as np
from numpy.typing import NDArray

from tests.doubles.server_process import ServerProcess

BITS = 32
_BLOCK = 24  # pixels; three JPEG blocks, so that neighbours do not blur into each other
_COLUMNS = 8
SIZE_HW = (2 * BITS // _COLUMNS * _BLOCK, _COLUMNS * _BLOCK)


def draw_number(number: int) -> NDArray[np.uint8]:
    """A frame (H, W, 3) that shows a number in black and white blocks."""
    bits = np.array([number >> place & 1 for place in range(BITS)], np.uint8)
    blocks = np.concatenate([bits, 1 - bits]).reshape(-1, _COLUMNS) * 220 + 16
    grey = blocks.repeat(_BLOCK, 0).repeat(_BLOCK, 1).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)


def read_number(frame_hwc: NDArray[np.uint8]) -> int | None:
    """The number in a frame; None when the frame is not one that was drawn."""
    if frame_hwc.shape[:2] != SIZE_HW:
        return None
    height, width = SIZE_HW
    grey = frame_hwc.mean(axis=2).reshape(height // _BLOCK, _BLOCK, width // _BLOCK, _BLOCK)
    levels = grey.mean(axis=(1, 3)).ravel()
    if np.abs(levels - 126).min() < 80:  # neither black nor white
        return None
    bits = (levels > 126).astype(np.int64)
    if not np.array_equal(bits[:BITS], 1 - bits[BITS:]):
        return None
    return int((bits[:BITS] << np.arange(BITS)).sum())


class Camera(ServerProcess):
    """The camera in a process of its own, so that killing it is what a power cut is."""

    def __init__(self, *, fps: float = 30.0) -> None:
        super().__init__()
        self.url = f"http://127.0.0.1:{self.port}/video"
        self._fps = fps

    def start(self, first: int) -> None:
        """Serve frames numbered from `first` on; return when it listens."""
        words = ["--port", self.port, "--first", first, "--fps", self._fps]
        self._listen([sys.executable, "-m", "tests.doubles.coded_camera", *map(str, words)])


def _serve(port: int, first: int, fps: float) -> None:
    numbers = itertools.count(first)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            """Stay quiet."""

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
            self.end_headers()
            try:
                for number in numbers:
                    self._send(cv2.imencode(".jpg", draw_number(number))[1].tobytes())
            except OSError:
                return  # the viewer went away

        def _send(self, jpeg: bytes) -> None:
            head = f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
            middle = len(jpeg) // 2
            self.wfile.write(head.encode() + jpeg[:middle])
            time.sleep(0.5 / fps)  # half of the time there is half a frame on the way
            self.wfile.write(jpeg[middle:] + b"\r\n")
            time.sleep(0.5 / fps)

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--fps", type=float, default=30.0)
    options = parser.parse_args()
    _serve(options.port, options.first, options.fps)
