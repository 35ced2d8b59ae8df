"""Captures: one way to read frames from devices, streams, files, folders and made-up scenes."""

import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.errors import RuntimeFailure
from edgeseg.runtime.capture.frame_buffer import Channels
from edgeseg.runtime.capture.source_spec import SourceSpec, SyntheticOptions

_UNSEEN = 1_000_000_000  # scenes from here on are in no dataset that edgeseg writes
Wait = Callable[[float], bool]  # sleeps that many seconds; true when the run is ending


class Grab(NamedTuple):
    """One frame as a capture hands it over; without an image it could not be decoded."""

    image_hwc: NDArray[np.uint8] | None
    channels: Channels
    grabbed_ns: int
    wall_s: float
    name: str = ""


class Capture(Protocol):
    """An open source."""

    fps: float  # nominal; 0 when unknown

    def read(self) -> Grab | None:
        """The next frame; None when the source has ended or is lost."""

    def close(self) -> None:
        """Release the device or connection."""


def open_capture(spec: SourceSpec, *, wait: Wait, timeout_s: float) -> Capture:
    """Open a source; RuntimeFailure says why it cannot be."""
    if spec.kind == "images":
        return ImageFiles(spec.paths)
    if spec.synthetic is not None:
        return SyntheticCamera(spec.synthetic, wait=wait)
    capture = _open_opencv(spec, timeout_s=timeout_s)
    if not capture.isOpened():
        capture.release()
        raise RuntimeFailure(f"{spec.name}: {_why_not(spec)}")
    pace = Pace(capture.get(cv2.CAP_PROP_FPS), wait=wait)
    return OpenCvCapture(capture, pace=pace if spec.kind == "video" and spec.live else None)


def _open_opencv(spec: SourceSpec, *, timeout_s: float) -> cv2.VideoCapture:
    _quiet_opencv()
    if spec.kind == "device":
        backend = cv2.CAP_V4L2 if sys.platform == "linux" else cv2.CAP_ANY
        target = int(spec.text) if spec.text.isdigit() else spec.text
        capture = cv2.VideoCapture(target, backend)
        capture.set(cv2.CAP_PROP_BUFFERSIZE, 1)  # the driver's own queue makes frames old
        return capture
    if spec.kind == "gstreamer":
        return cv2.VideoCapture(spec.text, cv2.CAP_GSTREAMER)
    parameters = []
    if spec.kind == "network":
        # One decoding thread: with several, FFmpeg holds back a frame for each.
        parameters = [cv2.CAP_PROP_N_THREADS, 1]
        for key in (cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, cv2.CAP_PROP_READ_TIMEOUT_MSEC):
            parameters += [key, int(timeout_s * 1000)]
    return cv2.VideoCapture(spec.text, cv2.CAP_FFMPEG, parameters)


def _quiet_opencv() -> None:
    # OpenCV and FFmpeg print the URLs they cannot open, passwords included.
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    os.environ["OPENCV_FFMPEG_LOGLEVEL"] = "-8"
    # A connection that breaks inside a frame otherwise yields that frame, its missing part grey.
    options = os.environ.get("OPENCV_FFMPEG_CAPTURE_OPTIONS", "rtsp_transport;tcp")
    if "fflags" not in options:
        options += "|fflags;discardcorrupt"
    os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"] = options


def _why_not(spec: SourceSpec) -> str:
    """The reason in words, since OpenCV only says that it did not work."""
    if spec.kind == "device":
        path = Path(f"/dev/video{spec.text}" if spec.text.isdigit() else spec.text)
        if not path.exists():
            return f"no device {path}; is the camera plugged in?"
        if not os.access(path, os.R_OK | os.W_OK):
            return f"no permission for {path}; add the user to the group `video`"
        return f"{path} is in use by another program, or is not a camera"
    if spec.kind == "gstreamer":
        built = [line.split() for line in cv2.getBuildInformation().splitlines()]
        if not any(words[:2] == ["GStreamer:", "YES"] for words in built):
            return "this OpenCV was built without GStreamer; on a Jetson use the system's OpenCV"
        return "GStreamer cannot start this pipeline; try it with gst-launch-1.0"
    if spec.kind == "network":
        return _why_unreachable(spec.text)
    return "not a video that OpenCV can decode"


