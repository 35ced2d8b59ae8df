"""Run a stream from its options, and report on it.

options -> a session of the model or recipe (product, backends) and the sources (capture)
session, sources -> Pipeline: the loop that scores frames (scoring)
Line -> the station: triggers before the loop, adapters behind it (station, triggers, adapters)
Pipeline -> SINKS: events, drift, snapshots, video, page (sinks, drift, web)
the end -> report: printed, in the event log, as files
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from edgeseg.base.errors import EdgesegError, UsageError
from edgeseg.base.extras import check_installed
from edgeseg.base.messages import Setting
from edgeseg.base.progress import Note
from edgeseg.runtime.capture.frame_buffer import Policy
from edgeseg.runtime.capture.reader import OpenCapture
from edgeseg.runtime.capture.sources import SourceSpec, open_capture, parse_source
from edgeseg.runtime.drift.sink import DriftSink
from edgeseg.runtime.run.line import Line, source_texts
from edgeseg.runtime.run.notify import Notifier
from edgeseg.runtime.run.product import RecipeChanges, open_product
from edgeseg.runtime.scoring.meters import Faults
from edgeseg.runtime.scoring.pipeline import Pipeline, PipelineConfig
from edgeseg.runtime.scoring.report import RunReport, build_report, report_text, write_report
from edgeseg.runtime.scoring.scorer import ScorerConfig
from edgeseg.runtime.settings.adapter_kinds import ADAPTERS
from edgeseg.runtime.settings.options import StreamOptions
from edgeseg.runtime.settings.sink_kinds import SINKS, StreamRun, attach_sinks
from edgeseg.runtime.settings.trigger_kinds import FREE
from edgeseg.runtime.sinks.event_log import EventLog


@dataclass(frozen=True, kw_only=True)
class OpenStream:
    """A stream that is ready to run: enter `line` and `changes`, then run the pipeline."""

    run: StreamRun
    line: Line
    changes: RecipeChanges


@contextmanager
def open_stream(
    options: StreamOptions,
    *,
    stop: threading.Event,
    note: Note,
    opener: OpenCapture = open_capture,
) -> Iterator[OpenStream]:
    """Put a stream together, for the command and for the station of a taught project."""
    specs = [
        parse_source(
            text,
            realtime=options.realtime,
            max_pixels=options.max_pixels,
            delay_s=options.camera_delay,
            repeats=options.allow_repeats,
        )
        for text in source_texts(options)
    ]
    if [spec.kind for spec in specs].count("stdin") > 1:
        raise UsageError(Setting("source", "-"), ": given twice, and there is one standard input")
    check_packages(options)
    with open_product(options, note=note) as product:
        faults = Faults(note)
        line = Line(options, specs, faults=faults, note=note)
        pipeline = Pipeline(
            product.session,
            specs,
            config=config_for_trigger(options, specs, product.scorer),
            faults=faults,
            stop=stop,
            note=note,
            opener=opener,
            intake=line.intake,
            decide=line.decide,
            on_demand=line.triggered,
            events=line.events,
        )
        line.attach(pipeline)
        run = StreamRun(
            pipeline=pipeline,
            options=options.sinks,
            specs=specs,
            note=note,
            station=line.station,
            recipes=product.recipe_names,
        )
        try:
            attach_sinks(run)
            line.open_adapters()
        except EdgesegError:
            pipeline.close_sinks()  # of the ones that were made before the mistake
            raise
        yield OpenStream(run=run, line=line, changes=RecipeChanges(product, run, line))


def check_packages(options: StreamOptions) -> None:
    """Refuse before the model is opened what needs a package that is not installed."""
    for name, sink in SINKS.items():
        check_installed(name, *sink.needs(options.sinks.of(sink.record)))
    for name, adapter in ADAPTERS.items():
        check_installed(name, *adapter.needs(options.sinks.of(adapter.record)))


def run_stream(
    options: StreamOptions, *, stop: threading.Event, note: Note, print_report: Note
) -> None:
    """Run until the end, then print and write the report; a failure is raised after that."""
    with open_stream(options, stop=stop, note=note) as stream:
        pipeline, failure = stream.run.pipeline, None
        try:
            with stream.line, stream.changes, Notifier(pipeline):
                pipeline.run()
        except EdgesegError as error:
            failure = error
        report = _report(stream.run, stream.line, failure)
        print_report(report_text(report))
        if options.report is not None:
            for path in write_report(options.report, report):
                note(f"wrote {path}")
        if failure is not None:
            raise failure


def _report(run: StreamRun, line: Line, failure: EdgesegError | None) -> RunReport:
    """Build the report; the event log ends with it."""
    drift, log = run.sink(DriftSink), run.sink(EventLog)
    report = build_report(
        run.pipeline.snapshot(),
        run.pipeline.session.metadata,
        drift={} if drift is None else {i: state.facts() for i, state in drift.states.items()},
        failure=failure,
        station=line.facts() if line.triggered else None,
    )
    if log is not None:
        log.write_last({"schema": report["schema"], "event": "run_end", **report})
    return report


def config_for_trigger(
    options: StreamOptions, specs: Sequence[SourceSpec], scorer: ScorerConfig
) -> PipelineConfig:
    """Set the policy for a trigger: a part's frame waits its turn, a file waits for the model."""
    triggered: Policy = "queue" if specs[0].live else "every"
    return PipelineConfig(
        scorer=scorer,
        policy=options.policy if options.trigger == FREE else triggered,
        queue_size=options.queue_size,
        stall_timeout_s=options.stall_timeout,
        duration_s=options.duration,
        max_frames=options.max_frames,
        status_every_s=options.status_every,
    )
