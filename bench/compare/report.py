"""The report of a comparison: summary, categories, Pareto picture, example maps."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edgeseg.bench.compare.forms import forms_table
from edgeseg.bench.compare.options import CompareOptions, Recipe
from edgeseg.bench.harness.accuracy import (
    ACCURACY_COLUMNS,
    COMPARED,
    DECISION_COLUMNS,
    LABELS,
    by_category,
    compared,
    decided,
    metrics_in,
    over_seeds,
)
from edgeseg.bench.harness.figures import Dot, dot_of, pareto, pareto_front
from edgeseg.bench.harness.report import Figure, Report
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.bench.harness.units import FAILED, Done, Result
from edgeseg.bench.latency.report import (
    STREAMED_COLUMNS,
    computed,
    speed_table,
    streamed,
    timing_facts,
)

NOTABLE = 0.005  # of PRO or AUROC: less is not worth a sentence
PROMISED = ("pro", "image_auroc")  # what sentences compare


@dataclass(frozen=True, kw_only=True)
class Row:
    """One graph on one backend."""

    backbone: str = field(metadata=column("backbone"))
    preset: str = field(metadata=column("preset"))
    precision: str = field(metadata=column("precision"))
    backend: str = field(metadata=column("backend"))
    accuracy: dict[str, float | None] = field(metadata=ACCURACY_COLUMNS)
    decided: dict[str, float | None] = field(metadata=DECISION_COLUMNS)
    pro_std: float | None = field(metadata=column("std of PRO", digits=4))
    p50_ms: float = field(metadata=column("p50 ms", digits=2, better="low"))
    streamed: dict[str, float | None] = field(metadata=STREAMED_COLUMNS)
    computed: dict[str, str | None] = field(metadata=column("{}"))  # of these times
    megabytes: float = field(metadata=column("MB", digits=1))


@dataclass(frozen=True, kw_only=True)
class CategoryRow:
    """One metric of one graph, category by category."""

    model: str = field(metadata=column("model"))
    compared: dict[str, float | None] = field(metadata=column("{}", better="high"))
    decided: dict[str, float | None] = field(metadata=column("{}"))


def unit_name(category: str, recipe: Recipe, seed: int) -> str:
    """How a result is found again."""
    return f"{category} {recipe.name} seed {seed}"


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """All results of a run, asked for by what they mean."""

    options: CompareOptions
    categories: tuple[str, ...]
    done: Done
    timed: Done

    def accuracy(
        self, recipe: Recipe, precision: str
    ) -> dict[str, dict[str, tuple[float, float | None]]]:
        """Metrics by category, each as mean and deviation over seeds."""
        means = {}
        for category in self.categories:
            names = [unit_name(category, recipe, seed) for seed in range(self.options.seeds)]
            known = [self.done.results[n][precision] for n in names if n in self.done.results]
            usable = [result for result in known if FAILED not in result]
            if usable:
                means[category] = over_seeds(usable)
        return means

    def models(self) -> Iterator[tuple[str, list[Result]]]:
        """Every graph that was asked for, with what is known of it in each category and seed."""
        for recipe in self.options.recipes:
            names = [
                unit_name(category, recipe, seed)
                for category in self.categories
                for seed in range(self.options.seeds)
            ]
            for precision in recipe.precisions:
                known = [self.done.results.get(name, {}).get(precision, {}) for name in names]
                yield f"{recipe.name} {precision}", known

    @property
    def metrics(self) -> tuple[str, ...]:
        """Keys of what was measured."""
        return metrics_in(r for models in self.done.results.values() for r in models.values())

    def rows(self) -> Iterator[Row]:
        """One for everything that was timed."""
        for timing in self.timed.results["rounds"]["timings"]:
            label, _, backend = timing["key"].rpartition(" on ")
            backbone, preset, precision = label.split(" ")
            recipe = next(r for r in self.options.recipes if r.name == f"{backbone} {preset}")
            categories = self.accuracy(recipe, precision)
            # A dash where an older run did not measure it, or a category was refused: a mean
            # without the hard ones would flatter whoever failed there.
            overall: dict[str, float | None] = dict.fromkeys(LABELS)
            for key in LABELS:
                values = [found[key][0] for found in categories.values() if key in found]
                if len(values) == len(self.categories):
                    overall[key] = float(np.mean(values))
            spreads = [s for values in categories.values() if (s := values["pro"][1]) is not None]
            yield Row(
                backbone=backbone,
                preset=preset,
                precision=precision,
                backend=backend,
                accuracy=compared(overall),
                decided=decided(overall),
                pro_std=sum(spreads) / len(spreads) if spreads else None,
                p50_ms=float(timing["host_ms"]["p50"]),
                streamed=streamed(timing),
                computed=computed(timing),
                megabytes=timing["size_bytes"] / 1e6,
            )


def report_of(
    measured: Measurements,
    out: Path,
    *,
    facts: dict[str, Any],
    notes: list[str],
    title: str,
    name: str,
) -> Report:
    """Accuracy and timings side by side."""
    rows = list(measured.rows())
    dots = [dot for row in rows if (dot := _dot(row)) is not None]
    pareto(dots, out / "pareto.png", value_name="mean PRO")
    return Report(
        name=name,
        title=title,
        findings=tuple(findings_of(rows)),
        tables=(*accuracy_tables(measured, rows), speed_table(measured.timed)),
        figures=tuple(_figures(measured, out)),
        facts=facts | timing_facts(measured.timed, measured.done),
        notes=tuple(notes),
        raw={"accuracy": measured.done.results, "timing": measured.timed.results},
    )


def _dot(row: Row) -> Dot | None:
    where = "" if row.backend == "cpu" else f", {row.backend}"
    return dot_of(
        name=f"{row.backbone} {row.precision}{where}",
        group=row.preset,
        ms=row.p50_ms,
        value=row.accuracy["pro"],
        size_mb=row.megabytes,
    )


def _figures(measured: Measurements, out: Path) -> Iterator[Figure]:
    yield Figure(
        title="PRO against milliseconds",
        file="pareto.png",
        note="Area of a dot: size of the file. Dotted, and bold in the list: no other model is "
        "faster and as accurate.",
    )
    first = measured.categories[0]
    file = f"examples-{first}.png"
    if (out / file).is_file():
        yield Figure(title=f"Example maps: {first}", file=file, shareable=False)


def accuracy_tables(measured: Measurements, rows: list[Row]) -> Iterator[Table]:
    """The summary, and every metric by category."""
    yield table_of(
        "Summary",
        rows,
        note="Accuracy of the exported file in ONNX Runtime, means over "
        f"{', '.join(measured.categories)}; seeds: {measured.options.seeds}.",
    )
    yield from forms_table(measured.models())
    for key in by_category(measured.metrics):
        title = f"{LABELS[key][:1].upper()}{LABELS[key][1:]} by category"
        table = table_of(title, list(_category_rows(measured, key)))
        if table.rows:
            yield table


def _category_rows(measured: Measurements, key: str) -> Iterator[CategoryRow]:
    for recipe in measured.options.recipes:
        for precision in recipe.precisions:
            means = measured.accuracy(recipe, precision)
            if means:
                cells = {c: means.get(c, {}).get(key, (None,))[0] for c in measured.categories}
                best, plain = (cells, {}) if key in COMPARED else ({}, cells)
                name = f"{recipe.name} {precision}"
                yield CategoryRow(model=name, compared=best, decided=plain)


def findings_of(rows: list[Row]) -> Iterator[str]:
    """What the numbers say, in the order of importance."""
    for dot in pareto_front([dot for row in rows if (dot := _dot(row)) is not None]):
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
            f"{name} {reached:.3f} against {wanted:.3f}"
            for name, reached, wanted in _accuracies(row, reference)
            if wanted - reached > NOTABLE
        ]
        if lost:
            name = f"{row.backbone} {row.preset} in {row.precision}"
            yield f"{name} is less accurate than in fp32: {', '.join(lost)}."


def _accuracies(row: Row, other: Row) -> list[tuple[str, float, float]]:
    """PRO and image AUROC of both, where both were measured."""
    pairs = ((LABELS[key], row.accuracy[key], other.accuracy[key]) for key in PROMISED)
    return [(name, a, b) for name, a, b in pairs if a is not None and b is not None]
