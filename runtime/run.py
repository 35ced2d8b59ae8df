"""From options to a running stream, and its report.

options -> a session of the model (backends) and the sources (capture)
session, sources -> Pipeline: the loop that scores frames (scoring)
Pipeline -> SINKS: events, drift, snapshots, video, page (sinks, drift, web)
the end -> report: printed, in the event log, as files
"""

import threading
from typing import Any

from edgeseg.errors import EdgesegError
from edgeseg.progress import Note
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.capture.sources import parse_source
from edgeseg.runtime.drift.sink import DriftSink
from edgeseg.runtime.options import StreamOptions
from edgeseg.runtime.scoring.meters import Faults
from edgeseg.runtime.scoring.model_input import Roi
from edgeseg.runtime.scoring.pipeline import Pipeline, PipelineConfig
from edgeseg.runtime.scoring.report import build_report, report_text, write_report
from edgeseg.runtime.scoring.scorer import ScorerConfig
from edgeseg.runtime.scoring.verdict import Debounce
from edgeseg.runtime.sink_kinds import StreamRun, attach_sinks
from edgeseg.runtime.sinks.event_log import EventLog


def run_stream(
    options: StreamOptions, *, stop: threading.Event, note: Note, print_report: Note
) -> None:
    """Run until the end, then print and write the report; a failure is raised after that."""
    specs = [parse_source(text, realtime=options.realtime) for text in options.source]
    config = pipeline_config(options)
    with open_session(
        options.model,
        backend=options.backend,
        options=SessionOptions(threads=options.threads, spin=options.spin),
        allow_random_weights=options.allow_random_weights,
        note=note,
    ) as session:
        pipeline = Pipeline(
            session, specs, config=config, faults=Faults(note), stop=stop, note=note
        )
        run = StreamRun(pipeline=pipeline, options=options.sinks, specs=specs, note=note)
        try:
            attach_sinks(run)
        except EdgesegError:
            pipeline.close_sinks()  # of the ones that were made before the mistake
            raise
        failure: EdgesegError | None = None
        try:
            pipeline.run()
        except EdgesegError as error:
            failure = error
        report = _report(run, failure)
        print_report(report_text(report))
        if options.report is not None:
            for path in write_report(options.report, report):
                note(f"wrote {path}")
        if failure is not None:
            raise failure


def _report(run: StreamRun, failure: EdgesegError | None) -> dict[str, Any]:
    """What the run measured; the event log ends with it."""
    drift, log = run.sink(DriftSink), run.sink(EventLog)
    report = build_report(
        run.pipeline.snapshot(),
        run.pipeline.session.metadata,
        drift={} if drift is None else {i: state.facts() for i, state in drift.states.items()},
        failure=failure,
    )
    if log is not None:
        log.write_last({"schema": report["schema"], "event": "run_end", **report})
    return report


def pipeline_config(options: StreamOptions) -> PipelineConfig:
    """The part of the options that the loop needs, parsed."""
    return PipelineConfig(
        scorer=ScorerConfig(
            roi=Roi.parse(options.roi) if options.roi else None,
            tile_overlap=options.tile_overlap if options.tile else None,
            threshold=options.threshold,
            debounce=Debounce.parse(options.debounce),
        ),
        policy=options.policy,
        queue_size=options.queue_size,
        stall_timeout_s=options.stall_timeout,
        duration_s=options.duration,
        max_frames=options.max_frames,
        status_every_s=options.status_every,
    )
