"""The protocol of every open source: grabbed frames, and a pace for those that keep one."""

import time
from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from edgeseg.runtime.capture.frame_buffer import UNREADABLE
from edgeseg.vision.frames import Channels

Wait = Callable[[float], bool]  # sleeps that many seconds; true when the run is ending
Trigger = Literal["off", "hardware", "software"]  # what makes a camera take a frame


class Grab(NamedTuple):
    """One frame as a capture delivers it; without an image it is lost, and `lost` says why.

    `grabbed_ns` is a moment before which the frame was not exposed, as late as the source allows: a
    trigger takes the first frame with a later one. The time of arrival is no such moment, since
    frames can wait in a buffer on their way.
    """

    image_hwc: NDArray[np.uint8] | None
    channels: Channels
    grabbed_ns: int  # by time.monotonic_ns()
    wall_s: float  # the same moment, by time.time()
    name: str = ""
    frame_id: int | None = None  # the camera's own number of the frame
    camera_ns: int | None = None  # the camera's own clock when it was exposed
    lost: str = UNREADABLE  # the cause it is counted under when there is no image
    fault: str = ""  # why there is none, of a file


class Capture(Protocol):
    """An open source."""

    fps: float  # nominal; 0 when unknown

    def read(self) -> Grab | None:
        """Return the next frame; None when the source has ended or is lost."""

    def close(self) -> None:
        """Release the device or connection."""


@runtime_checkable
class SoftwareTriggered(Protocol):
    """A capture whose camera is triggered by software."""

    def fire(self) -> None:
        """Trigger one frame, from any thread; raise RuntimeFailure if that is not possible."""


class Pace:
    """A steady rate, which does not catch up after a pause longer than a second."""

    def __init__(self, fps: float, *, wait: Wait) -> None:
        self._period_s = 1.0 / fps if fps > 0 else 0.0
        self._due_s = time.monotonic()
        self._wait = wait

    def ending(self) -> bool:
        """Wait for the next frame's time; return True when the run is ending."""
        now_s = time.monotonic()
        due_s = max(self._due_s, now_s - 1.0)
        self._due_s = due_s + self._period_s
        return self._wait(max(0.0, due_s - now_s))