def _why_unreachable(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "the address is malformed; escape special letters in the password (@ is %40)"
    default = {"http": 80, "https": 443, "rtsp": 554, "rtsps": 322, "rtmp": 1935}
    port = port or default.get(parts.scheme.lower())
    if not host or port is None or parts.scheme.lower() in ("udp", "srt"):
        return "no stream arrives at this address"
    try:
        socket.create_connection((host, port), timeout=2.0).close()
    except OSError as error:
        return f"{host}:{port} does not answer ({error.strerror or error})"
    return f"{host}:{port} answers but gives no video; check path, user and password"


class Pace:
    """Keeps a steady rate without catching up after a pause longer than a second."""

    def __init__(self, fps: float, *, wait: Wait) -> None:
        self._period_s = 1.0 / fps if fps > 0 else 0.0
        self._due_s = time.monotonic()
        self._wait = wait

    def ending(self) -> bool:
        """Wait for the next frame's time; true when the run is ending."""
        now_s = time.monotonic()
        due_s = max(self._due_s, now_s - 1.0)
        self._due_s = due_s + self._period_s
        return self._wait(max(0.0, due_s - now_s))


class OpenCvCapture:
    """Devices, streams and video files through OpenCV."""

    def __init__(self, capture: cv2.VideoCapture, *, pace: Pace | None) -> None:
        self.fps = max(0.0, capture.get(cv2.CAP_PROP_FPS))
        self._capture = capture
        self._pace = pace

    def read(self) -> Grab | None:
        """Stamp the frame when it is grabbed, then decode it."""
        try:
            if (self._pace and self._pace.ending()) or not self._capture.grab():
                return None
            grabbed_ns, wall_s = time.monotonic_ns(), time.time()
            good, image = self._capture.retrieve()  # a new array every time
        except cv2.error:  # some drivers raise when the camera is pulled out
            return None
        image_hwc = three_channels(image) if good and image is not None else None
        return Grab(image_hwc, "BGR", grabbed_ns, wall_s)

    def close(self) -> None:
        """Release the device or connection."""
        self._capture.release()


class ImageFiles:
    """Image files in order, each once."""

    fps = 0.0

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._paths = iter(paths)

    def read(self) -> Grab | None:
        """The next file."""
        path = next(self._paths, None)
        if path is None:
            return None
        grabbed_ns, wall_s = time.monotonic_ns(), time.time()
        try:
            # Not imread: it prints warnings, and on some platforms takes ASCII names only.
            image = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_COLOR)
        except (OSError, cv2.error):
            image = None
        image_hwc = None if image is None else three_channels(image)
        return Grab(image_hwc, "BGR", grabbed_ns, wall_s, path.name)

    def close(self) -> None:
        """Nothing is held open."""


class SyntheticCamera:
    """The scene generator as a camera: needs no hardware, and says what it drew."""

    def __init__(self, options: SyntheticOptions, *, wait: Wait) -> None:
        from edgeseg.data.synthetic.scene import KINDS, SceneGenerator

        self.fps = options.fps
        self._options = options
        self._scene = SceneGenerator(size_hw=(options.height, options.width), seed=options.seed)
        self._kinds = KINDS
        self._random = np.random.default_rng(options.seed)
        self._pace = Pace(options.fps, wait=wait)
        self._index = 0

    def read(self) -> Grab | None:
        """Draw the next scene; a `defects` share of them is defective."""
        if self._options.frames and self._index >= self._options.frames:
            return None
        index, kind = self._index, "good"
        self._index += 1
        if self._random.random() < self._options.defects:
            kind = str(self._random.choice(self._kinds))
        image_hwc = self._draw(index, kind)
        if self._pace.ending():
            return None
        # Stamped when due, not when drawn: a camera's exposure ends when the frame is there.
        return Grab(image_hwc, "RGB", time.monotonic_ns(), time.time(), kind)

    def _draw(self, index: int, kind: str) -> NDArray[np.uint8]:
        if kind == "good":
            return self._scene.good(_UNSEEN + index)
        return self._scene.defective(_UNSEEN + index, kind)[0]

    def close(self) -> None:
        """Nothing is held open."""


def three_channels(image: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Grey, 16-bit and alpha images as uint8 [H, W, 3]."""
    if image.dtype == np.uint16:
        image = (image >> 8).astype(np.uint8)  # type: ignore[operator]
    pixels = np.asarray(image, np.uint8)
    if pixels.ndim == 2 or pixels.shape[2] == 1:
        return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_GRAY2BGR), np.uint8)
    return pixels[:, :, :3]
