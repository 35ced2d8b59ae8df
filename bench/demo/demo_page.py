"""The page at the end of `edgeseg demo`: what was found, with which models, and how fast."""

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from edgeseg.bench.harness.accuracy import by_category
from edgeseg.bench.harness.figures import dot_of, pareto
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Figure, Report, write_report
from edgeseg.bench.harness.sampling import percentiles
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.bench.latency.timing import SPIN, candidates_of
from edgeseg.bench.latency.turns import Schedule, Timing, measure_latency
from edgeseg.data.planted.kinds import KINDS
from edgeseg.decision.metric_registry import stored_metrics
from edgeseg.decision.operating_point import OperatingPoint
from edgeseg.decision.score_origin import percent
from edgeseg.evaluation.panels import add_heading, contact_sheet
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.modelfile.precisions import runs_on
from edgeseg.runtime.backends.session_options import SessionOptions, available_cores
from edgeseg.runtime.events.records import STAGES
from edgeseg.vision.images import read_image, write_image

HITS = {each.key: each.label for each in stored_metrics() if not each.fewer_is_better}
ERRORS = {each.key: each.label for each in stored_metrics() if each.fewer_is_better}
MOST_KINDS = 5  # of defects in the picture
# A stage that is part of another one says so.
STAGE_NAMES = {"queue": "- of it in the queue", "sinks": "afterwards: sinks"}


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """An exported model."""

    model: str = field(metadata=column("model"))
    megabytes: float = field(metadata=column("MB", digits=1, better="low"))
    p50_ms: float = field(metadata=column("p50 ms", digits=1, better="low"))
    p99_ms: float = field(metadata=column("p99 ms", digits=1))
    streamed_ms: float = field(metadata=column("streamed p50 ms", digits=1, better="low"))
    arithmetic: str = field(metadata=column("arithmetic"))
    spin: str | None = field(metadata=column("spin"))
    accuracy: dict[str, float | None] = field(metadata=column("{}", better="high", titles=HITS))
    errors: dict[str, float | None] = field(metadata=column("{}", better="low", titles=ERRORS))


@dataclass(frozen=True, kw_only=True)
class RateRow:
    """A false-alarm rate that could be chosen."""

    rate: str = field(metadata=column("false alarms"))
    promised: str = field(metadata=column("promised"))
    needed: int = field(metadata=column("parts needed"))
    threshold: float = field(metadata=column("threshold", digits=4))
    found: float | None = field(metadata=column("found", digits=2))


@dataclass(frozen=True, kw_only=True)
class StageRow:
    """A stage of the streamed frames."""

    stage: str = field(metadata=column("stage"))
    p50_ms: float = field(metadata=column("p50 ms", digits=2))
    p95_ms: float = field(metadata=column("p95 ms", digits=2))
    p99_ms: float = field(metadata=column("p99 ms", digits=2))
    max_ms: float = field(metadata=column("max ms", digits=2))


def write_demo_report(
    *,
    out: Path,
    models: dict[str, Path],  # by the name they have in the report
    latency: Path,
    plan: dict[str, Any] | None,
    threshold: dict[str, Any],  # what `edgeseg threshold --json` says
    seconds: float,
    synthetic: bool,
) -> Path:
    """Time the exported models in one run and write report.html."""
    threads = available_cores()
    timings = measure_latency(
        candidates_of(tuple(models.values()), ("cpu",)),
        options=SessionOptions(),
        schedule=Schedule(rounds=10),
    )
    rows = [
        _model_row(name, path, timing)
        for (name, path), timing in zip(models.items(), timings, strict=True)
    ]
    stream = json.loads(latency.read_text(encoding="utf-8"))
    made_up = "The data is a synthetic part: good to try the tools on, no measure of accuracy."
    report = Report(
        name="demo",
        title="What is wrong with the part, and how fast we know",
        findings=(
            *_findings(out, stream, plan, threshold),
            f"All steps together took {seconds:.0f} s.",
        ),
        tables=(
            _threshold_table(threshold),
            _model_table(rows).without_empty_columns(),
            _stage_table(stream),
        ),
        figures=(*_figures(out), *_pareto(rows, out)),
        facts=describe(threads=threads, seeds=(0,)),
        notes=(made_up,) if synthetic else (),
        raw={"stream": stream, "plan": plan, "threshold": threshold},
    )
    return write_report(report, out)


def _model_row(name: str, path: Path, timing: Timing) -> ModelRow:
    text = path.with_suffix(".json").read_text(encoding="utf-8")
    stored = ModelMetadata.from_json(text, source=str(path)).accuracy
    figures = stored[-1] if stored else {}
    known = {key: each for key, each in figures.items() if isinstance(each, int | float)}
    milliseconds = percentiles(timing.host_ms)
    return ModelRow(
        model=name,
        megabytes=timing.size_bytes / 1e6,
        p50_ms=milliseconds["p50"],
        p99_ms=milliseconds["p99"],
        streamed_ms=percentiles(timing.streamed_ms)["p50"],
        arithmetic=timing.arithmetic,
        spin=SPIN[timing.spin],
        accuracy={key: known.get(key) for key in by_category(HITS)},
        errors={key: known.get(key) for key in ERRORS},
    )


