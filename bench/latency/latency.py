"""`edgeseg bench latency`: timings and cold starts of model files, and the table of them."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgeseg.base.progress import Note, Progress, silent
from edgeseg.bench.harness.figures import bars
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Figure, Report, write_report
from edgeseg.bench.harness.sampling import Ratio
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.bench.harness.units import Result, Store, UnitResults, run_units
from edgeseg.bench.latency.timing import SPIN, timing_facts, timing_notes, timing_units, timings_of
from edgeseg.bench.latency.turns import LatencyCandidate, Schedule
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


@dataclass(frozen=True, kw_only=True)
class FileSpeed:
    """One model file in one backend."""

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


def speed_table(done: UnitResults) -> Table:
    """Make the table of all timed files, in the order of the candidates."""
    rows = [
        _speed_row(timing, done.results[f"cold start of {timing['key']}"])
        for timing in timings_of(done)
    ]
    return table_of("Latency", rows, note=NOTE)


def _speed_row(timing: Result, cold: Result) -> FileSpeed:
    host, streamed, device = (timing[name] for name in ("host_ms", "streamed_ms", "device_ms"))
    return FileSpeed(
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


def run_latency(
    candidates: Sequence[LatencyCandidate],
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
    timings = timings_of(done)
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
    """Draw the bars; nothing on a device without matplotlib."""
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
