"""Read one source in a thread: reconnect with back-off, and always end when told to."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError, RuntimeFailure
from edgeseg.runtime.capture.captures import Capture, Grab, SoftwareTriggered, Wait
from edgeseg.runtime.capture.frame_buffer import REPEATED, Frame
from edgeseg.runtime.capture.intake import Intake
from edgeseg.runtime.capture.repeats import Repeats
from edgeseg.runtime.capture.sources import SourceSpec, open_capture
from edgeseg.runtime.capture.suspension import Suspension
from edgeseg.runtime.events.records import SourceEvent, SourceEventKind
from edgeseg.vision.unreadable import unreadable_error

_STUCK_S = 60.0
STALLED = "stalled"  # came after the stall time-out: nobody knows how old it is


class OpenCapture(Protocol):
    """The function that opens a source; tests replace it."""

    def __call__(self, spec: SourceSpec, *, wait: Wait, timeout_s: float) -> Capture: ...


def backoff_s(*, first_s: float = 0.5, longest_s: float = 10.0) -> Iterator[float]:
    """Yield doubling delays: short after a brief loss, long for a camera that stays off."""
    delay_s = first_s
    while True:
        yield delay_s
        delay_s = min(delay_s * 2, longest_s)


class Reader:
    """A thread that moves frames from one source into the buffer, and calls `on_event`."""

    def __init__(
        self,
        spec: SourceSpec,
        index: int,
        *,
        buffer: Intake,
        stop: threading.Event,
        on_event: Callable[[SourceEvent], None],
        stall_timeout_s: float,
        opener: OpenCapture = open_capture,
        first_backoff_s: float = 0.5,
    ) -> None:
        self.spec, self.index = spec, index
        self.fps = 0.0
        self.size_hw: tuple[int, int] | None = None
        self.connected = False
        self.ended = False
        self.reconnects = 0
        self.why_lost = ""  # the last time
        self.error: EdgesegError | None = None  # why a source that cannot come back ended
        self._buffer, self._stop, self._on_event = buffer, stop, on_event
        self._stall_timeout_s = stall_timeout_s
        self._opener = opener
        self._first_backoff_s = first_backoff_s
        self._frame_index = 0
        self._faults: list[str] = []  # of files that cannot be read
        self._was_open = False
        self._lost_said = False
        self._awaited = False  # a connection's first frame is
        self._attempts = 0
        self._capture: Capture | None = None  # while it is open
        self._alive_s = math.inf  # last sign of life; infinite while it owes none
        self._repeats, self._suspension = Repeats(), Suspension()
        self._repeated = False  # the last frame was no sign of life, being the one before
        self._called_s = math.inf  # when the driver was called; infinite while it is not
        self._state = threading.Lock()  # `connected`: the watchdog changes it too
        self._thread = threading.Thread(target=self._run, name=f"source-{index}", daemon=True)

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    @property
    def never_open(self) -> bool:
        """Whether no frame ever came; for a triggered camera, whether it never answered."""
        return not self._was_open

    def join(self, *, timeout_s: float) -> bool:
        """Wait for the thread; return False when a driver still blocks it."""
        if self._thread.ident is not None:  # it was started
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def fire(self) -> None:
        """Trigger one frame by software, from any thread.

        Raise RuntimeFailure if there will be none. After this has returned, either one frame comes,
        or a `frame_lost`, or the source is lost.
        """
        capture = self._capture
        if capture is None or not self.connected:
            raise RuntimeFailure(f"{self.spec.name}: is not connected, so nothing was triggered")
        if not isinstance(capture, SoftwareTriggered):
            raise RuntimeFailure(
                f"{self.spec.name}: cannot be triggered by software; try a camera of aravis: with "
                "trigger=software"
            )
        capture.fire()

    def check_stall(self, now_s: float) -> None:
        """Declare a source lost when no frame came for the stall time-out; from any thread.

        A driver's blocking call cannot be interrupted. When it returns at last, the frame is
        dropped, since nobody knows how old it is, and the source is opened again.
        """
        if self._late(now_s):
            silent_s = now_s - self._alive_s
            frozen = f"the picture has not changed for {silent_s:.1f} s: the camera is frozen"
            self._lose(frozen if self._repeated else f"no frame for {silent_s:.1f} s")

    def is_stuck(self, now_s: float) -> bool:
        """Whether a driver has not returned for so long that only a new process helps.

        A triggered camera may be silent for a whole night; its capture checks it.
        """
        limit_s = max(_STUCK_S, 10 * self._stall_timeout_s)
        free = self.spec.reconnects and self.spec.trigger == "off"
        return free and now_s - self._called_s > limit_s

    def _late(self, now_s: float) -> bool:
        return self.spec.reconnects and now_s - self._alive_s > self._stall_timeout_s

    def _run(self) -> None:
        try:
            delays = backoff_s(first_s=self._first_backoff_s)
            while not self._stop.is_set():
                if self._read_once():
                    delays = backoff_s(first_s=self._first_backoff_s)
                if not self.spec.reconnects or self._stop.wait(next(delays)):
                    break
            if not self._stop.is_set() and self._frame_index == 0:
                self.error = RuntimeFailure(f"{self.spec.name}: no frame in it; is it damaged?")
        except EdgesegError as error:
            self.error = error
        except Exception as error:  # a driver's surprise must not look like the end of a file
            self.error = RuntimeFailure(
                f"{self.spec.name}: reading failed ({type(error).__name__})"
            )
        finally:
            self.connected, self.ended, self._alive_s = False, True, math.inf
            reason = f"{self._frame_index} frames read"
            if self._faults:
                reason += f"; {unreadable_error(self._faults, of=self._frame_index)}"
            if self.error is not None:
                reason = str(self.error).removeprefix(f"{self.spec.name}: ")
            self._emit("source_end", reason)
            self._buffer.finish(self.index)

    def _read_once(self) -> bool:
        """Open and read until the source ends or is lost; return whether any frame came."""
        self._alive_s = self._called_s = time.monotonic()
        self._attempts += 1
        try:
            capture = self._opener(self.spec, wait=self._stop.wait, timeout_s=self._stall_timeout_s)
        except RuntimeFailure as error:
            self._called_s = math.inf  # a back-off is no call
            if not self.spec.reconnects:
                raise
            self._lose(str(error).removeprefix(f"{self.spec.name}: "))
            return False
        before = self._frame_index
        self.fps = capture.fps
        self._capture, self._alive_s, self._awaited = capture, time.monotonic(), True
        try:
            if self.spec.trigger != "off":
                self._connect()  # it delivers when asked, so being open is all that it owes
                self._alive_s = math.inf
            reason = self._read_all(capture)
            if self.spec.reconnects and not self._stop.is_set():
                self._lose(reason)  # before the close, which may take seconds
        finally:
            self._capture, self._called_s = None, time.monotonic()
            capture.close()
            self._called_s = math.inf
        return self._frame_index > before

    def _read_all(self, capture: Capture) -> str:
        """Pass frames on until no more come; return the reason."""
        try:
            while not self._stop.is_set() and (grab := self._call(capture)) is not None:
                if not self._accept(grab):
                    break
        except RuntimeFailure as error:
            if not self.spec.reconnects:
                raise RuntimeFailure(f"{self.spec.name}: ", error) from None
            return str(error)
        return "the stream ended"

    def _call(self, capture: Capture) -> Grab | None:
        self._called_s = time.monotonic()
        grab = capture.read()
        self._called_s = math.inf  # put() may wait for a slow model: that is no driver
        return grab

    def _accept(self, grab: Grab) -> bool:
        """Pass a frame on; return False when this connection is given up.

        The watchdog checks only now and then: a frame that comes after the time-out and before its
        next check is as old as any other.
        """
        self._repeated = self._is_repeated(grab)
        free, now_s = self.spec.trigger == "off", time.monotonic()
        if free and self._awaited and not self._repeated and not self._late(now_s):
            self._awaited = False
            self._connect()
        self.check_stall(now_s)
        if self._suspension.has_slept() and self.spec.reconnects:
            self._lose("the computer was suspended")
            self._awaited = False
        index = self._frame_index
        self._frame_index += 1
        if not self.connected and not (self._awaited and self._repeated and not self._late(now_s)):
            self._buffer.count_unread(self.index, STALLED)
            return False
        if self._repeated:  # no sign of life
            self._lose_frame(grab, REPEATED)
        elif grab.image_hwc is None:
            self._lose_frame(grab, grab.lost)
            self._show_life()
        else:
            self.size_hw = (grab.image_hwc.shape[0], grab.image_hwc.shape[1])
            self._alive_s = math.inf  # put() may wait for a slow model: that is no stall
            self._buffer.put(self._frame(grab, grab.image_hwc, index))
            self._show_life()
        return True

    def _is_repeated(self, grab: Grab) -> bool:
        """Whether the picture is the one before; only files may hold a picture twice."""
        if self.spec.repeats or not self.spec.reconnects or grab.image_hwc is None:
            return False
        return self._repeats.is_repeat(grab.image_hwc)

    def _lose_frame(self, grab: Grab, cause: str) -> None:
        self._buffer.count_unread(self.index, cause)
        if grab.fault and not self.spec.reconnects:  # there is an end that names them
            self._faults.append(grab.fault)
        if self.spec.trigger != "off":  # somebody waits for this one
            self._emit("frame_lost", cause, frame_id=grab.frame_id)

    def _frame(self, grab: Grab, image_hwc: NDArray[np.uint8], index: int) -> Frame:
        return Frame(
            source_index=self.index,
            frame_index=index,
            image_hwc=image_hwc,
            channels=grab.channels,
            grabbed_ns=grab.grabbed_ns - int(self.spec.delay_s * 1e9),
            wall_s=grab.wall_s - self.spec.delay_s,
            name=grab.name,
            frame_id=grab.frame_id,
            camera_ns=grab.camera_ns,
        )

    def _show_life(self) -> None:
        # A triggered camera owes no frame: whether it is still there is for its capture to know.
        self._alive_s = time.monotonic() if self.spec.trigger == "off" else math.inf

    def _connect(self) -> None:
        # Said on the first frame: a connection that never delivers is not a source that is back.
        with self._state:
            self.connected = True
            back, self._lost_said = self._lost_said, False
        if back:
            self.reconnects += self._was_open
            self._emit("source_back")
        elif not self._was_open:
            self._emit("source_open")
        self._was_open, self._attempts = True, 0

    def _lose(self, reason: str) -> None:
        with self._state:
            said, self._lost_said = self._lost_said, True
            self.connected = False
            self.why_lost = reason
        if not said:
            self._emit("source_lost", reason)

    def _emit(
        self, kind: SourceEventKind, reason: str = "", *, frame_id: int | None = None
    ) -> None:
        self._on_event(
            SourceEvent(
                kind=kind,
                source=self.spec.name,
                source_index=self.index,
                wall_s=time.time(),
                monotonic_s=time.monotonic(),
                reason=reason,
                attempt=self._attempts,
                frame_id=frame_id,
            )
        )
