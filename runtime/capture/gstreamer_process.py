"""Run a GStreamer pipeline as a child process, and read its frames through a pipe.

    gst-launch-1.0 PIPELINE ! videoconvert ! BGR ! gdppay ! fdsink --pipe--> header, caps, frames

Decoders and drivers run in the child, so a crash in one of them loses no verdict. GStreamer's data
protocol puts caps and the size of every buffer into the stream: a frame is never read with the
wrong size, even when the camera changes it.
"""

import fcntl
import os
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import threading
import time
from collections import deque
from contextlib import suppress
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError, RuntimeFailure
from edgeseg.runtime.capture.captures import Grab, Wait
from edgeseg.runtime.capture.liveness import Arrival, Arrivals, ReadClock
from edgeseg.runtime.capture.redact import redact
from edgeseg.runtime.capture.stream_clock import StreamClock

PROGRAM = "gst-launch-1.0"
INSTALL = "sudo apt install gstreamer1.0-tools gstreamer1.0-plugins-good gstreamer1.0-plugins-bad"
# version, flags, type, length, pts and three more times, flags, unused, checksums
_HEADER = struct.Struct(">HBxHIQ3QH14xHH")
_BUFFER, _CAPS = 1, 2
_LONGEST_TEXT = 1 << 16
_LONGEST_FRAME = 1 << 29
# What appsink's drop=true means: while the pipe is full, newer frames replace older ones.
_NEWEST = ["!", "queue", "leaky=downstream", "max-size-buffers=1"]
_NO_TIME = 2**64 - 1
# Elements and a setting that stamp frames when they arrive, or not at all.
_BY_ARRIVAL = ("httpsrc", "tcpclientsrc", "multipartdemux", "do-timestamp=true")
_PIPE_BYTES = 1 << 20  # the most that Linux gives a user; the default of 64 kB doubles the reads
_LOOK_S = 0.1  # how soon the end of the run is noticed
_FAREWELL_S = 2.0  # for the child to give its devices back


class _Ended(Exception):
    """No more bytes: the pipeline ended or stalls, or the run is ending."""


class _Caps(NamedTuple):
    height: int
    width: int
    fps: float


def command(pipeline: str, descriptor: int) -> list[str]:
    """Return the child's command; an `appsink` at the end is replaced by the pipe."""
    try:
        words = shlex.split(pipeline)
    except ValueError as error:
        raise RuntimeFailure(f"{redact(pipeline)}: {error} in the pipeline") from None
    last = max((at for at, word in enumerate(words) if word == "!"), default=-1)
    end = words[last + 1 :]
    sync = "sync=false"
    if end[:1] == ["appsink"]:
        sync = next((word for word in end if word.startswith("sync=")), sync)
        words = words[:last] + (_NEWEST if "drop=true" in end else [])
    pixels = ["!", "videoconvert", "!", "video/x-raw,format=BGR", "!", "gdppay"]
    return [PROGRAM, "-q", *words, *pixels, "!", "fdsink", f"fd={descriptor}", sync]


def open_gstreamer(pipeline: str, *, live: bool, wait: Wait, timeout_s: float) -> "GstProcess":
    """Start a pipeline and wait for its size; RuntimeFailure carries GStreamer's message."""
    if shutil.which(PROGRAM) is None:
        raise EdgesegError(
            f"GStreamer pipelines need {PROGRAM}, which is not installed; try: {INSTALL}"
        )
    capture = GstProcess(pipeline, live=live, wait=wait, timeout_s=timeout_s)
    try:
        capture.begin()
    except (_Ended, RuntimeFailure) as error:
        capture.close()
        reason = str(error) or capture.complaint() or "the pipeline gives no frames"
        raise RuntimeFailure(f"{redact(pipeline)}: {reason}") from None
    return capture


