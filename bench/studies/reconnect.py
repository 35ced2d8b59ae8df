"""A camera killed and restarted, again and again.

    python -m edgeseg.bench.studies.reconnect --lives 20

Every frame carries a number, so the run can prove that each scored frame was sent by the camera,
once, in order; threads and descriptors are counted in every life.
"""

import argparse
import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path

from edgeseg.bench.studies.coded_camera import Camera, read_number
from edgeseg.bench.studies.loop_overhead import InstantSession
from edgeseg.runtime.capture.source_spec import parse_source
from edgeseg.runtime.records import FrameResult, SourceEvent
from edgeseg.runtime.scoring.faults import Faults
from edgeseg.runtime.scoring.pipeline import Pipeline, PipelineConfig

_PER_LIFE = 1_000_000


class Witness:
    """Reads the number of every scored frame."""

    name = "witness"

    def __init__(self) -> None:
        self.numbers: list[int | None] = []
        self.events: list[SourceEvent] = []

    def on_frame(self, result: FrameResult) -> None:
        """Note the number."""
        self.numbers.append(read_number(result.frame_hwc))

    def on_source(self, event: SourceEvent) -> None:
        """Note the event."""
        self.events.append(event)

    def close(self) -> None:
        """Nothing to release."""

    def times(self, kind: str) -> int:
        """How often a kind of event was seen."""
        return sum(event.kind == kind for event in list(self.events))


def _until(condition: Callable[[], bool], what: str) -> float:
    begin_s = time.monotonic()
    while not condition():
        if time.monotonic() - begin_s > 60:
            raise SystemExit(f"never happened: {what}")
        time.sleep(0.005)
    return time.monotonic() - begin_s


def run(lives: int, frames: int) -> None:
    """Kill and restart; print what was seen, and fail on anything wrong."""
    camera, witness, stop = Camera(fps=50), Witness(), threading.Event()
    pipeline = Pipeline(
        InstantSession(),
        [parse_source(camera.url)],
        config=PipelineConfig(status_every_s=0, stall_timeout_s=2.0),
        faults=Faults(print),
        stop=stop,
        say=lambda message: None,
    )
    pipeline.add_sink(witness)
    loop = threading.Thread(target=pipeline.run, daemon=True)
    held: list[tuple[int, int]] = []
    noticed_s, back_s = [], []
    try:
        camera.start(0)
        loop.start()
        for life in range(1, lives + 1):
            _enough(witness, frames, life)
            descriptors = len(list(Path("/proc/self/fd").iterdir()))
            held.append((threading.active_count(), descriptors))
            camera.kill()
            noticed_s.append(_lost(witness, life))
            camera.start(life * _PER_LIFE)
            back_s.append(_back(witness, life))
        _enough(witness, frames, lives + 1)
    finally:
        stop.set()
        loop.join(10)
        camera.kill()
    _judge(pipeline, witness, lives, held)
    print(f"loss noticed after {max(noticed_s):.2f} s, back {max(back_s):.2f} s after the start")


def _enough(witness: Witness, frames: int, life: int) -> None:
    goal = len(witness.numbers) + frames
    _until(lambda: len(witness.numbers) >= goal, f"{frames} frames in life {life}")


def _lost(witness: Witness, life: int) -> float:
    return _until(lambda: witness.times("source_lost") == life, f"loss {life}")


def _back(witness: Witness, life: int) -> float:
    return _until(lambda: witness.times("source_back") == life, f"return {life}")


def _judge(pipeline: Pipeline, witness: Witness, lives: int, held: list[tuple[int, int]]) -> None:
    numbers = witness.numbers
    (source,) = pipeline.snapshot().sources
    dropped = sum(source.dropped.values())
    fake = numbers.count(None)
    repeated = len(numbers) - len(set(numbers))
    seen_lives = {number // _PER_LIFE for number in numbers if number is not None}
    print(f"killed {lives} times, reconnected {source.reconnects} times")
    print(f"frames: {source.frames_in} in = {source.scored} scored + {dropped} dropped")
    print(f"made up or torn: {fake}; repeated: {repeated}; out of order: {_disorder(numbers)}")
    print(f"(threads, descriptors) in each life: {sorted(set(held))}")
    wrong = [
        source.reconnects != lives,
        source.frames_in != source.scored + dropped,
        fake or repeated or _disorder(numbers),
        len(seen_lives) != lives + 1,
        len(set(held)) != 1,
    ]
    if any(wrong):
        raise SystemExit("FAILED")


def _disorder(numbers: list[int | None]) -> int:
    known = [number for number in numbers if number is not None]
    return sum(after <= before for before, after in itertools.pairwise(known))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=int, default=20)
    parser.add_argument("--frames", type=int, default=20, help="scored in each life")
    options = parser.parse_args()
    run(options.lives, options.frames)