def _findings(
    out: Path,
    stream: dict[str, Any],
    plan: dict[str, Any] | None,
    threshold: dict[str, Any],
) -> list[str]:
    lines = _threshold_findings(threshold)
    if (out / "eval.json").is_file():
        verdicts = json.loads((out / "eval.json").read_text(encoding="utf-8"))
        bad = verdicts["anomalies"]
        good, caught = verdicts["images"] - bad, round((verdicts["recall"] or 0) * bad)
        lines.append(
            f"{caught} of {bad} defective parts were found and {verdicts['false_alarms']} of "
            f"{good} good ones flagged. The threshold was chosen on good parts alone."
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


def _points(threshold: dict[str, Any]) -> list[OperatingPoint]:
    names = {item.name for item in fields(OperatingPoint)}
    return [
        OperatingPoint(**{name: value for name, value in row.items() if name in names})
        for row in threshold["rates"]
    ]


def _threshold_findings(threshold: dict[str, Any]) -> list[str]:
    """Say what the stored threshold promises, and what it finds of planted defects."""
    rate = threshold["stored"]["requested_rate"]
    chosen = next(point for point in _points(threshold) if point.requested_rate == rate)
    kept = f"at most {percent(rate)} of good parts are stopped by mistake"
    lines = [f"The threshold is {chosen.score:.4f}: {chosen.shortfall or kept}."]
    if chosen.recall is not None:
        lines.append(
            f"{chosen.recall:.0%} of {threshold['planted']['count']} defects planted on copies of "
            "good pictures were found, by models that had not seen these parts."
        )
    return lines


def _threshold_table(threshold: dict[str, Any]) -> Table:
    rows = [
        RateRow(
            rate=percent(point.requested_rate),
            promised=percent(point.promised_rate),
            needed=point.needed,
            threshold=point.score,
            found=point.recall,
        )
        for point in _points(threshold)
    ]
    note = (
        f"From {threshold['parts']} different good parts. {threshold['guarantee']}. Found: share "
        "of planted defects. Another rate: edgeseg threshold MODEL --rate RATE."
    )
    return table_of("What a rate of false alarms costs", rows, note=note)


def _model_table(rows: list[ModelRow]) -> Table:
    note = (
        "Milliseconds of one frame, the models in turns in one process, back to back and at the "
        "pace of a camera; spin: whether idle threads stay awake between frames. PRO: the share of "
        "each defect that is marked, averaged over thresholds that mark little else; 1 is best. "
        "AUROC: how well scores tell good from bad; 0.5 is a guess. At the threshold: F1 of the "
        "verdicts, 1 is no mistake; recall, the share of defects that raise an alarm; false "
        "alarms, the share of good parts that are flagged. edge: our settings; paper: the "
        "published method."
    )
    return table_of("The exported models", rows, note=note)


def _pareto(rows: list[ModelRow], out: Path) -> tuple[Figure, ...]:
    """Plot accuracy against time, where accuracy was measured."""
    dots = []
    for row in rows:
        group, name = row.model.split(", ")
        pro = row.accuracy["pro"]
        dot = dot_of(name=name, group=group, ms=row.p50_ms, value=pro, size_mb=row.megabytes)
        dots += [] if dot is None else [dot]
    if len(dots) < 2:
        return ()
    pareto(dots, out / "pareto.png", value_name="PRO")
    note = "Up and left is better; a larger dot is a larger file."
    return (Figure(title="Accuracy against time", file="pareto.png", note=note),)


def _stage_table(stream: dict[str, Any]) -> Table:
    measured = stream["latency_ms"]
    rows = [
        StageRow(
            stage=STAGE_NAMES.get(stage, stage.replace("_", " ")),
            p50_ms=measured[stage]["p50"],
            p95_ms=measured[stage]["p95"],
            p99_ms=measured[stage]["p99"],
            max_ms=measured[stage]["max"],
        )
        for stage in (*STAGES, "sinks")
        if stage in measured
    ]
    where = runs_on(stream["backend"], arithmetic=stream["arithmetic"], spin=stream["spin"])
    note = (
        f"On {where}. Capture age: from the camera to the start of scoring; pre: crop "
        "and resize; infer: the model; post: verdict and regions; end to end is their sum. Sinks "
        "write events and pictures after the verdict."
    )
    return table_of("Where the time of a streamed frame goes", rows, note=note)


def _one_of_each(pictures: Path) -> dict[str, Path]:
    """Return a picture of each kind: of a folder of `edgeseg eval`, or one of planted defects."""
    found = {}
    for path in sorted(pictures.glob("*")):
        if path.is_dir():
            found[path.name] = min(path.glob("*.png"))
        elif path.stem in {*KINDS, "good"}:
            found[path.stem] = path
    return found


def _figures(out: Path) -> tuple[Figure, ...]:
    """Draw some kinds of defect and a good part in one picture, large enough for a phone."""
    found = _one_of_each(out / "pictures")
    defective = [kind for kind in found if kind != "good"][:MOST_KINDS]
    shown = [*defective, *(kind for kind in found if kind == "good")]
    if not shown:
        return ()
    panels = [add_heading(read_image(found[kind]), kind, scale=0.5) for kind in shown]
    write_image(out / "found.png", contact_sheet(panels, title="One of each kind"))
    note = (
        "Left: the part. Middle: how far each place is from good parts. Right: what is marked "
        "(magenta) and, where the data has masks, the defect (green). The mark on the scale is the "
        "threshold."
    )
    return (Figure(title="What it sees", file="found.png", note=note),)
