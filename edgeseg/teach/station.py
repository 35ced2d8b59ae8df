"""The station of a project, in this process: the recipe on the camera, until it is stopped.

It is the stream of `edgeseg stream --recipes`, with a watch of its own behind it: a model that is
replaced in the recipe is proven and swapped in between two frames.
"""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError, UsageError, words_of
from edgeseg.base.messages import Message, Words
from edgeseg.base.plain import finite
from edgeseg.base.progress import Note
from edgeseg.runtime.capture.sources import parse_source
from edgeseg.runtime.drift.sink import DriftSink
from edgeseg.runtime.events.records import FrameResult, SourceEvent
from edgeseg.runtime.run.run import open_stream
from edgeseg.runtime.settings.options import StreamOptions
from edgeseg.runtime.settings.sink_kinds import SinkOptions, StreamRun
from edgeseg.runtime.sinks.counters import Counters
from edgeseg.runtime.sinks.log_options import CounterOptions
from edgeseg.runtime.sinks.overlay import annotate_result
from edgeseg.runtime.web.operator_screen import OperatorScreen
from edgeseg.teach.alarms import Alarms
from edgeseg.teach.camera import NO_CAMERA, open_as_camera
from edgeseg.teach.last_parts import LastParts
from edgeseg.teach.project import Project
from edgeseg.vision.images import encode_jpeg

_MAX_SIDE, _MIN_SIDE, _QUALITY = 960, 512, 80  # of the live picture
_STOP_S = 15.0
_SWITCH_S = 0.0005


