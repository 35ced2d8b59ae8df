"""Run a GStreamer pipeline as a child process, and read its frames through a pipe.

    gst-launch-1.0 PIPELINE ! videoconvert ! BGR ! gdppay ! fdsink --pipe--> header, caps, frames

Decoders and drivers run in the child, so a crash in one of them loses no verdict.
"""

import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import threading
from collections import deque
from contextlib import suppress
from typing import IO

from edgeseg.base.errors import EdgesegError, RuntimeFailure
from edgeseg.runtime.capture.captures import Wait
from edgeseg.runtime.capture.frame_pipe import FramePipe, PipeEnded
from edgeseg.runtime.capture.redact import redact

PROGRAM = "gst-launch-1.0"
INSTALL = "sudo apt install gstreamer1.0-tools gstreamer1.0-plugins-good gstreamer1.0-plugins-bad"
# What appsink's drop=true means: while the pipe is full, newer frames replace older ones.
_NEWEST = ["!", "queue", "leaky=downstream", "max-size-buffers=1"]
# Elements and a setting that stamp frames when they arrive, or not at all.
_BY_ARRIVAL = ("httpsrc", "tcpclientsrc", "multipartdemux", "do-timestamp=true")
_PIPE_BYTES = 1 << 20  # the most that Linux gives a user; the default of 64 kB doubles the reads
_FAREWELL_S = 2.0  # for the child to give its devices back


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
    except (PipeEnded, RuntimeFailure) as error:
        capture.close()
        reason = str(error) or capture.complaint() or "the pipeline gives no frames"
        raise RuntimeFailure(f"{redact(pipeline)}: {reason}") from None
    return capture


class GstProcess(FramePipe):
    """The running child process."""

    def __init__(self, pipeline: str, *, live: bool, wait: Wait, timeout_s: float) -> None:
        timed = not any(word in pipeline for word in _BY_ARRIVAL)
        self._set_up(live=live, timed=timed, wait=wait, timeout_s=timeout_s)
        self._said: deque[str] = deque(maxlen=40)
        self._start(pipeline)

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
