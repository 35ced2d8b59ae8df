"""A source faster than the model, for as long as you like.

    python -m tests.endurance.soak --minutes 10

Memory must stay flat, the age of scored frames bounded by one inference plus one frame, and every
frame accounted for: in = scored + dropped.
"""

import gc
import os
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from edgeseg.base.options import note
from edgeseg.runtime.backends.session_options import available_cores
from edgeseg.runtime.capture.captures import Capture, Grab, Pace, Wait
from edgeseg.runtime.capture.sources import SourceSpec
from edgeseg.runtime.events.records import PipelineSnapshot, SourceState
from edgeseg.runtime.scoring.meters import Faults
from edgeseg.runtime.scoring.pipeline import Pipeline, PipelineConfig
from edgeseg.runtime.sinks.event_log import EventLog
from tests.doubles.fakes import BrightnessSession

LEAK_MB = 5.0  # growth of memory between the first and the last third of a soak


class FastCamera:
    """New frames of 720p at a steady rate."""

    def __init__(self, fps: float, *, wait: Wait) -> None:
        self.fps = fps
        self._pace = Pace(fps, wait=wait)

    def read(self) -> Grab | None:
        """A new array every time, as a camera gives."""
        if self._pace.ending():
            return None
        return Grab(np.zeros((720, 1280, 3), np.uint8), "bgr", time.monotonic_ns(), time.time())

    def close(self) -> None:
        """Nothing is held."""


def resident_mb() -> float:
    """Memory of this process that is in RAM."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def watch(stop: threading.Event, seconds: float) -> list[float]:
    """Memory, every two seconds or ten times, until the time is over; then stop the run."""
    samples = []
    end_s, over = time.monotonic() + seconds, False
    while not over:
        over = stop.wait(min(2.0, seconds / 10)) or time.monotonic() >= end_s
        gc.collect()
        samples.append(resident_mb())
    stop.set()
    return samples


@dataclass(frozen=True, kw_only=True)
class Soaked:
    """What a soak saw."""

    snapshot: PipelineSnapshot
    memory_mb: tuple[float, ...]
    fps: float

    @property
    def source(self) -> SourceState:
        """The only one."""
        return self.snapshot.sources[0]

    @property
    def dropped(self) -> int:
        """Frames that were not scored."""
        return sum(self.source.dropped.values())

    @property
    def bound_ms(self) -> float:
        """How old a frame may be when scoring begins: one frame and one inference."""
        return 1000 / self.fps + self.snapshot.stages["infer"].p50

    @property
    def memory_ends_mb(self) -> tuple[float, float]:
        """Means of the first and of the last third of the samples."""
        third = max(1, len(self.memory_mb) // 3)
        first, last = self.memory_mb[:third], self.memory_mb[-third:]
        return statistics.fmean(first), statistics.fmean(last)

    def failures(self) -> Iterator[str]:
        """A lost count, a leak, old frames."""
        if self.source.frames_in != self.source.scored + self.dropped:
            yield "frames are not accounted for: in is not scored + dropped"
        first, last = self.memory_ends_mb
        if last - first > LEAK_MB:
            yield f"memory grew by {last - first:.1f} MB, expected at most {LEAK_MB:.0f}"
        if self.snapshot.stages["capture_age"].p99 > self.bound_ms:
            yield "scored frames are older than one frame and one inference"

    def lines(self) -> Iterator[str]:
        """All of it as people read it."""
        state, source = self.snapshot, self.source
        age, infer, total = (state.stages[s] for s in ("capture_age", "infer", "end_to_end"))
        first, last = self.memory_ends_mb
        yield f"{state.uptime_s:.0f} s, load {os.getloadavg()[0]:.1f} on {available_cores()} cores"
        yield f"frames: {source.frames_in} in = {source.scored} scored + {self.dropped} dropped"
        yield f"dropped by cause: {dict(source.dropped)}"
        yield f"age when scoring begins: p50 {age.p50:.2f} p99 {age.p99:.2f} max {age.max:.2f} ms"
        yield f"end to end: p50 {total.p50:.2f} p99 {total.p99:.2f} max {total.max:.2f} ms"
        yield (
            f"one frame {1000 / self.fps:.2f} ms + one inference p50 {infer.p50:.2f} ms = "
            f"{self.bound_ms:.2f}"
        )
        yield (
            f"memory: first third {first:.1f} MB, last third {last:.1f} MB, "
            f"{len(self.memory_mb)} samples"
        )


def soak(*, minutes: float, fps: float, infer_ms: float) -> Soaked:
    """Run a camera of `fps` into a model that takes `infer_ms` for a frame."""

    def opener(spec: SourceSpec, *, wait: Wait, timeout_s: float) -> Capture:
        return FastCamera(fps, wait=wait)

    stop, faults = threading.Event(), Faults(note)
    pipeline = Pipeline(
        BrightnessSession(meanwhile=lambda: time.sleep(infer_ms / 1000)),
        [SourceSpec(kind="device", text="", name="fast", live=True, reconnects=True)],
        config=PipelineConfig(queue_size=8, stall_timeout_s=5.0, status_every_s=30.0),
        faults=faults,
        stop=stop,
        note=note,
        opener=opener,
    )
    pipeline.add_sink(EventLog("/dev/null", only_alarms=False, sync="never", on_error=faults.count))
    loop = threading.Thread(target=pipeline.run, daemon=True)
    loop.start()
    memory_mb = watch(stop, minutes * 60)
    loop.join(10)
    return Soaked(snapshot=pipeline.snapshot(), memory_mb=tuple(memory_mb), fps=fps)


@click.command(context_settings={"show_default": True})
@click.option("--minutes", type=click.FloatRange(0.001), default=10.0)
@click.option("--fps", type=click.FloatRange(1), default=120.0, help="Of the camera.")
@click.option("--infer-ms", type=click.FloatRange(0), default=20.0, help="Of the model, a frame.")
def main(minutes: float, fps: float, infer_ms: float) -> None:
    """Soak, print what was seen, and fail on a leak, an old frame or a lost count."""
    soaked = soak(minutes=minutes, fps=fps, infer_ms=infer_ms)
    for line in soaked.lines():
        click.echo(line)
    failures = list(soaked.failures())
    if failures:
        raise SystemExit(f"FAILED: {'; '.join(failures)}")


if __name__ == "__main__":
    main()
