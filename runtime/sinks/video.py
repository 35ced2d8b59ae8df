"""Record annotated video in a thread that draws and encodes."""

import queue
import shutil
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import datetime, timezone
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError, RuntimeFailure, UsageError
from edgeseg.base.files import atomic_path, write_target
from edgeseg.base.messages import Setting
from edgeseg.runtime.events.records import FrameResult, SourceEvent
from edgeseg.runtime.sinks.overlay import annotate_result

_CODECS = {".mp4": "mp4v", ".mkv": "mp4v", ".mov": "mp4v", ".avi": "MJPG"}
_UNKNOWN_FPS = 25.0
_WAITING = 4  # frames; at 4K each holds some 25 MB
_KEEP_FREE_BYTES = 64_000_000  # OpenCV does not say when the disk is full: stop before
_LONGEST_GAP_S = 2.0  # a lost camera stands still this long in the video, not for hours


class Recorder:
    """A sink that writes one file per source while active; any thread may start and stop it."""

    name = "video"

    def __init__(
        self,
        folder: Path,
        *,
        first: Path | None,
        fps_of: Callable[[int], float],
        live: bool,
        on_error: Callable[[str, str], None],
    ) -> None:
        if first is not None and first.suffix.lower() not in _CODECS:
            raise UsageError(
                Setting("save", first), f": expected a file ending in {', '.join(sorted(_CODECS))}"
            )
        if first is not None:
            write_target(first)  # a pipe or a device is refused before the first frame
        self._folder, self._fps_of, self._live, self._on_error = folder, fps_of, live, on_error
        self._target = first
        self._files: dict[int, VideoFile] = {}
        self._queue: queue.Queue[FrameResult | str] = queue.Queue(_WAITING)
        self.active = first is not None
        self._thread = threading.Thread(target=self._run, name="video", daemon=True)
        self._thread.start()

    def start(self) -> None:
        """Begin a new video in the folder of recordings."""
        if shutil.disk_usage(_existing(self._folder)).free < _KEEP_FREE_BYTES:
            raise RuntimeFailure(f"{self._folder}: the disk is full, a video cannot be recorded")
        now = datetime.now(timezone.utc)
        self._target = self._folder / f"recording-{now:%Y%m%dT%H%M%SZ}.mp4"
        self.active = True

    def stop(self) -> None:
        """Finish the video."""
        self.active = False
        self._queue.put("finish", timeout=5.0)

    def on_frame(self, result: FrameResult) -> None:
        """Queue the frame; only file sources, which can wait, wait for the encoder."""
        if not self.active:
            return
        try:
            self._queue.put(result, block=not self._live, timeout=10.0)
        except queue.Full:
            self._on_error(self.name, "encoding is too slow; frames are missing in the video")

    def on_source(self, event: SourceEvent) -> None:
        """Do nothing: there is nothing to draw."""

    def close(self) -> None:
        """Finish the video, within twenty seconds."""
        self.active = False
        try:
            self._queue.put("end", timeout=10.0)
            self._thread.join(10.0)
        except queue.Full:
            self._on_error(self.name, "the disk hangs; the video is lost")

    def _run(self) -> None:
        while (item := self._queue.get()) != "end":
            if isinstance(item, FrameResult):
                self._guard(lambda result=item: self._write(result))  # type: ignore[misc]
            else:
                self._guard(self._finish)
        self._guard(self._finish)

    def _guard(self, action: Callable[[], None]) -> None:
        try:
            action()
        except (OSError, EdgesegError, cv2.error) as error:
            self.active = False
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._on_error(self.name, f"recording stops: {reason}")
            while self._files:  # what was recorded so far is kept where it can be
                self._files.popitem()[1].salvage()

    def _write(self, result: FrameResult) -> None:
        index = result.source_index
        if self._target is None:
            return
        if index not in self._files:
            # The first source has the name that was asked for, the others a number.
            path = self._target
            path = path if index == 0 else path.with_stem(f"{path.stem}-{index}")
            self._files[index] = VideoFile(path, fps=self._fps_of(index), live=self._live)
        self._files[index].write(annotate_result(result), result.monotonic_s)

    def _finish(self) -> None:
        while self._files:
            self._files.popitem()[1].close()


