"""The product's own captures, with a simulated driver, pipe, library or server below each."""

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from ctypes import c_void_p
from email.message import Message
from types import ModuleType
from typing import Any
from unittest.mock import patch

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.runtime.capture import (
    captures,
    frame_buffer,
    frame_pipe,
    liveness,
    opencv_capture,
    picture_address,
    reader,
)
from edgeseg.runtime.capture.aravis import camera as aravis_camera
from edgeseg.runtime.capture.aravis.settings import AravisOptions
from edgeseg.runtime.capture.captures import Capture, Wait
from edgeseg.runtime.capture.frame_pipe import FramePipe
from edgeseg.runtime.capture.opencv_capture import OpenCvCapture, device_clock, stream_clock
from edgeseg.runtime.capture.picture_address import PictureAddress
from tests.meaning.world import Shot, Sim, Wire

SIZE_HW = (8, 16)
TIMED: tuple[ModuleType, ...] = (
    captures, frame_buffer, frame_pipe, liveness, opencv_capture, picture_address, reader,
    aravis_camera,
)  # fmt: skip
Drawing = Callable[[Shot], NDArray[np.uint8]]


def simulated_time(sim: Sim) -> AbstractContextManager[None]:
    """Everything that a source is read with goes by the simulated clock."""
    return applied([patch.object(module, "time", sim) for module in TIMED])


@contextmanager
def applied(patches: Sequence[AbstractContextManager[object]]) -> Iterator[None]:
    """Several patches as one."""
    with ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        yield


def draw(shot: Shot, size_hw: tuple[int, int] = SIZE_HW) -> NDArray[np.uint8]:
    """A frame that shows its number, and noise that is its own."""
    image = np.full((*size_hw, 3), 40 + shot.number % 7, np.uint8)
    image.reshape(-1)[:8] = np.frombuffer(struct.pack(">Q", shot.number), np.uint8)
    return image


def shown(image_hwc: NDArray[np.uint8]) -> int:
    """The number in a frame."""
    return int(struct.unpack(">Q", image_hwc.reshape(-1)[:8].tobytes())[0])


class SimVideo:
    """What OpenCV opens: `position_s` is what it tells of a frame's time."""

    def __init__(self, wire: Wire, position_s: Callable[[Shot], float], draw: Drawing) -> None:
        self._wire, self._position_s, self._draw = wire, position_s, draw
        self._shot = Shot(0, 0.0, 0.0)

    def grab(self) -> bool:
        self._shot = self._wire.take()
        return True

    def retrieve(self) -> tuple[bool, NDArray[np.uint8]]:
        return True, self._draw(self._shot)

    def get(self, what: int) -> float:
        return 1e3 * self._position_s(self._shot) if what == cv2.CAP_PROP_POS_MSEC else 0.0

    def release(self) -> None:
        """Nothing is held."""


def open_mjpeg(wire: Wire, wait: Wait, timeout_s: float, draw: Drawing) -> Capture:
    """A stream without times."""
    opened_s = wire.sim.monotonic()
    wire.connect()
    clock = stream_clock(opened_s, timed=False, patience_s=timeout_s)
    return OpenCvCapture(SimVideo(wire, lambda shot: 0.0, draw), clock=clock)  # type: ignore[arg-type]


def open_rtsp(wire: Wire, wait: Wait, timeout_s: float, draw: Drawing) -> Capture:
    """A stream with times, of a crystal that is 50 ppm off."""
    opened_s = wire.sim.monotonic()
    wire.connect()
    begun_s = wire.sim.monotonic() - 5.0
    clock = stream_clock(opened_s, timed=True, patience_s=timeout_s)
    video = SimVideo(wire, lambda shot: (shot.exposed_s - begun_s) * 1.00005, draw)
    return OpenCvCapture(video, clock=clock)  # type: ignore[arg-type]


def open_v4l2(wire: Wire, wait: Wait, timeout_s: float, draw: Drawing) -> Capture:
    """A device whose driver stamps its four buffers when a frame begins to come."""
    wire.room = 4
    opened_s = wire.sim.monotonic()
    wire.connect()
    video = SimVideo(wire, lambda shot: shot.exposed_s + wire.delay_s, draw)
    return OpenCvCapture(video, clock=device_clock(opened_s))  # type: ignore[arg-type]


def open_unstamped(wire: Wire, wait: Wait, timeout_s: float, draw: Drawing) -> Capture:
    """A device whose driver stamps nothing."""
    wire.room = 4
    opened_s = wire.sim.monotonic()
    wire.connect()
    video = SimVideo(wire, lambda shot: 0.0, draw)
    return OpenCvCapture(video, clock=device_clock(opened_s))  # type: ignore[arg-type]


class SimPipe(FramePipe):
    """The pipe of a pipeline, without its process."""

    def __init__(
        self, wire: Wire, draw: Drawing, *, timed: bool, wait: Wait, timeout_s: float
    ) -> None:
        self._set_up(live=True, timed=True, wait=wait, timeout_s=timeout_s)
        self._wire, self._draw, self._told = wire, draw, timed
        wire.connect()
        self._begun_s = wire.sim.monotonic() - 5.0
        self._bytes_left = b""

    def _fill(self, room: memoryview) -> None:
        if not self._bytes_left:
            self._bytes_left = self._packet()
        room[:] = self._bytes_left[: len(room)]  # type: ignore[assignment]
        self._bytes_left = self._bytes_left[len(room) :]

    def _packet(self) -> bytes:
        shot = self._wire.take()
        image = self._draw(shot)
        caps = b""
        if self._caps is None:
            height, width = image.shape[:2]
            text = f"video/x-raw, format=(string)BGR, width=(int){width}, height=(int){height}"
            caps = frame_pipe._HEADER.pack(0x0100, 0, frame_pipe._CAPS, len(text), *(0,) * 7)
            caps += text.encode()
        pts_ns = int((shot.exposed_s - self._begun_s) * 1e9) if self._told else 2**64 - 1
        head = frame_pipe._HEADER.pack(0x0100, 0, frame_pipe._BUFFER, image.size, pts_ns, *(0,) * 6)
        return caps + head + image.tobytes()

    def close(self) -> None:
        """There is no child."""


