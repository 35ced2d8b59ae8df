"""What the loop itself costs per frame, beside reading, scaling and inference.

    python -m edgeseg.bench.studies.line.loop_overhead

A model that answers at once and frames of 8x8 pixels leave only bookkeeping: buffer, counters,
histograms, verdict, regions, result. The budget is 2 % of a 2 ms frame: 40 microseconds.
"""

import os
import statistics
import threading
import time

import click
import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.metadata import (
    BackboneFacts,
    DriftBaseline,
    InputFormat,
    ModelMetadata,
    Normalisation,
    Thresholds,
)
from edgeseg.contract.score_statistics import ScoreStatistics
from edgeseg.progress import ignore
from edgeseg.runtime.backends.base import Outputs, Session
from edgeseg.runtime.backends.session_options import available_cores
from edgeseg.runtime.capture.captures import Capture, Grab, Wait
from edgeseg.runtime.capture.frame_buffer import Frame
from edgeseg.runtime.capture.sources import SourceSpec
from edgeseg.runtime.scoring.meters import Faults
from edgeseg.runtime.scoring.pipeline import Pipeline, PipelineConfig
from edgeseg.runtime.sinks.event_log import frame_event

BUDGET_US = 40.0
SIZE_HW = (8, 8)


class InstantSession(Session):
    """Returns the same arrays for every frame."""

    backend = "nothing"

    def __init__(self) -> None:
        self.metadata = _metadata()
        rng = np.random.default_rng(0)
        self._maps = rng.random((1, *SIZE_HW), dtype=np.float32)
        self._scores = np.array([0.9], np.float32)

    def _run(self, frames_nhwc: NDArray[np.uint8]) -> Outputs:
        return self._maps, self._scores, None


def _metadata() -> ModelMetadata:
    return ModelMetadata(
        name="instant",
        input=InputFormat(
            name="frames", layout="NHWC", channels="RGB", size_hw=SIZE_HW, batch=(1, 1, 1)
        ),
        outputs=("map", "score"),
        preprocess=Normalisation(mean=(), std=(), inside_graph=True),
        threshold=Thresholds(score=2.0, pixel=2.0, false_alarm_rate=0.01, method="made up"),
        good_scores=ScoreStatistics(count=1, mean=0.0, std=0.0, min=0.0, max=0.0),
        drift=DriftBaseline(d2_mean=((1.0,),), d2_std=((1.0,),), frame_mean=1.0, frame_std=1.0),
        grid_hw=(32, 32),
        k=1,
        rank=1,
        backbone=BackboneFacts(name="none", weights_sha256="", random_weights=False),
        artefact_sha256="",
        precision="fp32",
        target="cpu",
    )


class Endless:
    """The same frame again and again, without any work."""

    fps = 0.0

    def __init__(self, count: int) -> None:
        self._left = count
        self._image = np.zeros((*SIZE_HW, 3), np.uint8)

    def read(self) -> Grab | None:
        """One frame."""
        self._left -= 1
        if self._left < 0:
            return None
        return Grab(self._image, "rgb", time.monotonic_ns(), 0.0)

    def close(self) -> None:
        """Nothing is held."""


def make_pipeline(count: int) -> Pipeline:
    """A pipeline whose only work is its own."""

    def opener(spec: SourceSpec, *, wait: Wait, timeout_s: float) -> Capture:
        return Endless(count)

    return Pipeline(
        InstantSession(),
        [SourceSpec(kind="video", text="", name="endless", live=False)],
        config=PipelineConfig(queue_size=8, stall_timeout_s=5.0),
        faults=Faults(ignore),
        stop=threading.Event(),
        note=ignore,
        opener=opener,
    )


def one_thread_us(frames: int) -> dict[str, tuple[float, float]]:
    """p10 and p50 in microseconds of each step, in the scoring thread alone.

    p10 is what a step costs when no other program takes its processor away.
    """
    pipeline = make_pipeline(0)
    image = np.zeros((*SIZE_HW, 3), np.uint8)
    steps: dict[str, list[float]] = {"buffer": [], "scoring": [], "hand on": [], "event line": []}
    for index in range(frames):
        frame = Frame(
            source_index=0,
            frame_index=index,
            image_hwc=image,
            channels="rgb",
            grabbed_ns=time.monotonic_ns(),
            wall_s=0.0,
        )
        marks = [time.perf_counter_ns()]
        pipeline.buffer.put(frame)
        taken = pipeline.buffer.take(1, timeout_s=1.0)
        marks.append(time.perf_counter_ns())
        (result,) = pipeline.scorer.score(taken)
        marks.append(time.perf_counter_ns())
        pipeline.buffer.count_scored(0)
        pipeline._pass_on(result)
        pipeline._room()
        pipeline.tick()
        marks.append(time.perf_counter_ns())
        frame_event(result)
        marks.append(time.perf_counter_ns())
        for name, begin, end in zip(steps, marks, marks[1:], strict=False):
            steps[name].append((end - begin) / 1e3)
    return {
        name: (statistics.quantiles(values, n=10)[0], statistics.median(values))
        for name, values in steps.items()
    }


@click.command()
@click.option("--frames", type=click.IntRange(2), default=5000, show_default=True)
def main(frames: int) -> None:
    """Measure what the loop costs per frame, and fail over the budget."""
    one_thread_us(200)  # warm up
    steps = one_thread_us(frames)
    click.echo(f"load of the computer: {os.getloadavg()[0]:.1f} on {available_cores()} cores")
    for name, (p10, p50) in steps.items():
        click.echo(f"{name:12} {p10:7.1f} us p10 {p50:7.1f} us p50")
    low, middle = (
        sum(steps[name][place] for name in ("buffer", "scoring", "hand on")) for place in (0, 1)
    )
    click.echo(f"bookkeeping  {low:7.1f} us p10 {middle:7.1f} us p50 per frame")
    click.echo(f"of a 2 ms frame: {low / 2000:.2%} p10, {middle / 2000:.2%} p50; budget 2.00 %")
    pipeline = make_pipeline(frames)
    begin = time.perf_counter()
    pipeline.run()
    per_frame_us = (time.perf_counter() - begin) / frames * 1e6
    click.echo(f"whole loop with its reader, nothing left out: {per_frame_us:.1f} us per frame")
    if low > BUDGET_US:
        raise SystemExit(f"over the budget of {BUDGET_US} us")


if __name__ == "__main__":
    main()
