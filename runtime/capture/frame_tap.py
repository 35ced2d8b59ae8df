"""Whole frames of a running camera for somebody else too, whatever its trigger does with them."""

import threading
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from edgeseg.runtime.capture.frame_buffer import Frame
from edgeseg.runtime.capture.intake import Intake


class FrameTap:
    """Stands before the intake of a run; costs a comparison a frame while nobody asks."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._changed = threading.Condition()
        self._wanted = 0
        self._kept: list[NDArray[np.uint8]] = []

    def put(self, frame: Frame) -> None:
        """Pass a frame on, and keep it if somebody waits for frames of the first source."""
        if self._wanted and frame.source_index == 0:
            rgb = frame.channels == "rgb"
            with self._changed:
                self._kept.append(frame.image_hwc if rgb else frame.image_hwc[:, :, ::-1])
                self._wanted = max(0, self._wanted - 1)
                self._changed.notify_all()
        self._intake.put(frame)

    def count_unread(self, source_index: int, cause: str) -> None:
        """A damaged frame shows nothing."""
        self._intake.count_unread(source_index, cause)

    def finish(self, source_index: int) -> None:
        """No more frames will come from this source."""
        self._intake.finish(source_index)

    def next_frames(
        self, count: int, *, timeout_s: float, ask: Callable[[], None] = lambda: None
    ) -> list[NDArray[np.uint8]]:
        """The next frames of the first source, RGB; fewer if no more come in time.

        `ask` has a camera that software triggers take one.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            self._kept, self._wanted = [], count
        for number in range(1, count + 1):
            ask()
            with self._changed:
                while len(self._kept) < number and (left_s := deadline_s - time.monotonic()) > 0:
                    self._changed.wait(left_s)
        with self._changed:
            kept, self._kept, self._wanted = self._kept, [], 0
        return [np.ascontiguousarray(image_hwc) for image_hwc in kept[:count]]
