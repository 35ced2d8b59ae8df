"""Which sinks the options ask for, and how they are connected."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgeseg.errors import EdgesegError
from edgeseg.runtime.capture.source_spec import SourceSpec
from edgeseg.runtime.drift.sink import DriftSink, drift_event
from edgeseg.runtime.options import StreamOptions
from edgeseg.runtime.records import FrameResult
from edgeseg.runtime.scoring.pipeline import Pipeline
from edgeseg.runtime.sinks.event_log import SCHEMA, EventLog
from edgeseg.runtime.sinks.snapshots import SnapshotSink
from edgeseg.runtime.sinks.video import Recorder

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Attached:
    """Sinks that have something to say after the run."""

    log: EventLog | None
    drift: DriftSink | None

    def drift_states(self) -> dict[int, dict[str, object]]:
        """The last drift state of every source, without its map."""
        found = self.drift.states if self.drift is not None else {}
        return {index: state.facts() for index, state in found.items()}


def attach_sinks(
    pipeline: Pipeline,
    options: StreamOptions,
    specs: Sequence[SourceSpec],
    *,
    stop: threading.Event,
    say: Say,
) -> Attached:
    """Make and connect everything that looks at results."""
    listeners: list[Callable[[dict[str, object]], None]] = []
    log = _event_log(pipeline, options, specs)
    if log is not None:
        pipeline.add_sink(log)
        listeners.append(log.put)
    drift = _drift(pipeline, options, listeners, say=say)
    if options.snapshots is not None:
        pipeline.add_sink(
            SnapshotSink(
                options.snapshots,
                max_count=options.snapshot_count,
                max_bytes=options.snapshot_bytes,
                on_error=pipeline.faults.count,
            )
        )
    recorder = _recorder(pipeline, options, specs)
    if options.serve is not None:
        listeners.append(_page(pipeline, options, drift, recorder, say=say))
    if options.show:
        from edgeseg.runtime.sinks.window import WindowSink

        pipeline.add_sink(WindowSink(on_quit=stop.set))
    return Attached(log=log, drift=drift)


def _event_log(
    pipeline: Pipeline, options: StreamOptions, specs: Sequence[SourceSpec]
) -> EventLog | None:
    if options.events is None:
        return None
    log = EventLog(
        options.events,
        only_alarms=options.events_for == "alarms",
        on_error=pipeline.faults.count,
    )
    metadata = pipeline.session.metadata
    log.put(
        {
            "schema": SCHEMA,
            "event": "run_start",
            "wall_s": round(time.time(), 6),
            "monotonic_s": round(time.monotonic(), 6),
            "model": metadata.name,
            "artefact_sha256": metadata.artefact_sha256,
            "backend": pipeline.session.backend,
            "threshold": pipeline.scorer.threshold_score,
            "sources": [spec.name for spec in specs],
        }
    )
    return log


def _drift(
    pipeline: Pipeline,
    options: StreamOptions,
    listeners: list[Callable[[dict[str, object]], None]],
    *,
    say: Say,
) -> DriftSink | None:
    """The drift watch; `listeners` may still grow until the run begins."""
    if not options.drift:
        return None
    if pipeline.scorer.tiled or "grid" not in pipeline.session.metadata.outputs:
        say("drift watch off: it needs a model with the output `grid`, and no tiles")
        return None

    def on_change(result: FrameResult, state: object) -> None:
        event = drift_event(result, state)  # type: ignore[arg-type]
        say(f"{result.source}: {event['message']}")
        for listener in listeners:
            listener(event)

    try:
        drift = DriftSink(pipeline.session.metadata, on_change=on_change)
    except EdgesegError as error:
        say(f"drift watch off: {error}")
        return None
    pipeline.add_sink(drift)
    return drift


def _recorder(
    pipeline: Pipeline, options: StreamOptions, specs: Sequence[SourceSpec]
) -> Recorder | None:
    if options.save is None and options.serve is None:
        return None
    recorder = Recorder(
        options.recordings,
        first=options.save,
        fps_of=lambda index: pipeline.readers[index].fps,
        live=any(spec.live for spec in specs),
        on_error=pipeline.faults.count,
    )
    pipeline.add_sink(recorder)
    return recorder


def _page(
    pipeline: Pipeline,
    options: StreamOptions,
    drift: DriftSink | None,
    recorder: Recorder | None,
    *,
    say: Say,
) -> Callable[[dict[str, object]], None]:
    from edgeseg.runtime.web.page_sink import PageSink

    page = PageSink(
        metadata=pipeline.session.metadata,
        view=pipeline,
        on_error=pipeline.faults.count,
        host=options.host,
        port=options.serve or 0,
        token=options.token(),
        drift=drift,
        recorder=recorder,
        stale_after_s=options.stale_after,
    )
    pipeline.add_sink(page)
    say(f"page: {page.url}")
    return page.add_event
