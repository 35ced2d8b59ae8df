"""The tables of the study of precisions: means beside fp32, categories, forms and heads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgeseg.bench.compare.forms import forms_table
from edgeseg.bench.harness.accuracy import (
    ACCURACY_COLUMNS,
    DECISION_COLUMNS,
    LABELS,
    compared,
    decided,
)
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.bench.harness.units import FAILED, Result
from edgeseg.bench.studies.precision.head_share import HeadRow
from edgeseg.contract.precisions import EXACT

JUDGED = ("pro", "image_auroc", "recall")  # what must stay as it is in fp32
GOAL = 0.003  # how much of each mean a precision may lose
HEAD_GOALS = {"resnet18": 0.12}  # by backbone: the largest share of a frame for the head

_HEAD_NOTE = (
    "The backbone alone has to give its feature maps out, which the whole graph does not: shares "
    "come out a little too small."
)


@dataclass(frozen=True, kw_only=True)
class MeanRow:
    """One backbone in one precision and one backend, over the categories where it was exported."""

    backbone: str = field(metadata=column("backbone"))
    precision: str = field(metadata=column("precision"))
    backend: str = field(metadata=column("backend"))
    categories: int = field(metadata=column("categories"))
    accuracy: dict[str, float | None] = field(metadata=ACCURACY_COLUMNS)
    decided: dict[str, float | None] = field(metadata=DECISION_COLUMNS)
    change: dict[str, float | None] = field(
        metadata=column("{} - fp32", digits=4, signed=True, titles=LABELS)
    )
    head_error: float | None = field(metadata=column("worst head error", digits=5))
    megabytes: float = field(metadata=column("MB", digits=1))


@dataclass(frozen=True, kw_only=True)
class CategoryRow:
    """One figure of one model by category; of what was not exported, none."""

    model: str = field(metadata=column("model"))
    by_category: dict[str, float | None] = field(metadata=column("{}"))


@dataclass(frozen=True, kw_only=True)
class Measured:
    """All results, asked for by what they mean."""

    categories: tuple[str, ...]
    backbones: tuple[str, ...]
    precisions: tuple[str, ...]
    results: dict[str, Result]
    heads: Sequence[Result] = ()

    def of(self, category: str, backbone: str, precision: str) -> Result:
        """One exported file; empty if there is none."""
        return self.results.get(f"{category} {backbone} {precision}", {})

    def files(self) -> Iterator[tuple[str, str, str]]:
        """Backbone, precision and backend of all that was measured somewhere."""
        for backbone in self.backbones:
            for precision in self.precisions:
                known = [self.of(c, backbone, precision) for c in self.categories]
                for backend in dict.fromkeys(b for each in known for b in each.get("accuracy", {})):
                    yield backbone, precision, backend

    def figures(self, backbone: str, precision: str, backend: str) -> dict[str, dict[str, float]]:
        """By category."""
        found = {c: self.of(c, backbone, precision).get("accuracy", {}) for c in self.categories}
        return {c: each[backend] for c, each in found.items() if backend in each}

    def means(self) -> Iterator[MeanRow]:
        """A row for every file; changes are over the categories that both have."""
        for backbone, precision, backend in self.files():
            own = self.figures(backbone, precision, backend)
            exact = self.figures(backbone, EXACT, backend)
            both = [category for category in own if category in exact]
            averages = {key: _mean([own[c][key] for c in own]) for key in LABELS}
            records = [self.of(c, backbone, precision) for c in own]
            heads = [e for r in records for e in r["head_error"].values() if e is not None]
            yield MeanRow(
                backbone=backbone,
                precision=precision,
                backend=backend,
                categories=len(own),
                accuracy=compared(averages),
                decided=decided(averages),
                change={k: _mean([own[c][k] - exact[c][k] for c in both]) for k in JUDGED},
                head_error=max(heads) if heads else None,
                megabytes=sum(record["size_bytes"] for record in records) / len(records) / 1e6,
            )

    def findings(self) -> Iterator[str]:
        """Where a precision keeps fp32's means and a head its share, and where not."""
        for row in self.means():
            if row.precision == EXACT:
                continue
            changes = {LABELS[k]: v for k, v in row.change.items() if v is not None}
            lost = [f"{name} {value:+.4f}" for name, value in changes.items() if value < -GOAL]
            name = f"{row.backbone} {row.precision} on {row.backend}, {row.categories} categories"
            kept = f"within {GOAL} of fp32 or above it in mean {', '.join(changes)}"
            yield f"{name}: {kept if not lost else 'loses ' + ', '.join(lost)}."
        yield from _head_findings(self.heads)


def tables_of(measured: Measured) -> Iterator[Table]:
    """Means, single categories, forms and heads."""
    note = (
        f"Means over {', '.join(measured.categories)}, each file at its own threshold. MB: of a "
        "file on average. Head error: mean, of the map of the same embedding, as a share of its "
        "range; the worst of all categories and backends."
    )
    yield table_of("Precisions", list(measured.means()), note=note)
    for key in (*JUDGED, "false_alarm_rate"):
        label = LABELS[key]
        rows = [
            CategoryRow(
                model=f"{backbone} {precision}, {backend}",
                by_category={
                    c: measured.figures(backbone, precision, backend).get(c, {}).get(key)
                    for c in measured.categories
                },
            )
            for backbone, precision, backend in measured.files()
        ]
        yield table_of(f"{label[:1].upper()}{label[1:]} by category", rows)
    yield from forms_table(_models(measured))
    if measured.heads:
        rows_of_heads = [HeadRow(**values) for values in measured.heads]
        yield table_of("The head: everything behind the backbone", rows_of_heads, note=_HEAD_NOTE)


def _head_findings(heads: Sequence[Result]) -> Iterator[str]:
    """Which heads keep to their goal; three digits, for .125 is not .12."""
    for head in heads:
        goal = HEAD_GOALS.get(head["model"].partition(" ")[0])
        if goal is not None:
            verdict = "met" if head["head_share"] <= goal else "missed"
            yield (
                f"{head['model']} in {head['backend']}: the head takes {head['head_share']:.3f} of "
                f"the frame, goal at most {goal}: {verdict}."
            )


def _models(measured: Measured) -> Iterator[tuple[str, list[Result]]]:
    for backbone in measured.backbones:
        for precision in measured.precisions:
            known = [measured.of(c, backbone, precision) for c in measured.categories]
            yield f"{backbone} {precision}", [_as_form(result) for result in known]


def _as_form(result: Result) -> Result:
    return {FAILED: result["refused_all"]} if "refused_all" in result else result


def _mean(values: Sequence[Any]) -> float | None:
    return sum(values) / len(values) if values else None
