"""Every kind of sink: its options, and how it is made for a run.

    its own checked record of options -> make(run, record) -> a sink, or None if not asked for

A new sink is its module and an entry in SINKS; `edgeseg stream` then has its options. The help
reads this module, so a sink is imported only when it is made.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from edgeseg.base.errors import EdgesegError, UsageError
from edgeseg.base.messages import Sentence, Setting
from edgeseg.base.options import FILE, FOLDER
from edgeseg.base.progress import Note
from edgeseg.base.typed_options import typed
from edgeseg.runtime.sinks.log_options import CounterOptions, EventOptions

if TYPE_CHECKING:
    from edgeseg.runtime.capture.sources import SourceSpec
    from edgeseg.runtime.drift.sink import DriftSink
    from edgeseg.runtime.events.publisher import Publisher
    from edgeseg.runtime.events.records import Sink
    from edgeseg.runtime.scoring.pipeline import Pipeline
    from edgeseg.runtime.sinks.counters import Counters
    from edgeseg.runtime.sinks.event_log import EventLog
    from edgeseg.runtime.sinks.snapshots import SnapshotSink
    from edgeseg.runtime.sinks.video import Recorder
    from edgeseg.runtime.station.station import Station
    from edgeseg.runtime.web.page_sink import PageSink

Record = TypeVar("Record")
SinkType = TypeVar("SinkType")


@dataclass(frozen=True)
class SinkOptions:
    """The options of all sinks: a record of each kind, with its defaults where none is given."""

    records: tuple[object, ...] = ()

    def of(self, record: type[Record]) -> Record:
        """Return the options of one kind."""
        return next((given for given in self.records if isinstance(given, record)), record())


@dataclass(frozen=True, kw_only=True)
class StreamRun:
    """The run that sinks are made for."""

    pipeline: "Pipeline"
    options: SinkOptions
    specs: "Sequence[SourceSpec]"
    note: Note
    station: "Station | None" = None
    recipes: tuple[str, ...] = ()  # that may be changed to
    sinks: "list[Sink]" = field(default_factory=list)  # made so far, in the order of SINKS

    @property
    def events(self) -> "Publisher":
        """The publisher, for sinks that subscribe to more than frames and sources."""
        return self.pipeline.events

    @property
    def triggered(self) -> bool:
        """Whether parts are the results of triggers, and not every frame."""
        return self.pipeline.on_demand

    def sink(self, kind: type[SinkType]) -> SinkType | None:
        """Return the sink of that class, if the options ask for one."""
        return next((sink for sink in self.sinks if isinstance(sink, kind)), None)


@dataclass(frozen=True, kw_only=True)
class SinkKind(Generic[Record]):
    """An entry of SINKS."""

    record: type[Record]  # of typed fields with defaults, which checks itself
    make: "Callable[[StreamRun, Record], Sink | None]"
    group: str = "what is written"  # of the help
    needs: Callable[[Record], Sequence[str]] = lambda options: ()  # modules that may not be here


# Each sees a frame after those before it, and may use them: the page shows drift and recorder.
SINKS: dict[str, SinkKind[Any]] = {}


def attach_sinks(run: StreamRun) -> None:
    """Make all sinks that the options ask for and connect them, in the order of SINKS."""
    for kind in SINKS.values():
        sink = kind.make(run, run.options.of(kind.record))
        if sink is not None:
            run.pipeline.add_sink(sink)
            run.sinks.append(sink)


def _event_log(run: StreamRun, options: EventOptions) -> "EventLog | None":
    if options.events is None:
        return None
    from edgeseg.runtime.events.records import SCHEMA, LoggedEvent
    from edgeseg.runtime.sinks.event_log import EventLog

    pipeline, metadata = run.pipeline, run.pipeline.session.metadata
    log = EventLog(
        options.events,
        only_alarms=options.events_for == "alarms",
        sync=options.events_sync,
        rotation=options.rotation,
        chained=options.events_chain,
        on_error=pipeline.faults.count,
    )
    run.events.subscribe(LoggedEvent, lambda event: log.put(event.facts()), name=log.name)
    log.put(
        {
            "schema": SCHEMA,
            "event": "run_start",
            "wall_s": round(time.time(), 6),
            "monotonic_s": round(time.monotonic(), 6),
            "model": metadata.name,
            "artefact_sha256": metadata.artefact_sha256,
            **pipeline.scorer.trace.facts(),
            "threshold": pipeline.scorer.thresholds.score,
            "sources": [spec.name for spec in run.specs],
        }
    )
    return log


SINKS["events"] = SinkKind(record=EventOptions, make=_event_log)


def _counters(run: StreamRun, options: CounterOptions) -> "Counters | None":
    if options.counters is None and run.options.of(PageOptions).serve is None:
        return None
    from edgeseg.runtime.sinks.counters import Counters
    from edgeseg.runtime.station.records import StationResult

    counters = Counters(
        options.counters,
        times=options.shift_times,
        on_error=run.pipeline.faults.count,
        publish=run.events.publish,
        count_frames=not run.triggered,
    )
    if run.triggered:
        run.events.subscribe(StationResult, counters.on_result, name=counters.name)
    return counters


SINKS["counters"] = SinkKind(record=CounterOptions, make=_counters)


@dataclass(frozen=True, kw_only=True)
class DriftOptions:
    """Options of `drift`."""

    drift: bool = typed(
        True, "Warn when light, focus or position has moved.", flags=("--drift/--no-drift",)
    )


def _drift(run: StreamRun, options: DriftOptions) -> "DriftSink | None":
    if not options.drift:
        return None
    from edgeseg.runtime.drift.sink import DriftChange, DriftSink
    from edgeseg.runtime.events.records import ModelChange

    pipeline = run.pipeline
    if pipeline.scorer.tiled or "grid" not in pipeline.session.metadata.outputs:
        run.note("drift watch off: it needs a model with the output `grid`, and no tiles")
        return None

    def note_change(change: DriftChange) -> None:
        run.note(f"{change.result.source}: {change.message}")

    try:
        drift = DriftSink(pipeline.session.metadata, publish=run.events.publish)
    except EdgesegError as error:
        run.note(Sentence("drift watch off: ", error))
        return None
    run.events.subscribe(DriftChange, note_change, name=drift.name)
    run.events.subscribe(ModelChange, drift.change_model, name=drift.name)
    return drift


SINKS["drift"] = SinkKind(record=DriftOptions, make=_drift, group="deciding")


@dataclass(frozen=True, kw_only=True)
class SnapshotOptions:
    """Options of `snapshots`."""

    snapshots: Path | None = typed(None, "Folder for pictures of alarms.", kind=FOLDER)
    snapshot_count: int = typed(1000, "Pictures of alarms to keep, at most.")
    snapshot_bytes: int = typed(1_000_000_000, "Bytes of pictures of alarms to keep, at most.")

    def __post_init__(self) -> None:
        for name in ("snapshot_count", "snapshot_bytes"):
            if getattr(self, name) < 1:
                raise UsageError(Setting(name, getattr(self, name)), ": expected at least 1")


def _snapshots(run: StreamRun, options: SnapshotOptions) -> "SnapshotSink | None":
    if options.snapshots is None:
        return None
    from edgeseg.runtime.sinks.snapshots import SnapshotSink

    return SnapshotSink(
        options.snapshots,
        max_count=options.snapshot_count,
        max_bytes=options.snapshot_bytes,
        on_error=run.pipeline.faults.count,
    )


SINKS["snapshots"] = SinkKind(record=SnapshotOptions, make=_snapshots)


@dataclass(frozen=True, kw_only=True)
class VideoOptions:
    """Options of `video`."""

    save: Path | None = typed(
        None, "Write an annotated video: .mp4, .mkv, .mov or .avi.", kind=FILE
    )
    recordings: Path = typed(
        Path("recordings"), "Where the page's recording button writes.", kind=FOLDER
    )


def _recorder(run: StreamRun, options: VideoOptions) -> "Recorder | None":
    """Make the recorder for a video file, and for the button of the page."""
    if options.save is None and run.options.of(PageOptions).serve is None:
        return None
    from edgeseg.runtime.sinks.video import Recorder

    pipeline = run.pipeline
    return Recorder(
        options.recordings,
        first=options.save,
        fps_of=lambda index: pipeline.readers[index].fps,
        live=any(spec.live for spec in run.specs),
        on_error=pipeline.faults.count,
    )


SINKS["video"] = SinkKind(record=VideoOptions, make=_recorder)


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Options of `page`."""

    serve: int | None = typed(
        None, "Port of the live page and of /metrics, such as 8080.", metavar="PORT"
    )
    host: str = typed("127.0.0.1", "Address of the page.")
    token_file: Path | None = typed(
        None, "File with the token of the page; needed when other computers may open it.", kind=FILE
    )
    stale_after: float = typed(10.0, "/healthz fails after so many seconds without a scored frame.")

    def __post_init__(self) -> None:
        if self.serve is None and self.token_file is not None:
            raise UsageError(
                Setting("token_file", self.token_file),
                ": is for the page; add ",
                Setting("serve", "PORT"),
            )


