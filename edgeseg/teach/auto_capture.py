"""Pictures that are kept by themselves: of every trigger, or of every new part; and why none is.

A new part is known by its difference from the empty view, which is the first frame after this was
chosen. A part that lay there then is taken for nothing, and so is one that follows another without
a gap: whoever waits is told what the camera waits for, and sees what counts as empty.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError, words_of
from edgeseg.base.messages import Message, Words
from edgeseg.runtime.capture.frame_buffer import Frame
from edgeseg.runtime.capture.intake import Intake
from edgeseg.runtime.triggers.part import PartIntake
from edgeseg.runtime.triggers.part_watch import PartWatch

Capturing = Literal["off", "trigger", "parts"]
Image = NDArray[np.uint8]
NO_AUTO: dict[str, Any] = {"taken": 0, "sentence": "", "empty": ""}
_PART_AREA = 0.03  # of the view
_LONG_S = 10.0  # in one phase: then it is not that of a single part


def rgb(frame: Frame) -> Image:
    """Return the picture of a frame in RGB."""
    image_hwc = frame.image_hwc
    return image_hwc if frame.channels == "rgb" else np.ascontiguousarray(image_hwc[:, :, ::-1])


class AutoCapture:
    """Keeps pictures of one mode, from when it was chosen; frames come from one thread."""

    def __init__(
        self,
        mode: Capturing,
        buffer: Intake,
        *,
        keep: Callable[[Image], object],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.mode, self._keep, self._clock_s = mode, keep, clock_s
        self._parts: PartIntake | None = None
        if mode == "parts":
            watch = PartWatch(area=_PART_AREA)
            self._parts = PartIntake(
                buffer, self._keep_part, watch=watch, area=_PART_AREA, frames=1
            )
        self.empty: Frame | None = None  # what counts as the view without a part
        self._taken = 0
        self._fault: Words = ""
        self._phase, self._since_s = "empty", clock_s()

    def put(self, frame: Frame) -> None:
        """Take the next frame."""
        if self.mode == "trigger":
            self._keep_frame(frame)
        elif self._parts is not None:
            self.empty = self.empty or frame
            self._parts.put(frame)
            if self._parts.phase != self._phase:
                self._phase, self._since_s = self._parts.phase, self._clock_s()

    def facts(self) -> dict[str, Any]:
        """Facts for `state`: {"taken": n, "sentence", "empty": the number of its frame | ""}."""
        empty = "" if self.empty is None else str(self.empty.frame_index)
        return {"taken": self._taken, "sentence": self._sentence(), "empty": empty}

    def _sentence(self) -> Words:
        if self._fault or self.mode == "off":
            return self._fault
        if self.mode == "trigger":
            return Message("auto_trigger")
        words = {"empty": "auto_waits", "coming": "auto_coming", "answered": "auto_taken"}
        if self._clock_s() - self._since_s > _LONG_S:
            words |= {"coming": "auto_restless", "answered": "auto_never_empty"}
        return Message(words[self._phase])

    def _keep_part(self, frames: Sequence[Frame], at_ns: int | None) -> None:
        for frame in frames:
            self._keep_frame(frame)

    def _keep_frame(self, frame: Frame) -> None:
        try:
            self._keep(rgb(frame))
        except EdgesegError as error:  # a full project must not end the camera's thread
            self._fault = words_of(error)
        else:
            self._fault, self._taken = "", self._taken + 1
