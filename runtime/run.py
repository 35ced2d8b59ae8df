"""From options to a running stream: session, sources, loop, report."""

import threading
from collections.abc import Callable
from typing import cast

from edgeseg.errors import EdgesegError
from edgeseg.runtime.attach import attach_sinks
from edgeseg.runtime.backends.base import Backend, open_session
from edgeseg.runtime.capture.frame_buffer import Policy
from edgeseg.runtime.capture.source_spec import parse_source
from edgeseg.runtime.options import StreamOptions
from edgeseg.runtime.scoring.faults import Faults
from edgeseg.runtime.scoring.model_input import Roi
from edgeseg.runtime.scoring.pipeline import Pipeline, PipelineConfig
from edgeseg.runtime.scoring.report import build_report, report_text, write_report
from edgeseg.runtime.scoring.scorer import ScorerConfig
from edgeseg.runtime.scoring.verdict import Debounce

Say = Callable[[str], None]


def run_stream(
    options: StreamOptions, *, stop: threading.Event, say: Say, show_result: Say
) -> None:
    """Run until the end, then show and write the report; a failure is raised after that."""
    specs = [parse_source(text, realtime=options.realtime) for text in options.source]
    config = pipeline_config(options)
    with open_session(
        options.model,
        backend=cast(Backend, options.backend),
        threads=options.threads,
        allow_random_weights=options.allow_random_weights,
        say=say,
    ) as session:
        pipeline = Pipeline(session, specs, config=config, faults=Faults(say), stop=stop, say=say)
        try:
            attached = attach_sinks(pipeline, options, specs, stop=stop, say=say)
        except EdgesegError:
            pipeline.close_sinks()  # of the ones that were made before the mistake
            raise
        failure: EdgesegError | None = None
        try:
            pipeline.run()
        except EdgesegError as error:
            failure = error
        report = build_report(
            pipeline.snapshot(), session.metadata, drift=attached.drift_states(), failure=failure
        )
        if attached.log is not None:
            attached.log.write_last({"schema": report["schema"], "event": "run_end", **report})
        show_result(report_text(report))
        if options.report is not None:
            for path in write_report(options.report, report):
                say(f"wrote {path}")
        if failure is not None:
            raise failure


def pipeline_config(options: StreamOptions) -> PipelineConfig:
    """The part of the options that the loop needs, parsed."""
    return PipelineConfig(
        scorer=ScorerConfig(
            roi=Roi.parse(options.roi) if options.roi else None,
            tile_overlap=options.tile_overlap if options.tile else None,
            threshold=options.threshold,
            debounce=Debounce.parse(options.debounce),
        ),
        policy=cast(Policy | None, options.policy),
        queue_size=options.queue_size,
        stall_timeout_s=options.stall_timeout,
        duration_s=options.duration,
        max_frames=options.max_frames,
        status_every_s=options.status_every,
    )
