"""What `edgeseg tune` leaves: its table in three forms, the Pareto picture and the best model."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from edgeseg.bench.harness.figures import Dot, pareto
from edgeseg.bench.harness.report import Figure, Report, write_report
from edgeseg.bench.harness.tabular import Table, table_of
from edgeseg.bench.latency.report import timing_facts
from edgeseg.bench.tune.choice import BEST, Row, chosen, row_of
from edgeseg.bench.tune.options import TuneOptions
from edgeseg.bench.tune.search import Found
from edgeseg.files import atomic_path, write_text

NOTE = (
    "planted found: share of defects planted on copies of good images that are above the file's "
    "own threshold; AUROC: of them against the good images; both by models without those images. A "
    "rounded graph is fitted again for each backend, and judged through that backend's session; on "
    "a GPU through ONNX Runtime's, and wants `edgeseg calibrate` there. fp32 is judged as it was "
    "fitted. streamed: at the pace of a camera, the 95th "
    "percentile is what the budget is for. processor: of all threads for such a frame."
)


def rows_of(found: Found, *, budget_ms: float) -> list[Row]:
    """Every file in every backend, the best first."""
    if found.timed is None:
        return []
    rows = []
    for timing in found.timed.results["rounds"]["timings"]:
        key = timing["key"]
        rows.append(row_of(found.exported[key], timing, backend=key.rpartition(" on ")[2]))
    return chosen(rows, budget_ms=budget_ms)


def best_of(rows: Sequence[Row]) -> Row | None:
    """The one that was chosen, if anything is fast enough."""
    return next((row for row in rows if row.state == BEST), None)


def write_results(
    found: Found,
    rows: Sequence[Row],
    out: Path,
    *,
    options: TuneOptions,
    facts: dict[str, Any],
    notes: Sequence[str],
) -> Report:
    """All but the model."""
    table = table_of(f"Within {options.budget_ms:g} ms a frame", rows, note=NOTE)
    write_text(out / "table.csv", table.csv())
    _draw(rows, out / "pareto.png", budget_ms=options.budget_ms)
    timed = () if found.timed is None else timing_facts(found.timed)
    report = Report(
        name="tune",
        title=f"The most accurate model within {options.budget_ms:g} ms on this computer",
        findings=tuple(_findings(rows, options)),
        tables=(table,),
        figures=(Figure(title="Planted defects found against milliseconds", file="pareto.png"),)
        if rows
        else (),
        facts=facts | dict(timed) | {"commits": list(found.commits), "work_seconds": found.seconds},
        notes=(*notes, *(f"Not tried or not taken: {each}" for each in found.left_out)),
        raw={"exported": found.exported, "timed": found.timed.results if found.timed else {}},
    )
    write_report(report, out)
    return report


def keep_best(file: Path, out: Path) -> Path:
    """The chosen graph as best.onnx, with its sidecar."""
    target = out / "best.onnx"
    for suffix in (".json", ".onnx"):
        with atomic_path(target.with_suffix(suffix)) as temporary:
            shutil.copyfile(file.with_suffix(suffix), temporary)
    return target


def _draw(rows: Sequence[Row], target: Path, *, budget_ms: float) -> None:
    dots = [
        Dot(
            name=f"{row.backbone} {row.precision}",
            group=row.backend,
            ms=row.streamed_p95_ms,
            value=row.recall,
            size_mb=row.megabytes,
        )
        for row in rows
    ]
    if dots:
        name = "share of planted defects found"
        pareto(dots, target, value_name=name, time_name="streamed, p95", budget_ms=budget_ms)


def _findings(rows: Sequence[Row], options: TuneOptions) -> Iterator[str]:
    best = best_of(rows)
    if best is not None:
        yield (
            f"Best within {options.budget_ms:g} ms: {best.name}, {best.recall:.0%} of "
            f"{best.planted} planted defects found, AUROC {best.auroc:.3f}, "
            f"{best.streamed_p95_ms:.2f} ms (p95, streamed), {best.megabytes:.1f} MB."
        )
    elif rows:
        fastest = min(rows, key=lambda row: row.streamed_p95_ms)
        yield (
            f"Nothing is within {options.budget_ms:g} ms; the fastest is {fastest.name} with "
            f"{fastest.streamed_p95_ms:.2f} ms."
        )
    slower = [row for row in rows if best is None or row.recall > best.recall]
    if best is not None and slower and slower[0].streamed_p95_ms > options.budget_ms:
        row = max(slower, key=lambda each: each.recall)
        yield (
            f"With {row.streamed_p95_ms:.1f} ms a frame {row.name} would find {row.recall:.0%} of "
            "them."
        )


def text_of(table: Table) -> str:
    """The table for a terminal."""
    from edgeseg.tables import aligned

    return "\n".join(aligned([[column.name for column in table.columns], *table.texts()]))
