"""A pipeline that scores a live source while a test disturbs it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from edgeseg.base.progress import ignore
from edgeseg.runtime.capture.sources import parse_source
from edgeseg.runtime.scoring.meters import Faults
from edgeseg.runtime.scoring.pipeline import Pipeline, PipelineConfig
from tests.doubles.fakes import BrightnessSession, Collect
from tests.support import HANGS_S


@contextmanager
def running_pipeline(source: str, *, stall_timeout_s: float) -> Iterator[tuple[Pipeline, Collect]]:
    """Score the frames of a source in a thread, which ends with the block."""
    stop, sink = threading.Event(), Collect()
    pipeline = Pipeline(
        BrightnessSession(),
        [parse_source(source)],
        config=PipelineConfig(queue_size=8, stall_timeout_s=stall_timeout_s),
        faults=Faults(ignore),
        stop=stop,
        note=ignore,
    )
    pipeline.add_sink(sink)
    loop = threading.Thread(target=pipeline.run)
    loop.start()
    try:
        yield pipeline, sink
    finally:
        stop.set()
        loop.join(HANGS_S)
    assert not loop.is_alive()
