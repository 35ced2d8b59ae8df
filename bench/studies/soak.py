"""A source faster than the model, for as long as you like.

    python -m edgeseg.bench.studies.soak --minutes 10

Memory must stay flat, the age of scored frames bounded by one inference plus one frame, and every
frame accounted for: in = scored + dropped.
"""

import argparse
import gc
import os
import threading
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.bench.studies.loop_overhead import InstantSession
from edgeseg.runtime.backends.base import Outputs
from edgeseg.runtime.capture.captures import Capture, Grab, Pace, Wait
from edgeseg.runtime.capture.sources import SourceSpec
from edgeseg.runtime.scoring.meters import Faults
from edgeseg.runtime.scoring.pipeline import Pipeline, PipelineConfig
from edgeseg.runtime.sinks.event_log import EventLog


class SlowSession(InstantSession):
    """Takes its time, as a model on a device does, without taking the processor."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def _run(self, frames_nhwc: NDArray[np.uint8]) -> Outputs:
        time.sleep(self._seconds)
        return super()._run(frames_nhwc)


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
    """Memory every few seconds until the time is over; then stop the run."""
    samples = []
    end_s = time.monotonic() + seconds
    while not stop.wait(2.0) and time.monotonic() < end_s:
        gc.collect()
        samples.append(resident_mb())
    stop.set()
    return samples


def run(*, minutes: float, fps: float, infer_ms: float) -> None:
    """Soak, print, and fail on a leak, an old frame or a lost count."""

    def opener(spec: SourceSpec, *, wait: Wait, timeout_s: float) -> Capture:
        return FastCamera(fps, wait=wait)

    stop, faults = threading.Event(), Faults(print)
    pipeline = Pipeline(
        SlowSession(infer_ms / 1000),
        [SourceSpec(kind="device", text="", name="fast", live=True, reconnects=True)],
        config=PipelineConfig(status_every_s=30.0),
        faults=faults,
        stop=stop,
        note=print,
        opener=opener,
    )
    pipeline.add_sink(EventLog("/dev/null", only_alarms=False, on_error=faults.count))
    loop = threading.Thread(target=pipeline.run, daemon=True)
    loop.start()
    samples = watch(stop, minutes * 60)
    loop.join(10)
    _judge(pipeline, samples, fps=fps)


def _judge(pipeline: Pipeline, samples: list[float], *, fps: float) -> None:
    snapshot = pipeline.snapshot()
    (source,) = snapshot.sources
    dropped = sum(source.dropped.values())
    age, infer = snapshot.stages["capture_age"], snapshot.stages["infer"]
    total = snapshot.stages["end_to_end"]
    third = max(1, len(samples) // 3)
    first, last = np.mean(samples[:third]), np.mean(samples[-third:])
    bound_ms = 1000 / fps + infer.p50
    print(f"{snapshot.uptime_s:.0f} s, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"frames: {source.frames_in} in = {source.scored} scored + {dropped} dropped")
    print(f"dropped by cause: {dict(source.dropped)}")
    print(f"age when scoring begins: p50 {age.p50:.2f} p99 {age.p99:.2f} max {age.max:.2f} ms")
    print(f"end to end: p50 {total.p50:.2f} p99 {total.p99:.2f} max {total.max:.2f} ms")
    print(f"one frame {1000 / fps:.2f} ms + one inference p50 {infer.p50:.2f} ms = {bound_ms:.2f}")
    print(f"memory: first third {first:.1f} MB, last third {last:.1f} MB, {len(samples)} samples")
    if source.frames_in != source.scored + dropped or last - first > 5.0:
        raise SystemExit("FAILED")
    if age.p99 > bound_ms:
        raise SystemExit("FAILED: scored frames are older than one frame and one inference")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--fps", type=float, default=120.0)
    parser.add_argument("--infer-ms", type=float, default=20.0)
    options = parser.parse_args()
    run(minutes=options.minutes, fps=options.fps, infer_ms=options.infer_ms)
