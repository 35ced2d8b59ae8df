"""Read frames from a pipe, as GStreamer's data protocol puts them there (`gdppay ! fdsink`).

The protocol puts caps and the size of every buffer into the stream: a frame is never read with the
wrong size, even when the camera changes it.
"""

import os
import re
import select
import struct
import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import RuntimeFailure
from edgeseg.runtime.capture.captures import Grab, Wait
from edgeseg.runtime.capture.liveness import Arrival, Arrivals, ReadClock
from edgeseg.runtime.capture.stream_clock import StreamClock

# version, flags, type, length, pts and three more times, flags, unused, checksums
_HEADER = struct.Struct(">HBxHIQ3QH14xHH")
_BUFFER, _CAPS = 1, 2
_LONGEST_TEXT = 1 << 16
LONGEST_FRAME = 1 << 29
_NO_TIME = 2**64 - 1
_LOOK_S = 0.1  # how soon the end of the run is noticed


class PipeEnded(Exception):
    """No more bytes: the pipeline ended or stalls, or the run is ending."""


class _Caps(NamedTuple):
    height: int
    width: int
    fps: float


class FramePipe:
    """The reading end of a pipe with frames; a subclass opens and closes it."""

    strange = "the pipeline writes something else than frames to its pipe"
    _pipe = -1

    def _set_up(self, *, live: bool, timed: bool, wait: Wait, timeout_s: float) -> None:
        self.fps = 0.0
        self._wait, self._timeout_s = wait, timeout_s
        opened_s = time.monotonic()
        self._live = live
        self._clock = StreamClock(opened_s, patience_s=timeout_s)
        self._arrivals = Arrivals(opened_s)  # for pipelines that give no times of a camera
        self._timed = timed  # by a clock that is the camera's
        self._within = False  # a frame of which more is to come
        self._caps: _Caps | None = None
        self._first: Grab | None = None

    def begin(self) -> None:
        """Read up to the first frame, after which the rate is known."""
        self._first = self._next()

    def read(self) -> Grab | None:
        """Return the next frame, or None at the end; a failure says why it is none."""
        grab, self._first = self._first, None
        if grab is not None:
            return grab
        try:
            return self._next()
        except PipeEnded as error:
            complaint = "" if self._wait(0) else str(error) or self.complaint()
        if complaint:
            raise RuntimeFailure(complaint)
        return None

    def complaint(self) -> str:
        """Return why the pipe ended; empty after a normal end."""
        return ""

    def _next(self) -> Grab:
        reading = ReadClock()
        while True:
            header = _HEADER.unpack(self._bytes(_HEADER.size))
            version, kind, length, pts_ns = header[0], header[2], header[3], header[4]
            if version != 0x0100 or length > LONGEST_FRAME:
                raise RuntimeFailure(self.strange)
            if kind == _BUFFER:
                return self._frame(length, pts_ns, reading.arrival())
            if length > _LONGEST_TEXT:
                raise RuntimeFailure(self.strange)
            text = self._bytes(length)
            self._within = False
            if kind == _CAPS:
                self._caps = _caps(text.decode("ascii", "replace"))
                self.fps = self._caps.fps

    def _frame(self, length: int, pts_ns: int, arrival: Arrival) -> Grab:
        data = np.empty(length, np.uint8)
        self._fill(memoryview(data))  # type: ignore[arg-type]
        self._within = False
        stamps = arrival.stamps(self._earliest_exposure_s(arrival, pts_ns))
        return Grab(_picture(data, self._caps), "bgr", *stamps)

    def _earliest_exposure_s(self, arrival: Arrival, pts_ns: int = _NO_TIME) -> float:
        """Return the earliest time of exposure; a frame of a file is as new as its reading."""
        if not self._live:
            return arrival.now_s
        by_arrival_s = self._arrivals.earliest_exposure_s(arrival)
        # Zero would mean no time at all, and is that of every stream's first frame.
        timed = self._timed and pts_ns != _NO_TIME
        time_s = (pts_ns + 1) / 1e9 if timed else 0.0
        timed_s = self._clock.earliest_exposure_s(arrival, time_s)
        return by_arrival_s if timed_s is None else timed_s

    def _bytes(self, count: int) -> bytes:
        data = bytearray(count)
        self._fill(memoryview(data))
        return bytes(data)

    def _fill(self, room: memoryview) -> None:
        """Fill the buffer; raise PipeEnded at its end, after silence, and when the run ends."""
        quiet_s = time.monotonic()
        while room:
            if not select.select([self._pipe], [], [], _LOOK_S)[0]:
                if self._wait(0):
                    raise PipeEnded
                silent_s = time.monotonic() - quiet_s
                if silent_s > self._timeout_s:
                    raise PipeEnded(f"no frame for {silent_s:.1f} s")
                continue
            count = os.readv(self._pipe, [room])
            if count == 0:
                raise PipeEnded
            room = room[count:]
            self._within = True
            quiet_s = time.monotonic()


def _caps(text: str) -> _Caps:
    numbers = [re.search(rf"\b{name}=\(int\)(\d+)", text) for name in ("height", "width")]
    rate = re.search(r"\bframerate=\(fraction\)(\d+)/(\d+)", text)
    height, width = (int(number[1]) if number else 0 for number in numbers)
    if "format=(string)BGR" not in text or not height or not width:
        raise RuntimeFailure(f"the pipeline gives {text[:80]!r}, expected pictures in BGR")
    fps = int(rate[1]) / int(rate[2]) if rate and int(rate[2]) else 0.0
    return _Caps(height=height, width=width, fps=fps)


def _picture(data: NDArray[np.uint8], caps: _Caps | None) -> NDArray[np.uint8] | None:
    """Remove the padding of rows to four bytes; None when the size does not match the caps."""
    if caps is None:
        return None
    row = 3 * caps.width
    stride = -(-row // 4) * 4
    if len(data) != stride * caps.height:
        return None
    rows = data.reshape(caps.height, stride)[:, :row]
    return np.ascontiguousarray(rows).reshape(caps.height, caps.width, 3)
