"""Log events, one JSON object per line, in a thread that scoring never waits for."""

import json
import math
import queue
import threading
import time
from collections.abc import Callable
from typing import Literal

from edgeseg.base.plain import finite
from edgeseg.decision.judgement import parts_facts, severity_of
from edgeseg.runtime.events.records import SCHEMA, STAGES, FrameResult, SourceEvent
from edgeseg.runtime.sinks.event_file import EventFile, Rotation
from edgeseg.runtime.station.records import NO_TRACE, variant_facts

Sync = Literal["never", "alarm", "every"]

_MAX_LINES = 4096  # waiting for a slow disk; beyond that lines are lost and counted
_RETRY_S = 1.0  # between attempts to open a file that could not be opened or written
_END_S = 5.0  # for a disk or a pipe that hangs at the end
NO_ROTATION = Rotation()
_SYNC_LINES = 64  # one sync for so many lines while more are waiting: a slow disk keeps up


def frame_event(result: FrameResult) -> dict[str, object]:
    """Make the event of one scored frame, with boxes in pixels of the captured frame."""
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
        "frame_id": result.frame_id,
        "camera_ns": result.camera_ns,
        "score": finite(result.prediction.score),
        "threshold": result.threshold_score,
        "verdict": result.verdict,
        "error": "none" if result.refusal is None else result.refusal[0].name.lower(),
        "reason": result.reason,
        "doubt": result.doubt.kind.value if result.doubt and not result.refusal else None,
        "p_value": result.p_value,
        "oddness": None if result.oddness is None else str(result.oddness),
        "alarm": result.alarm,
        "regions": [
            {
                "box": [region.box_xywh[0] + x0, region.box_xywh[1] + y0, *region.box_xywh[2:]],
                "area": region.area_px,
                "severity": severity_of(
                    region,
                    pixel_threshold=result.threshold_pixel,
                    picture_px=result.frame_hwc.shape[0] * result.frame_hwc.shape[1],
                ),
                "peak": finite(region.peak),
                **region.explanation_facts(),
            }
            for region in result.regions
        ],
        "region_count": result.region_count,
        "severity": result.severity,
        "latency_ms": {stage: round(getattr(times, stage), 3) for stage in STAGES},
        "part_id": result.part_id,
        "trigger_id": result.trigger_id,
        "pose": None if result.pose is None else result.pose.facts(),
        **parts_facts(result.parts),
        **variant_facts(result.prediction.variant),
        **(NO_TRACE if result.trace is None else result.trace.facts()),
    }


def source_event(event: SourceEvent) -> dict[str, object]:
    """Make the event of a change of a source's state."""
    return {
        "schema": SCHEMA,
        "event": event.kind,
        "source": event.source,
        "source_index": event.source_index,
        "wall_s": round(event.wall_s, 6),
        "monotonic_s": round(event.monotonic_s, 6),
        "reason": event.reason,
        "attempt": event.attempt,
        "frame_id": event.frame_id,
    }


def repair_event(cut_bytes: int) -> dict[str, object]:
    """Make the event of a removed last line, which an earlier run did not finish."""
    return {
        "schema": SCHEMA,
        "event": "log_mended",
        "wall_s": round(time.time(), 6),
        "monotonic_s": round(time.monotonic(), 6),
        "cut_bytes": cut_bytes,
    }


class EventLog:
    """A sink that appends events to a file, or to standard output for `-`.

    A full disk or a bad path costs lines, each of them counted, and never a frame. When there is
    space again, writing continues, and a line that was cut short is removed. `sync` says which
    events must survive a power cut: those of alarms and of the run, every one, or none.
    """

    name = "events"

    def __init__(
        self,
        path: str,
        *,
        only_alarms: bool,
        sync: Sync,
        rotation: Rotation = NO_ROTATION,
        chained: bool = False,
        on_error: Callable[[str, str], None],
    ) -> None:
        self._path, self._rotation, self._chained = path, rotation, chained
        self._only_alarms = only_alarms
        self._sync = sync
        self._on_error = on_error
        self._events: queue.Queue[tuple[bytes, bool] | None] = queue.Queue(_MAX_LINES)
        self._file: EventFile | None = None
        self._tried_s = -math.inf
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def on_frame(self, result: FrameResult) -> None:
        """Queue the frame's line."""
        if result.alarm or not self._only_alarms:
            self.put(frame_event(result))

    def on_source(self, event: SourceEvent) -> None:
        """Queue the line of a source's change of state."""
        self.put(source_event(event))

    def put(self, event: dict[str, object]) -> None:
        """Queue any event, for example the beginning and the end of a run."""
        try:
            self._events.put_nowait((_line(event), self._durable(event)))
        except queue.Full:
            self._on_error(self.name, "the disk is too slow; lines are lost")

    def close(self) -> None:
        """Write the queued lines, for five seconds at most."""
        try:
            self._events.put(None, timeout=_END_S)
            self._thread.join(_END_S)
        except queue.Full:
            self._on_error(self.name, "the disk hangs; the last lines are lost")

    def write_last(self, event: dict[str, object]) -> None:
        """Write one event after close; a disk or a pipe that hangs does not block the end."""
        if self._thread.is_alive():
            self._on_error(self.name, f"{self._path}: hangs; the end is not logged")
            return
        self._tried_s = -math.inf
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()
        self.put(event)
        self.close()

    def _run(self) -> None:
        lines = 0
        while (item := self._events.get()) is not None:
            lines += 1
            try:
                self._write(*item)
                if self._file is not None and (self._events.empty() or lines % _SYNC_LINES == 0):
                    self._file.sync()
            except OSError as error:
                self._close_file()
                self._on_error(self.name, f"{self._path}: {error.strerror}; lines are lost")
        self._close_file()

    def _write(self, line: bytes, durable: bool) -> None:
        if self._file is None:
            if time.monotonic() - self._tried_s < _RETRY_S:
                self._on_error(self.name, f"{self._path}: cannot be written; lines are lost")
                return
            self._tried_s = time.monotonic()
            self._file = EventFile(
                self._path,
                rotation=self._rotation,
                chained=self._chained,
                on_error=lambda text: self._on_error(self.name, text),
            )
            if self._file.cut_bytes:
                line = _line(repair_event(self._file.cut_bytes)) + line
        if not self._file.write(line, durable=durable):
            self._on_error(self.name, f"{self._path}: no room left; lines are lost")

    def _durable(self, event: dict[str, object]) -> bool:
        if self._sync == "alarm":
            return event["event"] != "frame" or event["alarm"] is True
        return self._sync == "every"

    def _close_file(self) -> None:
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            file.sync()
        except OSError as error:
            self._on_error(self.name, f"{self._path}: {error.strerror}; lines are lost")
        file.close()


def _line(event: dict[str, object]) -> bytes:
    return (json.dumps(event, allow_nan=False, separators=(",", ":")) + "\n").encode()