def _page(run: StreamRun, options: PageOptions) -> "PageSink | None":
    if options.serve is None:
        return None
    from edgeseg.runtime.drift.sink import DriftSink
    from edgeseg.runtime.events.records import LoggedEvent, ModelChange
    from edgeseg.runtime.sinks.counters import Counters
    from edgeseg.runtime.sinks.video import Recorder
    from edgeseg.runtime.web.access import token_in
    from edgeseg.runtime.web.page_sink import PageSink

    counters = run.sink(Counters)
    assert counters is not None  # made wherever there is a page
    page = PageSink(
        metadata=run.pipeline.session.metadata,
        view=run.pipeline,
        counters=counters,
        on_error=run.pipeline.faults.count,
        host=options.host,
        port=options.serve,
        token=token_in(options.token_file),
        drift=run.sink(DriftSink),
        recorder=run.sink(Recorder),
        stale_after_s=options.stale_after,
        station=run.station,
        recipes=run.recipes,
    )
    run.events.subscribe(LoggedEvent, page.on_event, name=page.name)
    run.events.subscribe(ModelChange, page.change_model, name=page.name)
    run.note(f"page: {page.url}")
    return page


SINKS["page"] = SinkKind(
    record=PageOptions,
    make=_page,
    group="the page",
    needs=lambda options: () if options.serve is None else ("prometheus_client",),
)
