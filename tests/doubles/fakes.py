"""Sessions, captures and sinks whose behaviour a test decides."""

import threading
import time
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import RuntimeFailure
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.backends.base import Outputs, Session
from edgeseg.runtime.capture.captures import Grab
from edgeseg.runtime.capture.sources import SourceSpec
from edgeseg.runtime.events.records import FrameResult, SourceEvent
from tests.support import HANGS_S
from tests.support.brightness_model import brightness_metadata


class BrightnessSession(Session):
    """The brightness model in numpy; remembers the size of every batch.

    `meanwhile` is what happens while a batch is under way: a test makes it as slow as it needs.
    """

    backend = "numpy"

    def __init__(
        self,
        metadata: ModelMetadata | None = None,
        *,
        fail_at: int = -1,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        self.metadata = metadata or brightness_metadata()
        self.batches: list[int] = []
        self.meanwhile, self._fail_at = meanwhile, fail_at

    def _run(self, frames_nhwc: NDArray[np.uint8]) -> Outputs:
        if len(self.batches) == self._fail_at:
            raise RuntimeFailure("the device is gone")
        self.batches.append(len(frames_nhwc))
        if self.meanwhile is not None:
            self.meanwhile()
        maps = frames_nhwc.mean(axis=3, dtype=np.float32)
        return {"map": maps, "score": maps.max(axis=(1, 2))}


class Canned:
    """A capture that hands out given images, then ends; None stands for an unreadable one."""

    fps = 30.0

    def __init__(self, images: Iterable[NDArray[np.uint8] | None]) -> None:
        self._images = iter(images)
        self.closed = False

    def read(self) -> Grab | None:
        for image in self._images:
            return Grab(image, "rgb", time.monotonic_ns(), time.time())
        return None

    def close(self) -> None:
        self.closed = True


class Blocking:
    """A capture whose read hangs until the test releases it: a driver that does not return."""

    fps = 30.0

    def __init__(self, release: threading.Event) -> None:
        self._release = release

    def read(self) -> Grab | None:
        self._release.wait(HANGS_S)
        return Grab(grey(7), "rgb", time.monotonic_ns(), time.time())

    def close(self) -> None:
        pass


def opens(*captures: object) -> Callable[..., object]:
    """An opener that gives these captures in turn; an exception among them is raised."""
    left = list(captures)

    def opener(spec: SourceSpec, *, wait: Callable[[float], bool], timeout_s: float) -> object:
        if not left:
            raise RuntimeFailure(f"{spec.name}: unplugged")
        capture = left.pop(0)
        if isinstance(capture, Exception):
            raise capture
        return capture

    return opener


def wait(condition: Callable[[], bool], what: str) -> None:
    """Until something is so, however slow the computer; a test that waits in vain says for what."""
    deadline_s = time.monotonic() + HANGS_S
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.002)


def grey(level: int, size_hw: tuple[int, int] = (32, 48)) -> NDArray[np.uint8]:
    """A frame of one brightness."""
    return np.full((*size_hw, 3), level, np.uint8)


def camera(name: str = "cam", *, repeats: bool = True) -> SourceSpec:
    """A live source that reconnects; grey pictures have no noise, so they may repeat."""
    return SourceSpec(
        kind="network", text=name, name=name, live=True, reconnects=True, repeats=repeats
    )


def clip(name: str = "clip") -> SourceSpec:
    """A file."""
    return SourceSpec(kind="video", text=name, name=name, live=False)


class Collect:
    """A sink that keeps everything; `raises` makes it fail on every call."""

    name = "collect"

    def __init__(self, *, raises: bool = False, on_frame: Callable[[], None] | None = None) -> None:
        self.results: list[FrameResult] = []
        self.events: list[SourceEvent] = []
        self.closed = False
        self._raises, self._then = raises, on_frame

    def on_frame(self, result: FrameResult) -> None:
        self.results.append(result)
        if self._then is not None:
            self._then()
        self._fail()

    def on_source(self, event: SourceEvent) -> None:
        self.events.append(event)
        self._fail()

    def close(self) -> None:
        self.closed = True
        self._fail()

    def _fail(self) -> None:
        if self._raises:
            raise ValueError("sink failed at rtsp://admin:hunter2@cam/1")
