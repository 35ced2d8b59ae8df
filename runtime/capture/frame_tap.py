"""Copy whole frames of a running camera for another use, whatever its trigger does with them."""

import threading
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from edgeseg.runtime.capture.frame_buffer import Frame
from edgeseg.runtime.capture.intake import Intake
from edgeseg.runtime.capture.sources import SourceSpec

_SETTLE = 5  # frames


def settling_frames(spec: SourceSpec) -> int:
    """Return the number of first frames to skip, while exposure and gain settle."""
    return _SETTLE if spec.live and spec.trigger == "off" else 0


class FrameTap:
    """An intake in front of another one; it costs one comparison a frame while unused."""

    def __init__(self, intake: Intake, *, settle: int = 0) -> None:
        self._intake = intake
        self._changed = threading.Condition()
        self._settle = settle  # frames that nobody gets, at the start
        self._wanted, self._ended = 0, False
        self._asked_ns = 0  # what is older shows what lay there before somebody asked
        self._kept: list[NDArray[np.uint8]] = []

    def put(self, frame: Frame) -> None:
        """Pass a frame on, and keep it if somebody waits for frames of the first source."""
        mine = frame.source_index == 0
        if self._settle and mine:
            self._settle -= 1
        elif self._wanted and mine and frame.grabbed_ns > self._asked_ns:
            rgb = frame.channels == "rgb"
            with self._changed:
                self._kept.append(frame.image_hwc if rgb else frame.image_hwc[:, :, ::-1])
                self._wanted = max(0, self._wanted - 1)
                self._changed.notify_all()
        self._intake.put(frame)

    def count_unread(self, source_index: int, cause: str) -> None:
        """Pass on that a frame is damaged; it is not kept."""
        self._intake.count_unread(source_index, cause)

    def finish(self, source_index: int) -> None:
        """Pass on that no more frames come from this source."""
        if source_index == 0:
            self._ended = True
            self.release()
        self._intake.finish(source_index)

    def release(self) -> None:
        """End all waiting; those who wait get the frames that have come."""
        with self._changed:
            self._wanted = 0
            self._changed.notify_all()

    def next_frames(
        self, count: int, *, timeout_s: float, ask: Callable[[], None] = lambda: None
    ) -> list[NDArray[np.uint8]]:
        """Return the next frames of the first source, RGB; fewer if no more come in time.

        `ask` is called for each frame, to trigger a camera that waits for software.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            self._asked_ns = time.monotonic_ns()
            self._kept, self._wanted = [], 0 if self._ended else count
        for left in reversed(range(count)):
            ask()
            with self._changed:
                while self._wanted > left and (left_s := deadline_s - time.monotonic()) > 0:
                    self._changed.wait(left_s)
        with self._changed:
            kept, self._kept, self._wanted = self._kept, [], 0
        return [np.ascontiguousarray(image_hwc) for image_hwc in kept[:count]]
