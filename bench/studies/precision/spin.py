"""What it costs and saves that ONNX Runtime's idle threads stay awake (`--spin`).

    python -m edgeseg.bench.studies.precision.spin resnet18.onnx mobilenet.onnx --out spin.json

Each file has two sessions, opened as a stream opens them but for this option. They take turns: back
to back; at a camera's pace; the same beside a second camera on the same cores, beside a thread that
decodes pictures as a camera's driver does, and with a viewer of the live page. Run it on an idle
machine: it says if it was not. The table goes beside the JSON, as Markdown.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.bench.harness.machine import CoreWatch, describe, disturbance
from edgeseg.bench.harness.report import Report
from edgeseg.bench.harness.sampling import ratio_of
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.bench.studies.precision.watched_page import watched_page
from edgeseg.contract.prediction import Prediction
from edgeseg.files import write_json, write_text
from edgeseg.options import FILE, note
from edgeseg.runtime.backends.base import Session
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.session_options import SessionOptions

_UNCOUNTED = 3
_PICTURE_HW = (720, 1280)
Frames = NDArray[np.uint8]
Show = Callable[[Prediction], object]
# Of the second session of a kind: what runs beside the first, and who is shown its predictions.
Beside = Callable[[Session], AbstractContextManager[Show]]


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


def take(session: Session, frames: Frames, *, count: int, period_s: float, show: Show) -> Turn:
    """Some frames, one every `period_s` or as soon as the last is done."""
    samples: list[float] = []
    busy_s = time.process_time()
    for number in range(_UNCOUNTED + count):
        if number == _UNCOUNTED:
            busy_s = time.process_time()
        started = time.perf_counter()
        (prediction,) = session.infer(frames)
        took_s = time.perf_counter() - started
        show(prediction)
        if number >= _UNCOUNTED:
            samples.append(took_s * 1e3)
        time.sleep(max(0.0, period_s - took_s))
    return Turn(ms=samples, processor_ms=(time.process_time() - busy_s) * 1e3 / count)


def _nobody(prediction: Prediction) -> None:
    pass


@contextmanager
def meanwhile(work: Callable[[], object], *, period_s: float) -> Iterator[Show]:
    """Something else on the same cores, once every `period_s`."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.is_set():
            started = time.perf_counter()
            work()
            stop.wait(max(0.0, period_s - (time.perf_counter() - started)))

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield _nobody
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
        sessions = {spin: (self._open(spin), self._open(spin)) for spin in (False, True)}
        size_hw = sessions[False][0].metadata.size_hw
        frames = np.random.default_rng(0).integers(0, 256, (1, *size_hw, 3), np.uint8)
        for name, (pause_s, beside) in self._situations(frames).items():
            turns: dict[bool, list[Turn]] = {False: [], True: []}
            for number in range(self.pace.rounds):
                for spin in (bool(number % 2), not number % 2):
                    first, second = sessions[spin]
                    with beside(second) as show:
                        turns[spin].append(
                            take(first, frames, count=self.pace.frames, period_s=pause_s, show=show)
                        )
            yield row_of(self.model.stem, name, turns)

    def _situations(self, frames: Frames) -> dict[str, tuple[float, Beside]]:
        """Seconds from frame to frame, and what else goes on."""
        period_s = 1 / self.pace.fps
        picture = np.random.default_rng(1).integers(0, 256, (*_PICTURE_HW, 3), np.uint8)
        smooth = np.asarray(cv2.GaussianBlur(picture, (9, 9), 4), np.uint8)
        encoded = cv2.imencode(".jpg", smooth)[1]

        def second_camera(other: Session) -> AbstractContextManager[Show]:
            return meanwhile(lambda: other.infer(frames), period_s=period_s)

        def decoding(_: Session) -> AbstractContextManager[Show]:
            return meanwhile(lambda: cv2.imdecode(encoded, 1), period_s=period_s)

        return {
            "back to back": (0.0, lambda _: nullcontext(_nobody)),
            "streamed": (period_s, lambda _: nullcontext(_nobody)),
            "streamed, second camera": (period_s, second_camera),
            "streamed, decoding": (period_s, decoding),
            "streamed, live page": (period_s, lambda other: watched_page(other.metadata, smooth)),
        }

    def _open(self, spin: bool) -> Session:
        options = SessionOptions(
            backend="cpu", threads=self.threads, spin=spin, allow_random_weights=True
        )
        return open_session(self.model, options)


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
        "processor: of all threads of the process for a frame, those of what runs beside it "
        "included: second camera, decoder, or the live page and its one viewer."
    )
    return table_of("Idle threads awake or asleep, ONNX Runtime", rows, note=text)


def report_of(written: dict[str, Any]) -> Report:
    """What the JSON says, for people."""
    taken = written["cores_taken"]
    warning = disturbance(**taken)
    return Report(
        name="spin",
        title="What it saves and costs that idle threads stay awake",
        findings=(),
        tables=(table([Row(**row) for row in written["rows"]]),),
        figures=(),
        facts=written["facts"] | {"cores_taken": taken},
        notes=() if warning is None else (f"While timing, {warning}.",),
    )


@click.command()
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--rounds", type=click.IntRange(2), default=Pace.rounds, show_default=True)
@click.option("--threads", type=click.IntRange(1), help="Of each session. [default: all cores]")
@click.option("--out", type=FILE, help="JSON with all rows; a table goes beside it.")
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
        written = {"rows": rows, "facts": facts, "cores_taken": taken}
        write_json(out, written)
        readable = out.with_suffix(".md")
        write_text(readable, report_of(written).markdown())
        note(f"wrote {out} and {readable}")


if __name__ == "__main__":
    main()
