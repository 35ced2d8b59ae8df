"""The camera while pictures are collected: newest frame, meters, and pictures of every part.

source --Reader's thread--> Camera.put --> newest frame, for the page and for `capture`
                                       --> meters
                                       --> AutoCapture: every triggered frame, or each new part
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.messages import Message, Words
from edgeseg.runtime.capture.captures import Capture, Grab, Pace, Wait
from edgeseg.runtime.capture.frame_buffer import Frame
from edgeseg.runtime.capture.reader import Reader
from edgeseg.runtime.capture.sources import SourceSpec, open_capture, parse_source
from edgeseg.runtime.events.records import SourceEvent
from edgeseg.teach.auto_capture import AutoCapture, Capturing, Image, rgb
from edgeseg.teach.meters import Meters

NO_CAMERA: dict[str, Any] = {"ok": False, "width": 0, "height": 0, "fps": 0.0}
FILES_FPS = 5.0  # a folder shows its pictures at this rate, again and again
_METERS_S = 0.1
_STALL_S = 5.0
_CAPTURE_S = 5.0


class RepeatingFiles:
    """Files shown as by a camera: paced, and from the beginning after the end."""

    fps = FILES_FPS

    def __init__(self, spec: SourceSpec, *, wait: Wait, timeout_s: float) -> None:
        self._open: Callable[[], Capture] = lambda: open_capture(
            spec, wait=wait, timeout_s=timeout_s
        )
        self._pace = Pace(FILES_FPS, wait=wait)
        self._capture = self._open()

    def read(self) -> Grab | None:
        """Read the next file; None when the run is ending, or there is no file at all."""
        if self._pace.ending():
            return None
        grab = self._capture.read()
        if grab is None:
            self.close()
            self._capture = self._open()
            grab = self._capture.read()
        if grab is None:
            return None
        return grab._replace(grabbed_ns=time.monotonic_ns(), wall_s=time.time())

    def close(self) -> None:
        """Close the capture of the present round."""
        self._capture.close()


def open_as_camera(spec: SourceSpec, *, wait: Wait, timeout_s: float) -> Capture:
    """Open a source as teaching does: files begin again after their end."""
    if spec.live:
        return open_capture(spec, wait=wait, timeout_s=timeout_s)
    return RepeatingFiles(spec, wait=wait, timeout_s=timeout_s)


class Camera:
    """One source, open from `start` to `close`; the intake of its own reader."""

    def __init__(self, source: str, *, keep: Callable[[Image], object]) -> None:
        self.spec = parse_source(source)
        self._keep = keep
        self._meters, self._metered_s = Meters(), 0.0
        self._changed = threading.Condition()
        self._newest: Frame | None = None
        self._auto = AutoCapture("off", self, keep=keep)
        self._stop = threading.Event()
        self._reader = Reader(
            self.spec,
            0,
            buffer=self,
            stop=self._stop,
            on_event=self._on_event,
            stall_timeout_s=_STALL_S,
            opener=open_as_camera,
        )

    def start(self) -> None:
        """Begin to read."""
        self._reader.start()

    def close(self) -> None:
        """Let the camera go, so that a station may open it."""
        self._stop.set()
        with self._changed:
            self._changed.notify_all()
        self._reader.join(timeout_s=_STALL_S)

    @property
    def mode(self) -> Capturing:
        """The frames that become pictures by themselves."""
        return self._auto.mode

    def auto_facts(self) -> dict[str, Any]:
        """Return what is kept by itself, and why nothing is."""
        return self._auto.facts()

    def empty_view(self) -> Image | None:
        """Return the picture that counts as the view without a part; None if there is none."""
        empty = self._auto.empty
        return None if empty is None else rgb(empty)

    def set_mode(self, mode: Capturing) -> None:
        """Keep triggered frames or parts from now on, or none."""
        if mode == "trigger" and self.spec.trigger == "off":
            raise UsageError(Message("camera_free", name=self.spec.name))
        with self._changed:
            self._auto = AutoCapture(mode, self, keep=self._keep)

    def put(self, frame: Frame) -> None:
        """Take the next frame; called by the reader's thread."""
        now_s = time.monotonic()
        if now_s - self._metered_s >= _METERS_S:
            self._metered_s = now_s
            self._meters.look(rgb(frame))
        with self._changed:
            self._newest = frame
            auto = self._auto
            self._changed.notify_all()
        auto.put(frame)

    def count_unread(self, source_index: int, cause: str) -> None:
        """Ignore a frame that did not arrive whole."""

    def finish(self, source_index: int) -> None:
        """Wake those who wait: the source has ended."""
        with self._changed:
            self._changed.notify_all()

    def capture(self) -> Image:
        """Return the first frame exposed from now on; of a hardware trigger, the newest frame."""
        asked_ns, newest = time.monotonic_ns(), self._newest
        if self.spec.trigger == "software":
            self._reader.fire()
        if self.spec.trigger != "hardware" or newest is None:
            newest = self._first(lambda frame: frame.grabbed_ns > asked_ns)
        facts = self.facts()
        if newest is None or not facts["ok"]:  # what a lost camera showed last is not now
            raise RuntimeFailure(Message("camera_no_frame", why=facts["sentence"]))
        return rgb(newest)

    @property
    def newest_index(self) -> int:
        """Index of the newest frame; -1 before the first."""
        return -1 if self._newest is None else self._newest.frame_index

    def next(self, *, after: int, timeout_s: float = _CAPTURE_S) -> Frame | None:
        """Wait for the first frame after an index; None if none came in time."""
        return self._first(lambda frame: frame.frame_index > after, timeout_s=timeout_s)

    def _first(
        self, wanted: Callable[[Frame], bool], *, timeout_s: float = _CAPTURE_S
    ) -> Frame | None:
        def is_there() -> bool:
            return self._newest is not None and wanted(self._newest)

        with self._changed:
            self._changed.wait_for(
                lambda: self._stop.is_set() or self._reader.ended or is_there(), timeout=timeout_s
            )
            return self._newest if is_there() else None

    def facts(self) -> dict[str, object]:
        """Return the facts of the camera for `state`."""
        self._reader.check_stall(time.monotonic())
        newest, ok = self._newest, self._reader.connected
        height, width = (0, 0) if newest is None else newest.image_hwc.shape[:2]
        return {
            "ok": ok,
            "sentence": self._sentence(ok),
            "width": width,
            "height": height,
            "fps": round(self._reader.fps, 1),
        }

    def meters(self) -> dict[str, object]:
        """Return the meters of the newest frames; empty before the first."""
        return self._meters.facts()

    def _sentence(self, ok: bool) -> Words:
        name, error = self.spec.name, self._reader.error
        if ok:
            return Message("camera_connected", name=name)
        if error is not None or self._reader.why_lost:
            why = self._reader.why_lost if error is None else str(error).removeprefix(f"{name}: ")
            return f"{name}: {why}"
        return Message("camera_opening", name=name)

    def _on_event(self, event: SourceEvent) -> None:
        with self._changed:
            self._changed.notify_all()
