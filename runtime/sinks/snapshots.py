"""Save pictures of alarms on the disk, within a limit of count and bytes."""

import json
import queue
import re
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

from edgeseg.base.files import atomic_path
from edgeseg.runtime.events.records import FrameResult, SourceEvent
from edgeseg.runtime.sinks.event_log import frame_event
from edgeseg.runtime.sinks.overlay import annotate_result
from edgeseg.vision.images import encode_jpeg, encode_png

_WAITING = 4  # alarms whose pictures may wait for the disk: at 4K each holds some 25 MB
# Only files of this shape are counted against the limit or ever deleted.
_NAME = re.compile(r"alarm-\d{8}T\d{6}\.\d{3}Z-s\d+-f\d+\.(?:jpg|json|raw\.png)")
_SUFFIXES = (".jpg", ".raw.png", ".json")  # the JSON last: where it is, the pictures are whole


class SnapshotSink:
    """A sink that writes an annotated picture, the raw frame and a JSON when an alarm starts.

    The oldest snapshots are deleted first. A full disk or an unwritable folder costs snapshots,
    each of them counted, and never a frame.
    """

    name = "snapshots"

    def __init__(
        self,
        folder: Path,
        *,
        max_count: int,
        max_bytes: int,
        on_error: Callable[[str, str], None],
    ) -> None:
        self._folder = Path(folder)
        self._max_count, self._max_bytes = max_count, max_bytes
        self._on_error = on_error
        self._kept: dict[str, int] | None = None  # stem -> bytes, oldest first; None: not yet read
        self._queue: queue.Queue[FrameResult | None] = queue.Queue(_WAITING)
        self.written = 0
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)
        self._thread.start()

    def on_frame(self, result: FrameResult) -> None:
        """Queue the first frame of an alarm."""
        if not result.alarm_started:
            return
        try:
            self._queue.put_nowait(result)
        except queue.Full:
            self._on_error(self.name, "the disk is too slow; a snapshot is lost")

    def on_source(self, event: SourceEvent) -> None:
        """Do nothing: there is nothing to draw."""

    def close(self) -> None:
        """Write the queued snapshots, for ten seconds at most."""
        try:
            self._queue.put(None, timeout=5.0)
            self._thread.join(5.0)
        except queue.Full:
            self._on_error(self.name, "the disk hangs; the last snapshots are lost")

    def _run(self) -> None:
        while (result := self._queue.get()) is not None:
            stem = snapshot_stem(result)
            try:
                self._save(stem, result)
            except OSError as error:
                self._on_error(self.name, f"{self._folder}: {error.strerror}; a snapshot is lost")
                self._remove(stem)  # a part of one is of no use
            except Exception as error:  # a frame that cannot be drawn must not end the thread
                self._on_error(self.name, f"{type(error).__name__}; a snapshot is lost")
                self._remove(stem)

    def _save(self, stem: str, result: FrameResult) -> None:
        kept = self._kept if self._kept is not None else _snapshot_sizes(self._folder)
        self._kept = kept
        contents = _contents(result)
        size = sum(len(content) for content in contents.values())
        if size > self._max_bytes:
            self._on_error(
                self.name, f"one is {size} bytes, the limit {self._max_bytes}; it is lost"
            )
            return
        # Room first: the limit is a promise about the disk at every moment.
        while kept and (
            len(kept) >= self._max_count or sum(kept.values()) + size > self._max_bytes
        ):
            oldest = next(iter(kept))
            self._remove(oldest)
            del kept[oldest]
        for suffix in _SUFFIXES:
            with atomic_path(self._folder / (stem + suffix)) as temporary:
                temporary.write_bytes(contents[suffix])
        kept[stem] = size
        self.written += 1

    def _remove(self, stem: str) -> None:
        for suffix in reversed(_SUFFIXES):  # killed in between, no JSON tells of a missing picture
            try:
                (self._folder / (stem + suffix)).unlink(missing_ok=True)
            except OSError as error:
                self._on_error(self.name, f"{self._folder}: {error.strerror}; a file stays")


def snapshot_stem(result: FrameResult) -> str:
    """Make a file name that sorts by time, unique per source and frame."""
    moment = datetime.fromtimestamp(result.wall_s, tz=timezone.utc)
    stamp = f"{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03d}Z"
    return f"alarm-{stamp}-s{result.source_index}-f{result.frame_index}"


def _snapshot_sizes(folder: Path) -> dict[str, int]:
    """Return the bytes of each snapshot of earlier runs, oldest first."""
    stored: dict[str, int] = {}
    if not folder.is_dir():
        return stored
    for path in sorted(folder.iterdir()):
        if _NAME.fullmatch(path.name) and path.is_file():
            stem = path.name.removesuffix(".jpg").removesuffix(".json").removesuffix(".raw.png")
            stored[stem] = stored.get(stem, 0) + path.stat().st_size
    return stored


def _contents(result: FrameResult) -> dict[str, bytes]:
    """Make the three files: a picture for people, the lossless frame for a refit, the facts."""
    event = json.dumps(frame_event(result), indent=2, allow_nan=False) + "\n"
    return {
        ".jpg": encode_jpeg(annotate_result(result), quality=90),
        ".raw.png": encode_png(result.frame_hwc),
        ".json": event.encode(),
    }
