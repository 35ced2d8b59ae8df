"""The page at the end of `edgeseg demo`: what was found, with which models, and how fast."""

import json
from pathlib import Path
from typing import Any

from edgeseg.bench.harness.figures import Dot, pareto
from edgeseg.bench.harness.machine import available_cores, describe
from edgeseg.bench.harness.report import Figure, Report, write_report
from edgeseg.bench.harness.tabular import Cell, Column, Table
from edgeseg.bench.latency.report import candidates_of
from edgeseg.bench.latency.turns import Schedule, Timing, measure_latency
from edgeseg.contract.images import read_image, write_image
from edgeseg.contract.metadata import ModelMetadata
from edgeseg.evaluation.panels import contact_sheet, headed
from edgeseg.runtime.records import STAGES

# A model's name, its times and what was measured of its accuracy.
Measured = tuple[str, Timing, dict[str, Any]]
MODEL_COLUMNS = (
    Column(name="model"),
    Column(name="MB", digits=1, better="low"),
    Column(name="p50 ms", digits=1, better="low"),
    Column(name="p99 ms", digits=1),
    Column(name="PRO", digits=3, better="high"),
    Column(name="image AUROC", digits=3, better="high"),
    Column(name="F1", digits=3, better="high"),
)
STAGE_COLUMNS = tuple(
    Column(name=name, digits=2) for name in ("stage", "p50 ms", "p95 ms", "p99 ms", "max ms")
)
MOST_KINDS = 5  # of defects in the picture
# A stage that is part of another one says so.
STAGE_NAMES = {"queue": "- of it in the queue", "sinks": "afterwards: sinks"}


def write_demo_report(
    *,
    out: Path,
    models: dict[str, Path],  # by the name they have in the report
    latency: Path,
    plan: dict[str, Any] | None,
    seconds: float,
    synthetic: bool,
) -> Path:
    """Time the exported models in one run and write report.html."""
    threads = available_cores()
    timings = measure_latency(
        candidates_of(tuple(models.values()), ("cpu",)),
        threads=threads,
        schedule=Schedule(rounds=10),
    )
    accuracy = [_accuracy(path) for path in models.values()]
    measured = list(zip(models, timings, accuracy, strict=True))
    stream = json.loads(latency.read_text(encoding="utf-8"))
    made_up = "The data is a synthetic part: good to try the tools on, no measure of accuracy."
    report = Report(
        name="demo",
        title="What is wrong with the part, and how fast we know",
        findings=(*_findings(out, stream, plan), f"All steps together took {seconds:.0f} s."),
        tables=(_model_table(measured), _stage_table(stream)),
        figures=(*_figures(out), *_pareto(measured, out)),
        facts=describe(threads=threads, seeds=(0,)),
        notes=(made_up,) if synthetic else (),
        raw={"stream": stream, "plan": plan},
    )
    return write_report(report, out)


def _accuracy(path: Path) -> dict[str, Any]:
    text = path.with_suffix(".json").read_text(encoding="utf-8")
    found = ModelMetadata.from_json(text, source=str(path)).accuracy
    return found[-1] if found else {}


def _findings(out: Path, stream: dict[str, Any], plan: dict[str, Any] | None) -> list[str]:
    lines = []
    if (out / "eval.json").is_file():
        told = json.loads((out / "eval.json").read_text(encoding="utf-8"))
        bad = told["anomalies"]
        good, found = told["images"] - bad, round((told["recall"] or 0) * bad)
        lines.append(
            f"{found} of {bad} defective parts were found and {told['false_alarms']} of {good} "
            "good ones flagged. The threshold was chosen on good parts alone."
        )
    frames, end_to_end = stream["frames"], stream["latency_ms"]["end_to_end"]
    lines.append(
        f"Streamed on this computer, {frames['fps_out']:.0f} frames a second got a verdict, half "
        f"of them within {end_to_end['p50']:.0f} ms of their capture, 99 of 100 within "
        f"{end_to_end['p99']:.0f} ms."
    )
    if plan is not None:
        lines.append(
            f"A TensorRT-RTX plan of {plan['plan_bytes'] / 1e6:.1f} MB was built in "
            f"{plan['build']['build_seconds']:.1f} s; running it needs an NVIDIA GPU."
        )
    return lines


def _model_table(measured: list[Measured]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, timing, accuracy in measured:
        percent = _milliseconds(timing)
        figures = [accuracy.get(figure) for figure in ("pro", "image_auroc", "f1")]
        rows.append((name, timing.size_bytes / 1e6, percent["p50"], percent["p99"], *figures))
    note = (
        "Milliseconds of one frame, the models in turns in one process. PRO: the share of each "
        "defect that is marked, averaged over thresholds that mark little else; 1 is best. AUROC: "
        "how well scores tell good from bad; 0.5 is a guess. F1: verdicts at the threshold; 1 is "
        "no mistake. edge: our settings; paper: the published method."
    )
    return Table(title="The exported models", columns=MODEL_COLUMNS, rows=tuple(rows), note=note)


def _milliseconds(timing: Timing) -> dict[str, float]:
    percent: dict[str, float] = timing.to_dict(timing)["host_ms"]
    return percent


def _pareto(measured: list[Measured], out: Path) -> tuple[Figure, ...]:
    """Accuracy against time, where accuracy was measured."""
    dots = [
        Dot(
            name=name.split(", ")[1],
            group=name.split(", ")[0],
            ms=_milliseconds(timing)["p50"],
            value=accuracy["pro"],
            size_mb=timing.size_bytes / 1e6,
        )
        for name, timing, accuracy in measured
        if accuracy.get("pro") is not None
    ]
    if len(dots) < 2:
        return ()
    pareto(dots, out / "pareto.png", value_name="PRO")
    note = "Up and left is better; a larger dot is a larger file."
    return (Figure(title="Accuracy against time", file="pareto.png", note=note),)


def _stage_table(stream: dict[str, Any]) -> Table:
    measured = stream["latency_ms"]
    rows = tuple(
        (
            STAGE_NAMES.get(stage, stage.replace("_", " ")),
            *(measured[stage][name] for name in ("p50", "p95", "p99", "max")),
        )
        for stage in (*STAGES, "sinks")
        if stage in measured
    )
    note = (
        f"On {stream['backend']}. Capture age: from the camera to the start of scoring; pre: crop "
        "and resize; infer: the model; post: verdict and regions; end to end is their sum. Sinks "
        "write events and pictures after the verdict."
    )
    return Table(
        title="Where the time of a streamed frame goes",
        columns=STAGE_COLUMNS,
        rows=rows,
        note=note,
    )


def _figures(out: Path) -> tuple[Figure, ...]:
    """One picture of some kinds of defect and of a good part, large enough for a phone."""
    folders = sorted(path for path in (out / "pictures").glob("*") if path.is_dir())
    defective = [folder for folder in folders if folder.name != "good"][:MOST_KINDS]
    shown = [*defective, *(folder for folder in folders if folder.name == "good")]
    if not shown:
        return ()
    panels = [
        headed(read_image(min(folder.glob("*.png"))), folder.name, scale=0.5) for folder in shown
    ]
    write_image(out / "found.png", contact_sheet(panels, title="One of each kind"))
    note = (
        "Left: the part. Middle: how far each place is from good parts. Right: what is marked "
        "(magenta) and where the defect is (green). The mark on the scale is the threshold."
    )
    return (Figure(title="What it sees", file="found.png", note=note),)
