"""Open devices, streams and video files through OpenCV, and explain why one did not open."""

import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.runtime.capture.captures import Grab, Pace, Wait
from edgeseg.runtime.capture.driver_clock import driver_stamp_s
from edgeseg.runtime.capture.liveness import Arrival, Arrivals, ReadClock
from edgeseg.runtime.capture.stream_clock import StreamClock
from edgeseg.vision.images import to_8_bit
from edgeseg.vision.opencv_log import quiet_opencv

_READ_SHARE = 1.25  # of the stall time-out


# When a frame was exposed at the earliest, by its arrival and its position in seconds.
Clock = Callable[[Arrival, float], float]


class OpenCvCapture:
    """An open cv2.VideoCapture; without a clock a frame is as old as its arrival, as in a file."""

    def __init__(
        self,
        capture: cv2.VideoCapture,
        *,
        pace: Pace | None = None,
        clock: Clock = lambda arrival, position_s: arrival.now_s,
    ) -> None:
        self.fps = max(0.0, capture.get(cv2.CAP_PROP_FPS))
        sides = (cv2.CAP_PROP_FRAME_HEIGHT, cv2.CAP_PROP_FRAME_WIDTH)
        height, width = (int(max(0.0, capture.get(side))) for side in sides)
        self.pixels = height * width  # of a frame, where that is known before the first
        self._capture = capture
        self._pace = pace
        self._clock = clock

    def read(self) -> Grab | None:
        """Stamp the frame when it is grabbed, then decode it."""
        try:
            if self._pace and self._pace.ending():
                return None
            reading = ReadClock()
            if not self._capture.grab():
                return None
            arrival = reading.arrival()
            exposed_s = self._clock(arrival, self._capture.get(cv2.CAP_PROP_POS_MSEC) / 1e3)
            good, image = self._capture.retrieve()  # a new array every time
        except cv2.error:  # some drivers raise when the camera is pulled out
            return None
        image_hwc = three_channels(image) if good and image is not None else None
        return Grab(image_hwc, "bgr", *arrival.stamps(exposed_s))

    def close(self) -> None:
        """Release the device or connection."""
        self._capture.release()


def three_channels(image: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Convert grey, 16-bit and alpha frames to uint8 (H, W, 3)."""
    pixels = to_8_bit(image, name="a frame of the camera")
    if pixels.ndim == 2 or pixels.shape[2] == 1:
        return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_GRAY2BGR), np.uint8)
    return pixels[:, :, :3]


def open_device(text: str) -> OpenCvCapture | None:
    """Open a camera by its number or its file in /dev."""
    _keep_quiet()
    opened_s = time.monotonic()
    backend = cv2.CAP_V4L2 if sys.platform == "linux" else cv2.CAP_ANY
    capture = cv2.VideoCapture(int(text) if is_index(text) else text, backend)
    capture.set(cv2.CAP_PROP_BUFFERSIZE, 1)  # the driver's own queue makes frames old
    return OpenCvCapture(capture, clock=device_clock(opened_s)) if _is_open(capture) else None


def device_clock(opened_s: float) -> Clock:
    """Make a clock from the driver's stamps, or from arrivals where it has none."""
    arrivals = Arrivals(opened_s)

    def clock(arrival: Arrival, position_s: float) -> float:
        by_arrival_s = arrivals.earliest_exposure_s(arrival)
        stamped_s = driver_stamp_s(arrival.now_s, position_s)
        return by_arrival_s if stamped_s is None else stamped_s

    return clock


def stream_clock(opened_s: float, *, timed: bool, patience_s: float) -> Clock:
    """Make a clock from the times in the stream if they are real, else from arrivals."""
    arrivals = Arrivals(opened_s)
    times = StreamClock(opened_s, patience_s=patience_s)

    def clock(arrival: Arrival, position_s: float) -> float:
        by_arrival_s = arrivals.earliest_exposure_s(arrival)
        timed_s = times.earliest_exposure_s(arrival, position_s) if timed else None
        return by_arrival_s if timed_s is None else timed_s

    return clock


def is_index(text: str) -> bool:
    """Whether a text is the number of a camera."""
    return text.isascii() and text.isdigit() and len(text) <= 4


def why_no_device(text: str) -> str:
    """Explain why a device did not open, since OpenCV does not."""
    path = Path(f"/dev/video{text}" if is_index(text) else text)
    if not path.exists():
        return f"no device {path}; is the camera plugged in?"
    if not os.access(path, os.R_OK | os.W_OK):
        return f"no permission for {path}; add the user to the group `video`"
    return f"{path} is in use by another program, or is not a camera"


def open_network(url: str, *, timeout_s: float) -> OpenCvCapture | None:
    """Open a stream by its address."""
    _keep_quiet()
    # One decoding thread: with several, FFmpeg holds back a frame for each.
    parameters = [cv2.CAP_PROP_N_THREADS, 1]
    parameters += [cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, int(timeout_s * 1000)]
    # When FFmpeg has waited so long, it hands out the frame that its decoder held back, as old as
    # the silence. By then the reader must have given the connection up.
    parameters += [cv2.CAP_PROP_READ_TIMEOUT_MSEC, int(_READ_SHARE * timeout_s * 1000)]
    opened_s = time.monotonic()
    capture = cv2.VideoCapture(url, cv2.CAP_FFMPEG, parameters)
    # Other streams have no times of their own: FFmpeg makes them up from a rate.
    timed = url.lower().startswith("rtsp")
    clock = stream_clock(opened_s, timed=timed, patience_s=timeout_s)
    return OpenCvCapture(capture, clock=clock) if _is_open(capture) else None


def why_no_network(url: str) -> str:
    """Explain why a stream did not open: malformed address, no answer, or no video."""
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


def open_video(path: Path, *, realtime: bool, wait: Wait) -> OpenCvCapture | None:
    """Open a video file, read as fast as possible or at its own rate."""
    _keep_quiet()
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    if not _is_open(capture):
        return None
    pace = Pace(capture.get(cv2.CAP_PROP_FPS), wait=wait) if realtime else None
    return OpenCvCapture(capture, pace=pace)


def _is_open(capture: cv2.VideoCapture) -> bool:
    if not capture.isOpened():
        capture.release()
        return False
    return True


def _keep_quiet() -> None:
    # OpenCV and FFmpeg print the URLs they cannot open, passwords included.
    quiet_opencv.keep()
    os.environ["OPENCV_FFMPEG_LOGLEVEL"] = "-8"
    # A connection that breaks inside a frame otherwise yields that frame, its missing part grey.
    options = os.environ.get("OPENCV_FFMPEG_CAPTURE_OPTIONS", "rtsp_transport;tcp")
    if "fflags" not in options:
        options += "|fflags;discardcorrupt"
    os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"] = options
