"""`edgeseg bench latency`: timings and cold starts of model files, and the table of them."""

import importlib.util
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from edgeseg.bench.harness.figures import bars
from edgeseg.bench.harness.machine import CoreWatch, describe, disturbance
from edgeseg.bench.harness.report import Figure, Report, write_report
from edgeseg.bench.harness.sampling import Ratio
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.bench.harness.units import Done, Result, Store, Unit, run_units
from edgeseg.bench.latency.cold_start import cold_start
from edgeseg.bench.latency.turns import Candidate, Schedule, measure_latency
from edgeseg.computer import processor_name
from edgeseg.errors import RuntimeFailure, UsageError
from edgeseg.files import file_sha256
from edgeseg.progress import Note, Progress, silent
from edgeseg.runtime.backends.session_options import SessionOptions

NOTE = (
    "p50, p95, p99: one frame, feed on the host to outputs on the host, back to back, over all "
    "rounds; streamed: at the pace of a camera. processor: of all threads for a streamed frame, up "
    "to the next one. spin: whether idle threads of ONNX Runtime stay awake. arithmetic: what is "
    "computed where the file itself does not round. "
    "time / first: median over rounds of the ratio to the first row, below 1 is faster. prepare: "
    "turning a uint8 frame into what the graph takes, not part of p50. device: without copies to "
    "and from the GPU. cold start: a fresh Python process up to its first answer. memory: what "
    "loading and running added to that process."
)
# Metadata of a row's field: beside p50, what a camera's pace makes of it. Older results have none.
STREAMED_COLUMNS = column("{}", digits=2, better="low")
_STREAMED = ("streamed p50 ms", "processor ms")
SPIN = {True: "yes", False: "no", None: None}


@dataclass(frozen=True, kw_only=True)
class SpeedRow:
    """One model on one backend."""

    model: str = field(metadata=column("model"))
    backend: str = field(metadata=column("backend"))
    precision: str = field(metadata=column("precision"))
    arithmetic: str = field(metadata=column("arithmetic"))
    spin: str | None = field(metadata=column("spin"))
    megabytes: float = field(metadata=column("MB", digits=1, better="low"))
    p50_ms: float = field(metadata=column("p50 ms", digits=2, better="low"))
    p95_ms: float = field(metadata=column("p95 ms", digits=2))
    p99_ms: float = field(metadata=column("p99 ms", digits=2))
    fps: float = field(metadata=column("FPS", digits=0, better="high"))
    streamed_p50_ms: float = field(metadata=column("streamed p50 ms", digits=2, better="low"))
    streamed_p99_ms: float = field(metadata=column("streamed p99 ms", digits=2))
    processor_ms: float = field(metadata=column("processor ms", digits=2, better="low"))
    ratio: str = field(metadata=column("time / first (95 %)"))
    prepare_ms: float = field(metadata=column("prepare ms", digits=2))
    device_ms: float | None = field(metadata=column("device ms", digits=2))
    load_s: float = field(metadata=column("load s", digits=2))
    cold_start_s: float = field(metadata=column("cold start s", digits=2))
    memory_mb: float = field(metadata=column("memory MB", digits=0, better="low"))


def candidates_of(models: Sequence[Path], backends: Sequence[str]) -> list[Candidate]:
    """Every model on every backend that can run it; equal file names are told by their folder."""
    if not models:
        raise UsageError("no models to time; give .onnx files, OpenVINO .xml or .plan files")
    for path in models:
        if not path.is_file():
            raise UsageError(f"{path}: no such model; expected .onnx, OpenVINO's .xml or a .plan")
    stems = [path.stem for path in models]
    titles = [
        f"{path.parent.name}/{path.stem}" if stems.count(path.stem) > 1 else path.stem
        for path in models
    ]
    candidates = []
    for path, title in zip(models, titles, strict=True):
        if path.suffix == ".onnx":
            candidates += [
                Candidate(name=title, path=path, backend=backend) for backend in backends
            ]
        else:
            backend = "openvino" if path.suffix == ".xml" else "tensorrt"
            candidates.append(Candidate(name=title, path=path, backend=backend))
    return candidates


def timing_units(
    candidates: Sequence[Candidate],
    *,
    schedule: Schedule,
    options: SessionOptions,
    size_hw: tuple[int, int],
    progress: Progress = silent,
) -> list[Unit]:
    """One unit for the interleaved rounds, one per candidate for its cold start."""
    common = {
        "machine": processor_name(),
        "threads": options.thread_count,
        "spin": options.spin,
        "size_hw": list(size_hw),
    }
    files = {item.key: file_sha256(item.path) for item in candidates}

    def rounds() -> dict[str, Any]:
        with CoreWatch() as cores:
            timings = measure_latency(
                candidates, schedule=schedule, options=options, size_hw=size_hw, progress=progress
            )
        return {
            "timings": [timing.to_dict(timings[0]) for timing in timings],
            "cores": {"others": cores.others, "stolen": cores.stolen},
        }

    def cold_start_unit(item: Candidate) -> Unit:
        start = partial(cold_start, backend=item.backend, options=options, size_hw=size_hw)
        return Unit(
            name=f"cold start of {item.key}",
            settings=common | {"file": files[item.key], "backend": item.backend},
            run=lambda: dict(start(item.path)),
            weight=3.0,
        )

    whole = Unit(
        name="rounds",
        settings=common
        | {"files": files, "schedule": asdict(schedule), "result": ["timings", "cores"]},
        run=rounds,
        weight=len(candidates) * schedule.rounds / 10,
    )
    return [whole, *map(cold_start_unit, candidates)]


