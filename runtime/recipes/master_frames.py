"""Take frames of a master part from a camera, outside of a stream."""

import time

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import RuntimeFailure
from edgeseg.runtime.capture.frame_tap import settling_frames
from edgeseg.runtime.capture.sources import open_capture, parse_source

_OPEN_S = 10.0


def grab_frames(source: str, count: int) -> list[NDArray[np.uint8]]:
    """Take `count` RGB frames; unreadable frames do not count."""
    spec = parse_source(source)
    capture = open_capture(spec, wait=_slept, timeout_s=_OPEN_S)
    frames: list[NDArray[np.uint8]] = []
    skipped = settling_frames(spec)
    try:
        while len(frames) < count and (grab := capture.read()) is not None:
            if skipped:
                skipped -= 1
            elif grab.image_hwc is not None:
                frames.append(_rgb(grab.image_hwc, grab.channels))
    finally:
        capture.close()
    if len(frames) < count:
        raise RuntimeFailure(
            f"{spec.name}: {len(frames)} frames, expected {count} of the master part; is the "
            "camera free, and is there enough in the folder?"
        )
    return frames


def _rgb(image_hwc: NDArray[np.uint8], channels: str) -> NDArray[np.uint8]:
    if channels == "rgb":
        return image_hwc
    return np.asarray(cv2.cvtColor(image_hwc, cv2.COLOR_BGR2RGB), np.uint8)


def _slept(seconds: float) -> bool:
    time.sleep(seconds)
    return False