class Watch:
    """The sink behind the others: newest result, live picture, alarms, parts that passed."""

    name = "teach"

    def __init__(self, alarms: Alarms, parts: LastParts) -> None:
        self._alarms, self._parts = alarms, parts
        self._changed, self._encoding = threading.Condition(), threading.Lock()
        self.newest: FrameResult | None = None
        self._jpeg: tuple[FrameResult, bytes] | None = None
        self._closed = False

    def on_frame(self, result: FrameResult) -> None:
        """Keep it as the newest."""
        with self._changed:
            self.newest = result
            self._changed.notify_all()
        self._alarms.offer(result)
        self._parts.offer(result)

    def on_source(self, event: SourceEvent) -> None:
        """Ignore events: the state of the camera is read when it is needed."""

    def close(self) -> None:
        """Wake whoever waits for a frame."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def live_jpeg(self, timeout_s: float) -> bytes | None:
        """Wait for the next frame with what is marked, as JPEG; None if none came."""
        with self._changed:
            before = self.newest
            self._changed.wait_for(
                lambda: self._closed or self.newest is not before, timeout=timeout_s
            )
            result = self.newest
        if result is None or result is before:
            return None
        with self._encoding:  # of many viewers, one draws
            if self._jpeg is None or self._jpeg[0] is not result:
                picture = annotate_result(
                    result, min_side=_MIN_SIDE, max_side=_MAX_SIDE, strip=False
                )
                self._jpeg = (result, encode_jpeg(picture, quality=_QUALITY))
            return self._jpeg[1]


class TeachStation:
    """The station of a project: runs in a thread from `start` to `stop` or the camera's end."""

    def __init__(
        self,
        project: Project,
        *,
        alarms: Alarms,
        parts: LastParts,
        prepare: Callable[[], None],
        on_end: Callable[[], None],
        note: Note,
        trust: tuple[Path, ...] = (),
    ) -> None:
        self._project, self._note = project, note
        self._prepare, self._on_end = prepare, on_end
        settings = project.settings()
        if not settings.source:
            raise UsageError(Message("camera_unset"))
        self._options = StreamOptions(
            recipes=project.recipes,
            recipe=project.name,
            source=(settings.source,),
            trigger=settings.trigger,
            trust=trust,
            status_every=0.0,
            sinks=SinkOptions((CounterOptions(counters=project.folder / "counters.json"),)),
        )
        self.watch = Watch(alarms, parts)
        self._stop = threading.Event()
        self._asked = self._ended = False  # by somebody; at all
        self._running: StreamRun | None = None
        self.screen: OperatorScreen | None = None  # while parts are inspected
        self.sentence: Words = Message("run_recipe")
        self._thread = threading.Thread(target=self._run, name="station", daemon=True)

    def start(self) -> None:
        """Start the thread; `facts` tells how it goes."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and release the camera."""
        self._asked = True
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_S)

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive() and not self._ended

    def facts(self) -> dict[str, Any]:
        """Facts of the station for `state`."""
        run, result = self._running, self.watch.newest
        state = "stopped" if not self.alive else "starting" if result is None else "running"
        return {
            "state": state,
            "sentence": self.sentence,
            "verdict": None if result is None else result.verdict,
            "score": None if result is None else finite(result.prediction.score),
            "p_value": None if result is None else result.p_value,
            "threshold": None if result is None else result.threshold_score,
            "counters": {} if run is None else _count_parts(run),
            "figures": {} if run is None or result is None else _figures(run, result),
        }

    def camera(self) -> dict[str, Any]:
        """Facts of its camera for `state`."""
        run = self._running
        if run is None:
            name = parse_source(self._options.source[0]).name
            return {**NO_CAMERA, "sentence": Message("camera_starting", name=name)}
        source = run.pipeline.snapshot().sources[0]
        height, width = source.size_hw or (0, 0)
        sentence = Message("camera_not_connected", name=source.name)
        if source.connected:
            sentence = Message("camera_connected", name=source.name)
        return {
            "ok": source.connected,
            "sentence": sentence,
            "width": width,
            "height": height,
            "fps": round(run.pipeline.snapshot().fps_in, 1),
        }

    def picture(self) -> NDArray[np.uint8] | None:
        """Return the newest whole frame, RGB; None before the first."""
        result = self.watch.newest
        if result is None:
            return None
        return result.frame_hwc if result.captured_hwc is None else result.captured_hwc

    def _run(self) -> None:
        # Frames pass through the interpreter a dozen times on their way: each time they would wait
        # for this long while a thread of the service computes.
        sys.setswitchinterval(_SWITCH_S)
        try:
            self._prepare()
            self.sentence = Message("run_checking")
            self._inspect()
            self.sentence = Message("run_ended") if self._asked else Message("run_camera_ended")
        except EdgesegError as error:
            self.sentence = words_of(error)
        except Exception as error:  # a surprise of a driver must be said somewhere
            kind = type(error).__name__
            self.sentence = Message("run_failed", kind=kind, why=str(error))
        finally:
            self._ended, self.screen = True, None
            self.watch.close()
        self._note(str(self.sentence))
        if not self._asked:
            self._on_end()  # nobody waits for the camera

    def _inspect(self) -> None:
        with open_stream(
            self._options, stop=self._stop, note=self._note, opener=open_as_camera
        ) as stream:
            counters, pipeline = stream.run.sink(Counters), stream.run.pipeline
            assert counters is not None  # the options name their file
            screen = OperatorScreen(counters=counters, on_error=pipeline.faults.count)
            pipeline.add_sink(self.watch)
            pipeline.add_sink(screen)
            with stream.line, stream.changes:
                self.sentence, self._running = Message("run_runs"), stream.run
                self.screen = screen
                stream.run.pipeline.run()


def _count_parts(run: StreamRun) -> dict[str, Any]:
    """Count the parts of this shift by verdict, and frames not inspected by cause."""
    counters, source = run.sink(Counters), run.pipeline.snapshot().sources[0]
    shift = {} if counters is None else vars(counters.counts.shift.all)
    return {**shift, "frames": source.frames_in, "dropped": dict(source.dropped)}


def _figures(run: StreamRun, result: FrameResult) -> dict[str, Any]:
    """Collect the figures for engineers."""
    now, drift = run.pipeline.snapshot(), run.sink(DriftSink)
    states = {} if drift is None else {str(i): s.facts() for i, s in drift.states.items()}
    return {
        "model": now.model,
        "backend": now.runs_on,
        "fps_in": now.fps_in,
        "fps_out": now.fps_out,
        "uptime_s": now.uptime_s,
        "age_s": round(time.monotonic() - result.monotonic_s, 3),
        "stages_ms": {name: vars(stage) for name, stage in now.stages.items()},
        "errors": dict(now.errors),
        "drift": states,
    }