def timing_notes(done: Done, *, note: Note) -> list[str]:
    """What disturbed the rounds, if anything did; said at once and kept for the report."""
    warning = disturbance(**done.results["rounds"]["cores"])
    if warning is None:
        return []
    note(warning)
    return [f"While timing, {warning}."]


def timing_facts(timed: Done, *others: Done) -> dict[str, Any]:
    """What a report says of how it was timed, with all else that was measured for it."""
    parts = (timed, *others)
    return {
        "cores_taken": timed.results["rounds"]["cores"],
        "commits": sorted({commit for part in parts for commit in part.commits}),
        "work_seconds": sum(part.seconds for part in parts),
    }


def speed_table(done: Done) -> Table:
    """All that was timed, in the order of the candidates."""
    timings = done.results["rounds"]["timings"]
    rows = [
        _speed_row(timing, done.results[f"cold start of {timing['key']}"]) for timing in timings
    ]
    return table_of("Latency", rows, note=NOTE)


def _speed_row(timing: Result, cold: Result) -> SpeedRow:
    host, streamed, device = (timing[name] for name in ("host_ms", "streamed_ms", "device_ms"))
    return SpeedRow(
        model=timing["key"].rpartition(" on ")[0],
        backend=timing["backend"],
        precision=timing["precision"],
        arithmetic=timing["arithmetic"],
        spin=SPIN[timing["spin"]],
        megabytes=timing["size_bytes"] / 1e6,
        p50_ms=host["p50"],
        p95_ms=host["p95"],
        p99_ms=host["p99"],
        fps=timing["fps"],
        streamed_p50_ms=streamed["p50"],
        streamed_p99_ms=streamed["p99"],
        processor_ms=timing["streamed_processor_ms"],
        ratio=Ratio(**timing["ratio"]).text,
        prepare_ms=timing["prepare_ms"],
        device_ms=None if device is None else device["p50"],
        load_s=cold["load_s"],
        cold_start_s=cold["to_first_answer_s"],
        memory_mb=cold["memory_mb"],
    )


def streamed(timing: Result | None) -> dict[str, float | None]:
    """The cells of STREAMED_COLUMNS; empty ones where nothing was timed."""
    if timing is None:
        return dict.fromkeys(_STREAMED)
    if "streamed_ms" not in timing:
        return {}
    values = (timing["streamed_ms"]["p50"], timing["streamed_processor_ms"])
    return dict(zip(_STREAMED, map(float, values), strict=True))


def computed(timing: Result) -> dict[str, str | None]:
    """What stands beside its milliseconds; older results did not say it."""
    if "arithmetic" not in timing:
        return {}
    return {"arithmetic": timing["arithmetic"], "spin": SPIN[timing["spin"]]}


def run_latency(
    candidates: Sequence[Candidate],
    out: Path,
    *,
    schedule: Schedule,
    options: SessionOptions,
    size_hw: tuple[int, int],
    fresh: bool,
    note: Note,
    progress: Progress = silent,
) -> Report:
    """Measure, write the report and return it."""
    facts = describe(threads=options.thread_count)
    units = timing_units(
        candidates, schedule=schedule, options=options, size_hw=size_hw, progress=progress
    )
    done = run_units(units, Store(out, fresh=fresh), note=note)
    table = speed_table(done)
    timings = done.results["rounds"]["timings"]
    notes = timing_notes(done, note=note)
    figures = _figures(timings, out)
    if not figures:
        notes.append("No figure: matplotlib is not installed.")
        note(notes[-1])
    report = Report(
        name="latency",
        title="Latency of one frame",
        findings=tuple(_findings(timings)),
        tables=(table,),
        figures=figures,
        facts=facts | timing_facts(done),
        notes=tuple(notes),
        raw=done.results,
    )
    write_report(report, out)
    return report


def _figures(timings: list[dict[str, Any]], out: Path) -> tuple[Figure, ...]:
    """The bars, or nothing on a device that has no library to draw them."""
    if importlib.util.find_spec("matplotlib") is None:
        return ()
    bars(
        [timing["key"] for timing in timings],
        [timing["host_ms"]["p50"] for timing in timings],
        out / "latency.png",
        x_name="milliseconds per frame, p50",
    )
    return (Figure(title="Milliseconds per frame", file="latency.png"),)


def _findings(timings: list[dict[str, Any]]) -> list[str]:
    first = timings[0]
    lines = [
        f"{first['key']}: {first['host_ms']['p50']:.2f} ms per frame ({first['fps']:.0f} FPS) back "
        f"to back, {first['streamed_ms']['p50']:.2f} streamed."
    ]
    if len(timings) == 1:
        return lines
    fastest = min(timings, key=lambda timing: timing["host_ms"]["p50"])
    if fastest is first:
        return [f"{lines[0][:-1]}, the fastest of {len(timings)}."]
    ratio = Ratio(**fastest["ratio"])
    faster = (
        f"{1 / ratio.value:.1f} times as fast (95 %: {1 / ratio.high:.1f} to {1 / ratio.low:.1f})"
    )
    return [*lines, f"Fastest: {fastest['key']}, {fastest['host_ms']['p50']:.2f} ms, {faster}."]


def runnable(backends: Sequence[str]) -> list[str]:
    """Backends as asked for; `auto` is ONNX Runtime, and OpenVINO and CUDA where installed."""
    if "auto" not in backends:
        return list(dict.fromkeys(backends))
    installed = []
    if importlib.util.find_spec("onnxruntime") is not None:
        import onnxruntime

        installed = ["cpu"]
        installed += ["cuda"] * ("CUDAExecutionProvider" in onnxruntime.get_available_providers())
    if importlib.util.find_spec("openvino") is not None:
        installed.append("openvino")
    if not installed:
        raise RuntimeFailure("no backend is installed; run: pip install 'edgeseg[cpu]'")
    return installed
