"""How long one frame takes: all candidates in one process, in turns, with warm-up.

Back to back, as a folder of images is scored, and streamed: between two frames of a camera threads
fall asleep and caches are filled by others.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.progress import Progress, silent
from edgeseg.bench.harness.sampling import percentiles, ratio_of
from edgeseg.bench.latency.runners import Feed, Runner, open_runner, size_on_disk
from edgeseg.runtime.backends.session_options import SessionOptions

# After another candidate's turn the caches hold its weights, and its threads may still be
# spinning: the first runs of a turn are not counted.
UNCOUNTED = 3
_UNCOUNTED_STREAMED = 1  # the candidate has just run


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A model file on a backend, under the name it has in tables."""

    name: str
    path: Path
    backend: str = "cpu"

    @property
    def key(self) -> str:
        """Unique among candidates."""
        return f"{self.name} on {self.backend}"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long to measure: rounds of one turn per candidate."""

    rounds: int = 30
    turn: int = 10  # counted runs in each turn
    warmup: int = 20
    streamed: int = 5  # counted frames in each turn that come as from a camera
    fps: float = 30.0  # of that camera

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 1:
                raise UsageError(Setting(name, value), ": expected at least 1")


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Milliseconds of one candidate."""

    key: str
    backend: str
    precision: str
    arithmetic: str
    spin: bool | None
    size_bytes: int
    host_ms: NDArray[np.float64]  # (rounds, turn): feed on the host to outputs on the host
    processor_ms: NDArray[np.float64]  # (rounds,): of all threads, for each of these frames
    streamed_ms: NDArray[np.float64]  # (rounds, streamed): the same at a camera's pace
    streamed_processor_ms: NDArray[np.float64]  # (rounds,): up to the next frame
    prepare_ms: NDArray[np.float64]  # (rounds,): uint8 frame to what the graph takes
    device_ms: NDArray[np.float64] | None  # (rounds, turn): buffers stay on the GPU

    def to_dict(self, reference: "Timing") -> dict[str, Any]:
        """Percentiles, the ratio to the reference and the raw samples, as plain JSON values."""
        host = percentiles(self.host_ms)
        device = None if self.device_ms is None else percentiles(self.device_ms)
        return {
            "key": self.key,
            "backend": self.backend,
            "precision": self.precision,
            "arithmetic": self.arithmetic,
            "spin": self.spin,
            "size_bytes": self.size_bytes,
            "host_ms": host,
            "fps": 1e3 / host["p50"],
            "ratio": asdict(ratio_of(self.host_ms, reference.host_ms)),
            "processor_ms": float(np.median(self.processor_ms)),
            "streamed_ms": percentiles(self.streamed_ms),
            "streamed_processor_ms": float(np.median(self.streamed_processor_ms)),
            "prepare_ms": float(np.median(self.prepare_ms)),
            "device_ms": device,
            "samples_ms": np.round(self.host_ms, 4).tolist(),
            "streamed_samples_ms": np.round(self.streamed_ms, 4).tolist(),
        }


def measure_latency(
    candidates: Sequence[Candidate],
    *,
    schedule: Schedule,
    options: SessionOptions,
    size_hw: tuple[int, int] = (256, 256),
    progress: Progress = silent,
) -> list[Timing]:
    """Time all candidates in interleaved rounds, so that whatever the machine does hits each."""
    keys = [candidate.key for candidate in candidates]
    if not keys or len(set(keys)) != len(keys):
        raise UsageError(f"candidates {keys}: expected one or more, each named once")
    turns = [_Turns(candidate, options, size_hw=size_hw) for candidate in candidates]
    for turn in turns:
        turn.warm_up(schedule.warmup)
    steps = progress(range(schedule.rounds), length=schedule.rounds, label="Timing")
    for number in steps:
        # Another order each round: nobody always follows the same neighbour.
        for index in np.random.default_rng(number).permutation(len(turns)):
            turns[index].take(schedule)
    return [turn.timing() for turn in turns]


class _Turns:
    """One candidate, loaded, with its samples so far."""

    def __init__(
        self, candidate: Candidate, options: SessionOptions, *, size_hw: tuple[int, int]
    ) -> None:
        self._candidate = candidate
        self._runner: Runner = open_runner(
            candidate.path, backend=candidate.backend, options=options, size_hw=size_hw
        )
        rng = np.random.default_rng(0)
        self._frame_hwc = rng.integers(0, 256, (*self._runner.size_hw, 3), np.uint8)
        self._feed: Feed = self._runner.prepare(self._frame_hwc)
        self._device = self._runner.on_device(self._feed)
        self._host: list[_Samples] = []
        self._streamed: list[_Samples] = []
        self._on_device: list[_Samples] = []
        self._prepare: list[float] = []

    def warm_up(self, count: int) -> None:
        _timed(self._run, count)

    def take(self, schedule: Schedule) -> None:
        """Some frames back to back, then some at the pace of a camera."""
        self._host.append(_timed(self._run, schedule.turn, uncounted=UNCOUNTED))
        pace = 1 / schedule.fps
        self._streamed.append(
            _timed(self._run, schedule.streamed, uncounted=_UNCOUNTED_STREAMED, period_s=pace)
        )
        prepared = _timed(lambda: self._runner.prepare(self._frame_hwc), 3)
        self._prepare.append(float(np.median(prepared.ms)))
        if self._device is not None:
            self._on_device.append(_timed(self._device.run, schedule.turn, uncounted=UNCOUNTED))

    def timing(self) -> Timing:
        runner = self._runner
        return Timing(
            key=self._candidate.key,
            backend=runner.backend,
            precision=runner.precision,
            arithmetic=runner.arithmetic,
            spin=runner.spin,
            size_bytes=size_on_disk(self._candidate.path),
            host_ms=np.array([samples.ms for samples in self._host]),
            processor_ms=np.array([samples.processor_ms for samples in self._host]),
            streamed_ms=np.array([samples.ms for samples in self._streamed]),
            streamed_processor_ms=np.array([samples.processor_ms for samples in self._streamed]),
            prepare_ms=np.array(self._prepare),
            device_ms=np.array([samples.ms for samples in self._on_device])
            if self._on_device
            else None,
        )

    def _run(self) -> object:
        return self._runner.run(self._feed)


class _Samples(NamedTuple):
    ms: list[float]
    processor_ms: float  # of all threads of this process, per call


def _timed(
    run: Callable[[], object], count: int, *, uncounted: int = 0, period_s: float = 0.0
) -> _Samples:
    """Calls, one every `period_s` or as soon as the last is done."""
    samples: list[float] = []
    busy_s = 0.0
    for number in range(uncounted + count):
        if number == uncounted:
            busy_s = time.process_time()
        started = time.perf_counter_ns()
        run()
        ended = time.perf_counter_ns()
        if number >= uncounted:
            samples.append((ended - started) / 1e6)
        idle_s = period_s - (ended - started) / 1e9
        if idle_s > 0:
            time.sleep(idle_s)
    return _Samples(samples, (time.process_time() - busy_s) * 1e3 / count)
