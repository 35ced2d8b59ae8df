"""The report of a comparison: summary, categories, Pareto picture, example maps."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from edgeseg.bench.compare.recipes import Comparison
from edgeseg.bench.harness.accuracy import METRICS, group_means
from edgeseg.bench.harness.figures import Dot, pareto, pareto_front
from edgeseg.bench.harness.report import Figure, Report
from edgeseg.bench.harness.tabular import Cell, Column, Table
from edgeseg.bench.harness.units import Done
from edgeseg.bench.latency.report import speed_table, timing_facts

NOTABLE = 0.005  # of PRO or AUROC: less is not worth a sentence


class Row(NamedTuple):
    """One graph on one backend, in the order of the summary's columns."""

    backbone: str
    preset: str
    precision: str
    backend: str
    pro: float | None
    pixel_auroc: float | None
    image_auroc: float | None
    spread: float | None
    p50_ms: float
    megabytes: float


def report_of(
    comparison: Comparison,
    done: Done,
    timed: Done,
    *,
    facts: dict[str, Any],
    notes: list[str],
    title: str,
    name: str,
) -> Report:
    """Accuracy and timings side by side."""
    rows = [_row(comparison, done, timing) for timing in timed.results["rounds"]["timings"]]
    dots = [dot for row in rows if (dot := _dot(row)) is not None]
    pareto(dots, comparison.out / "pareto.png", value_name="mean PRO")
    return Report(
        name=name,
        title=title,
        findings=tuple(_findings(rows, dots)),
        tables=(_summary(rows, comparison), *_by_category(comparison, done), speed_table(timed)),
        figures=tuple(_figures(comparison)),
        facts=facts | timing_facts(timed, done),
        notes=tuple(notes),
        raw={"accuracy": done.results, "timing": timed.results},
    )


def _row(comparison: Comparison, done: Done, timing: dict[str, Any]) -> Row:
    label, _, backend = timing["key"].rpartition(" on ")
    backbone, preset, precision = label.split(" ")
    recipe = next(r for r in comparison.options.recipes if r.name == f"{backbone} {preset}")
    found = comparison.accuracy(done, recipe, precision)
    pro, pixel_auroc, image_auroc = (
        group_means({c: values[metric][0] for c, values in found.items()})["overall"]
        for metric in METRICS
    )
    spreads = [s for values in found.values() if (s := values["pro"][1]) is not None]
    spread = sum(spreads) / len(spreads) if spreads else None
    p50, megabytes = float(timing["host_ms"]["p50"]), timing["size_bytes"] / 1e6
    names = (backbone, preset, precision, backend)
    return Row(*names, pro, pixel_auroc, image_auroc, spread, p50, megabytes)


def _dot(row: Row) -> Dot | None:
    if row.pro is None:
        return None
    where = "" if row.backend == "cpu" else f", {row.backend}"
    return Dot(
        name=f"{row.backbone} {row.precision}{where}",
        ms=row.p50_ms,
        value=row.pro,
        size_mb=row.megabytes,
        group=row.preset,
    )


def _figures(comparison: Comparison) -> Iterator[Figure]:
    yield Figure(
        title="PRO against milliseconds",
        file="pareto.png",
        note="Area of a dot: size of the file. Dotted, and bold in the list: no other model is "
        "faster and as accurate.",
    )
    first = comparison.datasets[0].name
    file = f"examples-{first}.png"
    if (comparison.out / file).is_file():
        yield Figure(title=f"Example maps: {first}", file=file, shareable=False)


def _summary(rows: list[Row], comparison: Comparison) -> Table:
    names = [dataset.name for dataset in comparison.datasets]
    return Table(
        title="Summary",
        columns=(
            *(Column(name="backbone"), Column(name="preset"), Column(name="precision")),
            Column(name="backend"),
            *(Column(name="PRO", better="high"), Column(name="pixel AUROC", better="high")),
            *(Column(name="image AUROC", better="high"), Column(name="std of PRO", digits=4)),
            *(Column(name="p50 ms", digits=2, better="low"), Column(name="MB", digits=1)),
        ),
        rows=tuple(rows),
        note=f"Accuracy of the exported file in ONNX Runtime, means over {', '.join(names)}; "
        f"seeds: {comparison.options.seeds}.",
    )


def _by_category(comparison: Comparison, done: Done) -> Iterator[Table]:
    for metric, title in (("pro", "PRO by category"), ("image_auroc", "Image AUROC by category")):
        rows: list[tuple[Cell, ...]] = []
        for recipe in comparison.options.recipes:
            for precision in recipe.precisions:
                found = comparison.accuracy(done, recipe, precision)
                if found:
                    cells = [
                        found[d.name][metric][0] if d.name in found else None
                        for d in comparison.datasets
                    ]
                    rows.append((f"{recipe.name} {precision}", *cells))
        columns = [Column(name="model")]
        columns += [Column(name=d.name, better="high") for d in comparison.datasets]
        yield Table(title=title, columns=tuple(columns), rows=tuple(rows))


def _findings(rows: list[Row], dots: list[Dot]) -> Iterator[str]:
    for dot in pareto_front(dots):
        yield (
            f"{dot.name} ({dot.group}): mean PRO {dot.value:.3f} in {dot.ms:.1f} ms, "
            f"{dot.size_mb:.0f} MB; nothing here is faster and as accurate."
        )
    edge, paper = (
        {
            (row.backbone, row.backend): row
            for row in rows
            if (row.preset, row.precision) == (preset, "fp32")
        }
        for preset in ("edge", "paper")
    )
    for key in edge:
        if key in paper:
            yield edge_beside_paper(edge[key], paper[key])
    yield from costs_of_precision(rows)


def edge_beside_paper(edge: Row, paper: Row) -> str:
    """Whether the preset `edge` keeps its promise: more accurate in less time."""
    where = "" if edge.backend == "cpu" else f" on {edge.backend}"
    pairs = _accuracies(edge, paper)
    parts = [f"{name} {ours:.3f} against {theirs:.3f}" for name, ours, theirs in pairs]
    parts.append(f"{edge.p50_ms:.1f} ms against {paper.p50_ms:.1f}")
    broken = [name for name, ours, theirs in pairs if ours < theirs]
    broken += ["speed"] * (edge.p50_ms >= paper.p50_ms)
    verdict = "better in all of it" if not broken else f"not as expected in {' and '.join(broken)}"
    listed = ", ".join(parts)
    return (
        f"{edge.backbone} {edge.precision}{where}, preset edge against paper: {listed}; {verdict}."
    )


def costs_of_precision(rows: list[Row]) -> Iterator[str]:
    """Graphs that are less accurate than their own fp32 form."""
    exact = {
        (row.backbone, row.preset, row.backend): row for row in rows if row.precision == "fp32"
    }
    for row in rows:
        reference = exact.get((row.backbone, row.preset, row.backend), row)
        lost = [
            f"{name} {found:.3f} against {wanted:.3f}"
            for name, found, wanted in _accuracies(row, reference)
            if wanted - found > NOTABLE
        ]
        if lost:
            name = f"{row.backbone} {row.preset} in {row.precision}"
            yield f"{name} is less accurate than in fp32: {', '.join(lost)}."


def _accuracies(one: Row, other: Row) -> list[tuple[str, float, float]]:
    """PRO and image AUROC of both, where both were measured."""
    pairs = (
        ("PRO", one.pro, other.pro),
        ("image AUROC", one.image_auroc, other.image_auroc),
    )
    return [(name, a, b) for name, a, b in pairs if a is not None and b is not None]