class VideoFile:
    """One video; it gets its name when it is complete."""

    def __init__(self, path: Path, *, fps: float, live: bool) -> None:
        self._path, self._live = path, live
        self._fps = fps if 1.0 <= fps <= 240.0 else _UNKNOWN_FPS
        self._stack = ExitStack()
        self._temporary = self._stack.enter_context(atomic_path(path))
        self._writer: cv2.VideoWriter | None = None
        self._size_hw = (0, 0)
        self._begin_s: float | None = None
        self._written = 0

    def write(self, picture_hwc: NDArray[np.uint8], now_s: float) -> None:
        """Add a picture; repeat it for a live source as often as real time needs."""
        if self._writer is None:
            self._open(picture_hwc.shape[:2])
        if self._written % 50 == 0 and shutil.disk_usage(self._path.parent).free < _KEEP_FREE_BYTES:
            raise RuntimeFailure(f"{self._path}: the disk is full")
        bgr = cv2.cvtColor(_pad(picture_hwc, self._size_hw), cv2.COLOR_RGB2BGR)
        for _ in range(self._repeats(now_s)):
            self._writer.write(bgr)  # type: ignore[union-attr]  # _open sets it or raises
            self._written += 1

    def _repeats(self, now_s: float) -> int:
        if not self._live:
            return 1
        if self._begin_s is None:
            self._begin_s = now_s
        due = round((now_s - self._begin_s) * self._fps) + 1 - self._written
        longest = round(_LONGEST_GAP_S * self._fps)
        if due > longest:
            self._begin_s += (due - longest) / self._fps
        return min(max(0, due), longest)

    def _open(self, size_hw: tuple[int, int]) -> None:
        # Encoders take even sizes only.
        self._size_hw = (size_hw[0] + size_hw[0] % 2, size_hw[1] + size_hw[1] % 2)
        codec = cv2.VideoWriter.fourcc(*_CODECS[self._path.suffix.lower()])
        writer = cv2.VideoWriter(
            str(self._temporary), cv2.CAP_FFMPEG, codec, self._fps, self._size_hw[::-1]
        )
        if not writer.isOpened():
            raise RuntimeFailure(f"{self._path}: OpenCV cannot write a video there")
        self._writer = writer

    def salvage(self) -> None:
        """Complete the file if possible, else delete it."""
        with suppress(OSError, EdgesegError, cv2.error):
            self.close()

    def close(self) -> None:
        """Complete the file and name it; an empty one does not replace an earlier video."""
        with self._stack:
            if self._writer is not None:
                self._writer.release()
            if not self._written or not _plays(self._temporary):
                raise RuntimeFailure(f"{self._path}: nothing could be written; is the disk full?")


def _plays(path: Path) -> bool:
    """Whether a picture can be read: OpenCV does not report a failed write."""
    video = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    try:
        return bool(video.read()[0])
    finally:
        video.release()


def _pad(picture_hwc: NDArray[np.uint8], size_hw: tuple[int, int]) -> NDArray[np.uint8]:
    height, width = size_hw
    if picture_hwc.shape[0] > height or picture_hwc.shape[1] > width:  # the stream grew
        return np.asarray(cv2.resize(picture_hwc, (width, height)), np.uint8)
    below, right = height - picture_hwc.shape[0], width - picture_hwc.shape[1]
    if not below and not right:
        return picture_hwc
    padded = cv2.copyMakeBorder(picture_hwc, 0, below, 0, right, cv2.BORDER_REPLICATE)
    return np.asarray(padded, np.uint8)


def _existing(folder: Path) -> Path:
    return next(path for path in (folder.resolve(), *folder.resolve().parents) if path.is_dir())
