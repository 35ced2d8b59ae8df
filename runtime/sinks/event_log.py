"""What happened, one JSON object per line, written by a thread that scoring never waits for."""

import json
import math
import os
import queue
import threading
import time
from collections.abc import Callable

from edgeseg.contract.judgement import words_of
from edgeseg.runtime.records import SCHEMA, STAGES, FrameResult, SourceEvent

_MAX_LINES = 4096  # waiting for a slow disk; beyond that lines are lost and counted
_RETRY_S = 1.0  # between attempts to open a file that could not be opened or written


def frame_event(result: FrameResult) -> dict[str, object]:
    """One scored frame; boxes in pixels of the captured frame, ROI or not."""
    x0, y0 = result.roi_xy
    times = result.times
    return {
        "schema": SCHEMA,
        "event": "frame",
        "source": result.source,
        "source_index": result.source_index,
        "frame": result.frame_index,
        "name": result.frame_name,
        "wall_s": round(result.wall_s, 6),
        "monotonic_s": round(result.monotonic_s, 6),
        "score": result.prediction.score if result.verdict != "invalid" else None,
        "threshold": result.threshold_score,
        "verdict": result.verdict,
        "p_value": result.p_value,
        "oddness": words_of(result.p_value),
        "alarm": result.alarm,
        "regions": [
            {
                "box": [region.box_xywh[0] + x0, region.box_xywh[1] + y0, *region.box_xywh[2:]],
                "area": region.area_px,
                "peak": region.peak if math.isfinite(region.peak) else None,
            }
            for region in result.regions
        ],
        "region_count": result.region_count,
        "latency_ms": {stage: round(getattr(times, stage), 3) for stage in STAGES},
    }


def source_event(event: SourceEvent) -> dict[str, object]:
    """A change of a source's state."""
    return {
        "schema": SCHEMA,
        "event": event.kind,
        "source": event.source,
        "source_index": event.source_index,
        "wall_s": round(event.wall_s, 6),
        "monotonic_s": round(event.monotonic_s, 6),
        "reason": event.reason,
        "attempt": event.attempt,
    }


class EventLog:
    """Appends events to a file, or to standard output for `-`.

    A full disk or a bad path costs lines, each of them counted, and never a frame. When there is
    room again, writing goes on; a line cut short by the full disk is ended first.
    """

    name = "events"

    def __init__(
        self, path: str, *, only_alarms: bool, on_error: Callable[[str, str], None]
    ) -> None:
        self._path = path
        self._only_alarms = only_alarms
        self._on_error = on_error
        self._lines: queue.Queue[bytes | None] = queue.Queue(_MAX_LINES)
        self._descriptor: int | None = None
        self._tried_s = -math.inf
        self._torn = False
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def on_frame(self, result: FrameResult) -> None:
        """Queue the frame's line."""
        if result.alarm or not self._only_alarms:
            self.put(frame_event(result))

    def on_source(self, event: SourceEvent) -> None:
        """Queue a line on a source's change of state."""
        self.put(source_event(event))

    def put(self, event: dict[str, object]) -> None:
        """Queue any event, for example the begin and the end of a run."""
        try:
            self._lines.put_nowait(_line(event))
        except queue.Full:
            self._on_error(self.name, "the disk is too slow; lines are lost")

    def close(self) -> None:
        """Write what is queued, for five seconds at most."""
        try:
            self._lines.put(None, timeout=5.0)
            self._thread.join(5.0)
        except queue.Full:
            self._on_error(self.name, "the disk hangs; the last lines are lost")

    def write_last(self, event: dict[str, object]) -> None:
        """Write one event after close, at once."""
        try:
            self._tried_s = -math.inf
            self._write(_line(event))
        except OSError as error:
            self._on_error(self.name, f"{self._path}: {error.strerror}; the end is not logged")
        self._close_file()

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._write(line)
            except OSError as error:
                self._close_file()
                self._on_error(self.name, f"{self._path}: {error.strerror}; lines are lost")
        self._close_file()

    def _write(self, line: bytes) -> None:
        if self._descriptor is None:
            if time.monotonic() - self._tried_s < _RETRY_S:
                self._on_error(self.name, f"{self._path}: cannot be written; lines are lost")
                return
            self._tried_s = time.monotonic()
            self._descriptor = _open(self._path)
        line = b"\n" + line if self._torn else line
        # Unbuffered: after a crash or a power cut the file ends with the last whole event.
        written = os.write(self._descriptor, line)
        self._torn = written < len(line)
        if self._torn:
            self._on_error(self.name, f"{self._path}: no room left; lines are lost")

    def _close_file(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)


def _line(event: dict[str, object]) -> bytes:
    return (json.dumps(event, allow_nan=False, separators=(",", ":")) + "\n").encode()


def _open(path: str) -> int:
    if path == "-":
        return os.dup(1)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