def open_pipe(wire: Wire, wait: Wait, timeout_s: float, draw: Drawing) -> Capture:
    """A pipeline that tells the times of its camera."""
    return SimPipe(wire, draw, timed=True, wait=wait, timeout_s=timeout_s)


def open_untimed_pipe(wire: Wire, wait: Wait, timeout_s: float, draw: Drawing) -> Capture:
    """A pipeline that tells none."""
    return SimPipe(wire, draw, timed=False, wait=wait, timeout_s=timeout_s)


class SimAravis:
    """The library, as far as a camera that is read calls it."""

    def __init__(self, wire: Wire, draw: Drawing) -> None:
        self._wire, self._draw, self._shot = wire, draw, Shot(0, 0.0, 0.0)

    def ask(self, function: str, *arguments: object) -> int:
        return 0

    def arv_stream_timeout_pop_buffer(self, stream: object, timeout_us: int) -> int:
        self._shot = self._wire.take()
        return 1

    def arv_buffer_get_timestamp(self, buffer: c_void_p) -> int:
        return int((self._shot.exposed_s - 900.0) * 1.0001 * 1e9)

    def arv_buffer_get_system_timestamp(self, buffer: c_void_p) -> int:
        return 0  # what the library cannot see

    def arv_buffer_get_image_pixel_format(self, buffer: c_void_p) -> int:
        return next(code for code, each in aravis_camera.FORMATS.items() if each.name == "BGR8")

    def arv_buffer_get_image_height(self, buffer: c_void_p) -> int:
        return int(self._draw(self._shot).shape[0])

    def arv_buffer_get_image_width(self, buffer: c_void_p) -> int:
        return int(self._draw(self._shot).shape[1])

    def lent_bytes(self, buffer: c_void_p) -> bytes:
        return self._draw(self._shot).tobytes()

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *arguments: 0


def open_aravis(wire: Wire, wait: Wait, timeout_s: float, draw: Drawing) -> Capture:
    """A camera with a clock of its own, 100 ppm off, and eight buffers."""
    wire.room = 8
    fake = SimAravis(wire, draw)
    wire.connect()
    patches = [
        patch.object(aravis_camera, "library", lambda: fake),
        patch.object(aravis_camera, "ask", fake.ask),
        patch.object(aravis_camera, "lent_bytes", fake.lent_bytes),
    ]

    class Patched(aravis_camera.AravisCamera):
        def read(self) -> Any:
            with applied(patches):
                return super().read()

        def close(self) -> None:
            """It is no camera."""

    with applied(patches):
        return Patched(c_void_p(1), AravisOptions(), wait=wait, timeout_s=timeout_s)


class SimServer:
    """Answers a request with a picture: exposes some time after it, and is slow."""

    def __init__(self, wire: Wire, draw: Drawing) -> None:
        self._wire, self._draw, self._data, self._number = wire, draw, b"", 0
        self.headers = Message()

    def open(self, url: str, timeout: float) -> "SimServer":
        sim, random = self._wire.sim, self._wire.sim.random
        sim.advance(sim.monotonic() + random.uniform(0, 0.02))
        if not (self._number and random.random() < self._wire.troubles.repeated):  # its cache
            self._number += 1
            self._wire.exposed[self._number] = sim.monotonic()
        slow = random.random() < 100 * self._wire.troubles.link
        shot = Shot(self._number, self._wire.exposed[self._number], 0.0)
        self._data = cv2.imencode(".png", self._draw(shot)[:, :, ::-1])[1].tobytes()
        sim.advance(sim.monotonic() + random.uniform(0.01, 0.9 if slow else 0.05))
        return self

    def read(self, most: int) -> bytes:
        return self._data

    def __enter__(self) -> "SimServer":
        return self

    def __exit__(self, *_: object) -> None:
        if self._wire.sim.random.random() < self._wire.troubles.process:
            self._wire.sim.advance(self._wire.sim.monotonic() + 1.6)  # stopped before the stamp


def open_picture(wire: Wire, wait: Wait, timeout_s: float, draw: Drawing) -> Capture:
    """A picture for every request."""
    capture = PictureAddress("http://camera/now.png", timeout_s=timeout_s, wait=wait)
    capture._opener = SimServer(wire, draw)  # type: ignore[assignment]
    return capture


OPENERS: dict[str, Callable[[Wire, Wait, float, Drawing], Capture]] = {
    "picture address": open_picture,
    "MJPEG": open_mjpeg,
    "V4L2": open_v4l2,
    "V4L2 without stamps": open_unstamped,
    "RTSP": open_rtsp,
    "Aravis": open_aravis,
    "GStreamer": open_pipe,
    "GStreamer without times": open_untimed_pipe,
}
# Where frames have no times, one that comes after the next cannot be told from it.
ORDERED = {"MJPEG", "V4L2 without stamps", "GStreamer without times"}
