"""The page at the end of `edgeseg demo`: pictures, accuracy, latency, and how they trade."""

import json
import shutil
from pathlib import Path
from typing import Any

from edgeseg.bench.figures import Dot, pareto
from edgeseg.bench.latency import Schedule, Timing, measure_latency
from edgeseg.bench.machine import available_cores, describe
from edgeseg.bench.report import Figure, Report, write_report
from edgeseg.bench.speed import candidates_of
from edgeseg.bench.tabular import Cell, Column, Table
from edgeseg.metadata import ModelMetadata

MODEL_COLUMNS = (
    Column(name="model"),
    Column(name="MB", digits=1, better="low"),
    Column(name="p50 ms", digits=2, better="low"),
    Column(name="p99 ms", digits=2),
    Column(name="PRO", digits=4, better="high"),
    Column(name="image AUROC", digits=4, better="high"),
    Column(name="F1", digits=4, better="high"),
)
STAGE_COLUMNS = tuple(
    Column(name=name, digits=2) for name in ("stage", "p50 ms", "p95 ms", "p99 ms", "max ms")
)


def write_demo_report(
    *,
    out: Path,
    models: tuple[Path, ...],
    latency: Path,
    plan: dict[str, Any] | None,
    seconds: float,
) -> Path:
    """Time the exported models in one run and write report.html."""
    threads = available_cores()
    candidates = candidates_of(models, ("cpu",))
    timings = measure_latency(candidates, threads=threads, schedule=Schedule(rounds=10))
    accuracy = [_accuracy(path) for path in models]
    stream = json.loads(latency.read_text(encoding="utf-8"))
    report = Report(
        name="demo",
        title="What is wrong with the part, and how fast we know",
        findings=_findings(timings, accuracy, stream, plan, seconds),
        tables=(_model_table(models, timings, accuracy), _stage_table(stream)),
        figures=_figures(out, models, timings, accuracy),
        facts=describe(threads=threads, seeds=(0,)),
        notes=("The data is a synthetic part: good to try the tools on, no measure of accuracy.",),
        raw={"stream": stream, "plan": plan},
    )
    return write_report(report, out)


def _accuracy(path: Path) -> dict[str, Any]:
    text = path.with_suffix(".json").read_text(encoding="utf-8")
    found = ModelMetadata.from_json(text, source=str(path)).accuracy
    return found[-1] if found else {}


def _findings(
    timings: list[Timing],
    accuracy: list[dict[str, Any]],
    stream: dict[str, Any],
    plan: dict[str, Any] | None,
    seconds: float,
) -> tuple[str, ...]:
    frames = stream["frames"]
    end_to_end = stream["latency_ms"]["end_to_end"]
    lines = [
        f"From nothing to a running detector in {seconds:.0f} s on this computer.",
        f"{frames['scored']} frames were streamed: end to end {end_to_end['p50']:.1f} ms at the "
        f"median, {end_to_end['p99']:.1f} ms at the 99th percentile.",
    ]
    if accuracy[0]:
        lines.append(f"PRO {accuracy[0]['pro']:.3f} in fp32, {accuracy[1]['pro']:.3f} in int8.")
    if plan is not None:
        lines.append(
            f"A TensorRT-RTX plan of {plan['plan_bytes'] / 1e6:.1f} MB was built in "
            f"{plan['build']['build_seconds']:.1f} s; running it needs an NVIDIA GPU."
        )
    return tuple(lines)


def _model_table(
    models: tuple[Path, ...], timings: list[Timing], accuracy: list[dict[str, Any]]
) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for path, timing, figures in zip(models, timings, accuracy, strict=True):
        percent = timing.to_dict(timings[0])["host_ms"]
        measured = [figures.get(name) for name in ("pro", "image_auroc", "f1")]
        rows.append((path.stem, timing.size_bytes / 1e6, percent["p50"], percent["p99"], *measured))
    note = "Timed in turns in one process. The threshold was chosen on good images alone."
    return Table(title="The exported models", columns=MODEL_COLUMNS, rows=tuple(rows), note=note)


def _stage_table(stream: dict[str, Any]) -> Table:
    rows = tuple(
        (stage.replace("_", " "), *(row[name] for name in ("p50", "p95", "p99", "max")))
        for stage, row in stream["latency_ms"].items()
    )
    return Table(
        title="Where the time of a streamed frame goes",
        columns=STAGE_COLUMNS,
        rows=rows,
        note=f"On {stream['backend']}.",
    )


def _figures(
    out: Path, models: tuple[Path, ...], timings: list[Timing], accuracy: list[dict[str, Any]]
) -> tuple[Figure, ...]:
    figures = []
    sheet = out / "pictures" / "sheet.png"
    if sheet.is_file():
        shutil.copyfile(sheet, out / "sheet.png")
        note = "Input, distance, and contours: green is the truth, magenta the decision."
        figures.append(Figure(title="What it sees", file="sheet.png", note=note))
    if all(accuracy):
        dots = [
            Dot(
                name=path.stem,
                ms=timing.to_dict(timings[0])["host_ms"]["p50"],
                value=figure["pro"],
                size_mb=timing.size_bytes / 1e6,
                group=timing.precision,
            )
            for path, timing, figure in zip(models, timings, accuracy, strict=True)
        ]
        pareto(dots, out / "pareto.png", value_name="PRO")
        figures.append(Figure(title="Accuracy against time", file="pareto.png"))
    return tuple(figures)
