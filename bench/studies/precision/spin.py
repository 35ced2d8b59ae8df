"""What it costs and saves that ONNX Runtime's idle threads stay awake (`--spin`).

    python -m edgeseg.bench.studies.precision.spin resnet18.onnx mobilenet.onnx --out spin.json

Each file has two sessions, opened as a stream opens them but for this option. They take turns: back
to back; at a camera's pace; the same beside a second camera on the same cores, and beside a thread
that decodes pictures as a camera's driver does. Run it on an idle machine: it says if it was not.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.bench.harness.machine import CoreWatch, describe
from edgeseg.bench.harness.sampling import ratio_of
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.files import write_json
from edgeseg.options import FILE, note
from edgeseg.runtime.backends.base import Session
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.session_options import SessionOptions

_UNCOUNTED = 3
_PICTURE_HW = (720, 1280)
Frames = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long to measure."""

    rounds: int = 20
    frames: int = 15  # counted, of each session in each round
    fps: float = 30.0


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Frames of one session in one round."""

    ms: list[float]
    processor_ms: float  # of all threads of this process, for each frame


@dataclass(frozen=True, kw_only=True)
class Row:
    """One file in one situation, asleep and awake between frames."""

    model: str = field(metadata=column("model"))
    beside: str = field(metadata=column("situation"))
    asleep_ms: float = field(metadata=column("p50 ms, no spin", digits=2))
    awake_ms: float = field(metadata=column("p50 ms, spin", digits=2))
    saved_ms: float = field(metadata=column("saved ms", digits=2, signed=True))
    ratio: str = field(metadata=column("spin / no spin (95 %)"))
    asleep_processor_ms: float = field(metadata=column("processor ms, no spin", digits=2))
    awake_processor_ms: float = field(metadata=column("processor ms, spin", digits=2))


def take(session: Session, frames: Frames, *, count: int, period_s: float) -> Turn:
    """Some frames, one every `period_s` or as soon as the last is done."""
    samples: list[float] = []
    busy_s = time.process_time()
    for number in range(_UNCOUNTED + count):
        if number == _UNCOUNTED:
            busy_s = time.process_time()
        started = time.perf_counter()
        session.infer(frames)
        took_s = time.perf_counter() - started
        if number >= _UNCOUNTED:
            samples.append(took_s * 1e3)
        time.sleep(max(0.0, period_s - took_s))
    return Turn(ms=samples, processor_ms=(time.process_time() - busy_s) * 1e3 / count)


@contextmanager
def meanwhile(work: Callable[[], object] | None, *, period_s: float) -> Iterator[None]:
    """Something else on the same cores, once every `period_s`."""
    if work is None:
        yield
        return
    stop = threading.Event()

    def repeat() -> None:
        while not stop.is_set():
            started = time.perf_counter()
            work()
            stop.wait(max(0.0, period_s - (time.perf_counter() - started)))

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The two sessions of one file, and a second of each kind for a second camera."""

    model: Path
    threads: int | None
    pace: Pace

    def rows(self) -> Iterator[Row]:
        """Every situation."""
        sessions = {spin: [self._open(spin), self._open(spin)] for spin in (False, True)}
        size_hw = sessions[False][0].metadata.size_hw
        rng = np.random.default_rng(0)
        frames = rng.integers(0, 256, (1, *size_hw, 3), np.uint8)
        picture = rng.integers(0, 256, (*_PICTURE_HW, 3), np.uint8)
        encoded = cv2.imencode(".jpg", cv2.GaussianBlur(picture, (9, 9), 4))[1]
        period_s = 1 / self.pace.fps
        situations: dict[str, tuple[float, Callable[[Session], Callable[[], object]] | None]] = {
            "back to back": (0.0, None),
            "streamed": (period_s, None),
            "streamed, second camera": (period_s, lambda other: lambda: other.infer(frames)),
            "streamed, decoding": (period_s, lambda _: lambda: cv2.imdecode(encoded, 1)),
        }
        for name, (pause_s, other) in situations.items():
            turns: dict[bool, list[Turn]] = {False: [], True: []}
            for number in range(self.pace.rounds):
                for spin in (bool(number % 2), not number % 2):
                    first, second = sessions[spin]
                    work = None if other is None else other(second)
                    with meanwhile(work, period_s=period_s):
                        turn = take(first, frames, count=self.pace.frames, period_s=pause_s)
                    turns[spin].append(turn)
            yield row_of(self.model.stem, name, turns)

    def _open(self, spin: bool) -> Session:
        options = SessionOptions(threads=self.threads, spin=spin)
        return open_session(self.model, backend="cpu", options=options, allow_random_weights=True)


def row_of(model: str, beside: str, turns: dict[bool, list[Turn]]) -> Row:
    """Medians, and the ratio round by round."""
    ms = {spin: np.array([turn.ms for turn in each]) for spin, each in turns.items()}
    processor = {
        spin: float(np.median([turn.processor_ms for turn in each])) for spin, each in turns.items()
    }
    asleep, awake = (float(np.median(ms[spin])) for spin in (False, True))
    return Row(
        model=model,
        beside=beside,
        asleep_ms=asleep,
        awake_ms=awake,
        saved_ms=asleep - awake,
        ratio=ratio_of(ms[True], ms[False]).text,
        asleep_processor_ms=processor[False],
        awake_processor_ms=processor[True],
    )


def table(rows: Sequence[Row]) -> Table:
    """For people."""
    text = (
        "processor: of all threads of the process for a frame, the second camera's and the "
        "decoder's included."
    )
    return table_of("Idle threads awake or asleep, ONNX Runtime", rows, note=text)


@click.command()
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--rounds", type=click.IntRange(2), default=Pace.rounds, show_default=True)
@click.option("--threads", type=click.IntRange(1), help="Of each session. [default: all cores]")
@click.option("--out", type=FILE, help="JSON with all rows.")
def main(models: tuple[Path, ...], rounds: int, threads: int | None, out: Path | None) -> None:
    """Time MODELS, exported by edgeseg, with and without spinning threads."""
    pace = Pace(rounds=rounds)
    with CoreWatch() as cores:
        measured = [
            row for model in models for row in Pair(model=model, threads=threads, pace=pace).rows()
        ]
    click.echo(table(measured).markdown())
    if cores.warning is not None:
        note(cores.warning)
    if out is not None:
        facts = describe(threads=SessionOptions(threads=threads).thread_count)
        taken = {"others": cores.others, "stolen": cores.stolen}
        rows = [asdict(row) for row in measured]
        write_json(out, {"rows": rows, "facts": facts, "cores_taken": taken})
        note(f"wrote {out}")


if __name__ == "__main__":
    main()
