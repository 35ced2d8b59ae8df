"""Read frames that another program writes to this one's standard input.

    gst-launch-1.0 -q ... ! videoconvert ! video/x-raw,format=BGR ! gdppay ! fdsink | ... --source -
    any program that writes raw frames | ... --source stdin:640x480

Nobody knows how long a frame has waited on its way here, so it is as old as its arrival can prove.
"""

import os
import re
import sys
from typing import NamedTuple

import numpy as np

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.messages import Setting
from edgeseg.runtime.capture.captures import Grab, Wait
from edgeseg.runtime.capture.frame_pipe import LONGEST_FRAME, FramePipe
from edgeseg.runtime.capture.liveness import ReadClock
from edgeseg.vision.frames import Channels

_EXPECTS = "stdin:WIDTHxHEIGHT, or with ,bgr or ,grey behind it where pixels are no RGB"
_DEPTHS: dict[str, int] = {"rgb": 3, "bgr": 3, "grey": 1}


class _RawFormat(NamedTuple):
    height: int
    width: int
    pixels: str  # a key of _DEPTHS

    @property
    def length(self) -> int:
        """Bytes of a frame."""
        return self.height * self.width * _DEPTHS[self.pixels]


def parse_standard_input(text: str) -> _RawFormat | None:
    """Read `stdin:640x480,bgr`; None for `-`, whose frames say themselves what they are."""
    if text == "-":
        return None
    found = re.fullmatch(r"stdin:(\d{1,6})x(\d{1,6})(?:,(rgb|bgr|grey))?", text)
    if found is None:
        raise UsageError(Setting("source", repr(text)), f": expected {_EXPECTS}")
    raw = _RawFormat(height=int(found[2]), width=int(found[1]), pixels=found[3] or "rgb")
    if not 0 < raw.length <= LONGEST_FRAME:
        raise UsageError(
            Setting("source", repr(text)),
            f": {raw.length} bytes a frame, expected 1 to {LONGEST_FRAME}",
        )
    return raw


class StandardInput(FramePipe):
    """Standard input, which cannot be opened again once it has ended."""

    strange = (
        "what comes in is not GStreamer's data protocol; end the pipeline with `! videoconvert ! "
        "video/x-raw,format=BGR ! gdppay ! fdsink`, or say the size of raw frames: stdin:640x480"
    )

    def __init__(self, text: str, *, wait: Wait, timeout_s: float) -> None:
        self._raw = parse_standard_input(text)
        if sys.stdin is None or sys.stdin.isatty():
            raise RuntimeFailure(
                f"{text}: standard input is no pipe; write frames to it: ... | edgeseg"
            )
        self._set_up(live=True, timed=False, wait=wait, timeout_s=timeout_s)
        self._pipe = os.dup(sys.stdin.fileno())

    def complaint(self) -> str:
        """Say so if the writer ended within a frame."""
        if not self._within:
            return ""
        size = f"; is it really {self._raw.width}x{self._raw.height}?" if self._raw else ""
        return f"standard input ended within a frame, which is not judged{size}"

    def close(self) -> None:
        """Read no more."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    def _next(self) -> Grab:
        if self._raw is None:
            return super()._next()
        reading = ReadClock()
        data = np.empty(self._raw.length, np.uint8)
        room = memoryview(data)  # type: ignore[arg-type]
        self._fill(room[:1])
        arrival = reading.arrival()
        self._fill(room[1:])
        self._within = False
        image_hwc = data.reshape(self._raw.height, self._raw.width, -1)
        if self._raw.pixels == "grey":
            image_hwc = np.repeat(image_hwc, 3, axis=2)
        channels: Channels = "bgr" if self._raw.pixels == "bgr" else "rgb"
        return Grab(image_hwc, channels, *arrival.stamps(self._earliest_exposure_s(arrival)))