class GstProcess:
    """The running child process."""

    def __init__(self, pipeline: str, *, live: bool, wait: Wait, timeout_s: float) -> None:
        self._set_up(pipeline, live=live, wait=wait, timeout_s=timeout_s)
        self._start(pipeline)

    def _set_up(self, pipeline: str, *, live: bool, wait: Wait, timeout_s: float) -> None:
        self.fps = 0.0
        self._wait, self._timeout_s = wait, timeout_s
        opened_s = time.monotonic()
        self._live = live
        self._clock = StreamClock(opened_s, patience_s=timeout_s)
        self._arrivals = Arrivals(opened_s)  # for pipelines that give no times of a camera
        self._timed = not any(word in pipeline for word in _BY_ARRIVAL)
        self._caps: _Caps | None = None
        self._first: Grab | None = None
        self._said: deque[str] = deque(maxlen=40)

    def _start(self, pipeline: str) -> None:
        self._pipe, theirs = os.pipe()
        with suppress(OSError):
            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        try:
            # A session of its own: the whole group can be ended, and Ctrl-C reaches only us.
            self._child = subprocess.Popen(
                command(pipeline, theirs),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(theirs,),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(theirs)
        assert self._child.stderr is not None
        self._listener = threading.Thread(
            target=self._listen, args=(self._child.stderr,), name="gstreamer", daemon=True
        )
        self._listener.start()

    def begin(self) -> None:
        """Read up to the first frame, after which the rate is known."""
        self._first = self._next()

    def read(self) -> Grab | None:
        """Return the next frame, or None at the end; a failure carries GStreamer's message."""
        grab, self._first = self._first, None
        if grab is not None:
            return grab
        try:
            return self._next()
        except _Ended as error:
            complaint = "" if self._wait(0) else str(error) or self.complaint()
        if complaint:
            raise RuntimeFailure(complaint)
        return None

    def _next(self) -> Grab:
        reading = ReadClock()
        while True:
            header = _HEADER.unpack(self._bytes(_HEADER.size))
            version, kind, length, pts_ns = header[0], header[2], header[3], header[4]
            if version != 0x0100 or length > _LONGEST_FRAME:
                raise RuntimeFailure("the pipeline writes something else than frames to its pipe")
            if kind == _BUFFER:
                return self._frame(length, pts_ns, reading.arrival())
            if length > _LONGEST_TEXT:
                raise RuntimeFailure("the pipeline writes something else than frames to its pipe")
            text = self._bytes(length)
            if kind == _CAPS:
                self._caps = _caps(text.decode("ascii", "replace"))
                self.fps = self._caps.fps

    def _frame(self, length: int, pts_ns: int, arrival: Arrival) -> Grab:
        data = np.empty(length, np.uint8)
        self._fill(memoryview(data))  # type: ignore[arg-type]
        stamps = arrival.stamps(self._earliest_exposure_s(arrival, pts_ns))
        return Grab(_picture(data, self._caps), "bgr", *stamps)

    def _earliest_exposure_s(self, arrival: Arrival, pts_ns: int) -> float:
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
        """Fill the buffer; raise _Ended when the child is gone or silent, or the run is ending."""
        quiet_s = time.monotonic()
        while room:
            if not select.select([self._pipe], [], [], _LOOK_S)[0]:
                if self._wait(0):
                    raise _Ended
                silent_s = time.monotonic() - quiet_s
                if silent_s > self._timeout_s:
                    raise _Ended(f"no frame for {silent_s:.1f} s")
                continue
            count = os.readv(self._pipe, [room])
            if count == 0:
                raise _Ended
            room = room[count:]
            quiet_s = time.monotonic()

    def _listen(self, stderr: "IO[bytes]") -> None:
        with stderr:
            for line in stderr:
                self._said.append(line[:1000].decode("utf-8", "replace").strip())

    def complaint(self) -> str:
        """Return the error that GStreamer printed, without secrets; empty after a normal end."""
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(_FAREWELL_S)
        if self._child.poll() == 0:
            return ""
        self._listener.join(_FAREWELL_S)
        lines = [line for line in list(self._said) if line]
        for mark in ("erroneous pipeline: ", "ERROR: from element ", "ERROR: "):
            for line in lines:
                if mark in line:
                    return redact(line.partition(mark)[2])
        if lines:
            return redact(lines[-1])
        code = self._child.poll()
        return "GStreamer stopped" if code is None else f"GStreamer ended with {_ending(code)}"

    def close(self) -> None:
        """End the child and all processes that it started."""
        for number in (signal.SIGINT, signal.SIGKILL):  # on the first it frees its devices
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(_FAREWELL_S)
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def _caps(text: str) -> _Caps:
    numbers = [re.search(rf"\b{name}=\(int\)(\d+)", text) for name in ("height", "width")]
    rate = re.search(r"\bframerate=\(fraction\)(\d+)/(\d+)", text)
    height, width = (int(number[1]) if number else 0 for number in numbers)
    if "format=(string)BGR" not in text or not height or not width:
        raise RuntimeFailure(f"the pipeline gives {text[:80]!r}, expected pictures")
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
