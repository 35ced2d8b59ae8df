"""How long one frame takes: all candidates in one process, in turns, with warm-up."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.bench.harness.sampling import percentiles, ratio_of
from edgeseg.bench.latency.runners import Feed, Runner, open_runner, size_on_disk
from edgeseg.errors import UsageError
from edgeseg.progress import Progress, silent

# After another candidate's turn the caches hold its weights, and its threads may still be
# spinning: the first runs of a turn are not counted.
UNCOUNTED = 3


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

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 1:
                raise UsageError(f"{name}={value}: expected at least 1")


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Milliseconds of one candidate."""

    key: str
    backend: str
    precision: str
    size_bytes: int
    host_ms: NDArray[np.float64]  # (rounds, turn): feed on the host to outputs on the host
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
            "size_bytes": self.size_bytes,
            "host_ms": host,
            "fps": 1e3 / host["p50"],
            "ratio": asdict(ratio_of(self.host_ms, reference.host_ms)),
            "prepare_ms": float(np.median(self.prepare_ms)),
            "device_ms": device,
            "samples_ms": np.round(self.host_ms, 4).tolist(),
        }


def measure_latency(
    candidates: Sequence[Candidate],
    *,
    schedule: Schedule,
    threads: int,
    size_hw: tuple[int, int] = (256, 256),
    progress: Progress = silent,
) -> list[Timing]:
    """Time all candidates in interleaved rounds, so that whatever the machine does hits each."""
    keys = [candidate.key for candidate in candidates]
    if not keys or len(set(keys)) != len(keys):
        raise UsageError(f"candidates {keys}: expected one or more, each named once")
    turns = [_Turns(candidate, threads=threads, size_hw=size_hw) for candidate in candidates]
    for turn in turns:
        turn.warm_up(schedule.warmup)
    steps = progress(range(schedule.rounds), length=schedule.rounds, label="Timing")
    for number in steps:
        # Another order each round: nobody always follows the same neighbour.
        for index in np.random.default_rng(number).permutation(len(turns)):
            turns[index].take(schedule.turn)
    return [turn.timing() for turn in turns]


class _Turns:
    """One candidate, loaded, with its samples so far."""

    def __init__(self, candidate: Candidate, *, threads: int, size_hw: tuple[int, int]) -> None:
        self._candidate = candidate
        self._runner: Runner = open_runner(
            candidate.path, backend=candidate.backend, threads=threads, size_hw=size_hw
        )
        rng = np.random.default_rng(0)
        self._frame_hwc = rng.integers(0, 256, (*self._runner.size_hw, 3), np.uint8)
        self._feed: Feed = self._runner.prepare(self._frame_hwc)
        self._device = self._runner.on_device(self._feed)
        self._host: list[list[float]] = []
        self._on_device: list[list[float]] = []
        self._prepare: list[float] = []

    def warm_up(self, count: int) -> None:
        _timed(lambda: self._runner.run(self._feed), count)

    def take(self, count: int) -> None:
        samples = _timed(lambda: self._runner.run(self._feed), UNCOUNTED + count)
        self._host.append(samples[UNCOUNTED:])
        prepared = _timed(lambda: self._runner.prepare(self._frame_hwc), 3)
        self._prepare.append(float(np.median(prepared)))
        if self._device is not None:
            self._on_device.append(_timed(self._device.run, UNCOUNTED + count)[UNCOUNTED:])

    def timing(self) -> Timing:
        return Timing(
            key=self._candidate.key,
            backend=self._runner.backend,
            precision=self._runner.precision,
            size_bytes=size_on_disk(self._candidate.path),
            host_ms=np.array(self._host),
            prepare_ms=np.array(self._prepare),
            device_ms=np.array(self._on_device) if self._on_device else None,
        )


def _timed(run: Callable[[], object], count: int) -> list[float]:
    samples = []
    for _ in range(count):
        started = time.perf_counter_ns()
        run()
        samples.append((time.perf_counter_ns() - started) / 1e6)
    return samples
