"""The tables of the study of int8 backbones: means of each way of rounding, and categories."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from edgeseg.bench.harness.accuracy import (
    ACCURACY_COLUMNS,
    DECISION_COLUMNS,
    LABELS,
    compared,
    decided,
)
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.bench.harness.units import Result
from edgeseg.bench.studies.precision.precision_tables import GOAL, JUDGED
from edgeseg.contract.precisions import EXACT
from edgeseg.model.backbones import backbone_spec

NOTE = (
    "noise: what rounding adds to the embedding of good images, as a share of how these vary. "
    "Accuracy: of the model fitted again through the rounded graph in ONNX Runtime, with an exact "
    "head. Milliseconds: of the whole graph with int8 factors, idle threads asleep (no spin); "
    "processor: of all threads for a streamed frame."
)


@dataclass(frozen=True, kw_only=True)
class MeanRow:
    """One way of rounding, over all categories."""

    variant: str = field(metadata=column("rounding"))
    noise: float = field(metadata=column("noise / variation", digits=4, better="low"))
    accuracy: dict[str, float | None] = field(metadata=ACCURACY_COLUMNS)
    decided: dict[str, float | None] = field(metadata=DECISION_COLUMNS)
    times: dict[str, float] = field(
        metadata=column("{}", digits=2, better="low"), default_factory=dict
    )


@dataclass(frozen=True, kw_only=True)
class CategoryRow:
    """One way of rounding on one category."""

    category: str = field(metadata=column("category"))
    variant: str = field(metadata=column("rounding"))
    noise: float = field(metadata=column("noise / variation", digits=4))
    accuracy: dict[str, float | None] = field(metadata=ACCURACY_COLUMNS)
    decided: dict[str, float | None] = field(metadata=DECISION_COLUMNS)


@dataclass(frozen=True, kw_only=True)
class Rounded:
    """All results, asked for by what they mean."""

    backbone: str
    categories: tuple[str, ...]
    variants: tuple[str, ...]
    results: dict[str, Result]  # of `category, variant`
    timings: Sequence[Result] = ()

    def means(self) -> list[MeanRow]:
        """A row for every way of rounding."""
        rows = []
        for variant in self.variants:
            found = [self.results[f"{category}, {variant}"] for category in self.categories]
            averages = {k: _mean([e[k] for e in found]) for k in LABELS if k in found[0]}
            rows.append(
                MeanRow(
                    variant=variant,
                    noise=sum(each["noise"] for each in found) / len(found),
                    accuracy=compared(averages),
                    decided=decided(averages),
                    times=self._times(variant),
                )
            )
        return rows

    def _times(self, variant: str) -> dict[str, float]:
        cells: dict[str, float] = {}
        for timing in self.timings:
            name, _, backend = timing["key"].rpartition(" on ")
            if name == variant:
                cells[f"p50 ms {backend}"] = timing["host_ms"]["p50"]
                cells[f"streamed p50 ms {backend}"] = timing["streamed_ms"]["p50"]
                cells[f"processor ms {backend}"] = timing["streamed_processor_ms"]
        return cells

    def tables(self) -> Iterator[Table]:
        """Means first."""
        title = f"{self.backbone} in int8, means over {', '.join(self.categories)}"
        yield table_of(title, self.means(), note=NOTE)
        rows = []
        for name in (f"{c}, {v}" for c in self.categories for v in self.variants):
            category, _, variant = name.partition(", ")
            found = self.results[name]
            figures = {key: found[key] for key in LABELS if key in found}
            rows.append(
                CategoryRow(
                    category=category,
                    variant=variant,
                    noise=found["noise"],
                    accuracy=compared(figures),
                    decided=decided(figures),
                )
            )
        yield table_of("By category", rows)

    def findings(self) -> Iterator[str]:
        """What is shipped, which ways keep fp32's accuracy, and which of these save time."""
        spec = backbone_spec(self.backbone)
        layers = (
            f"with its first {spec.exact_layers} layers in fp32" if spec.exact_layers else "all"
        )
        yield (
            f"`edgeseg export` rounds the backbone of {self.backbone} for CPUs: {layers}."
            if spec.int8_on_cpus
            else f"`edgeseg export` leaves the backbone of {self.backbone} in fp32 for CPUs."
        )
        means = self.means()
        exact = next((row for row in means if row.variant == EXACT), None)
        if exact is None or not exact.accuracy:
            return
        kept = [row for row in means if row is not exact and _keeps(row, exact)]
        names = ", ".join(row.variant for row in kept) or "none"
        labels = ", ".join(LABELS[key] for key in JUDGED)
        yield f"Within {GOAL} of fp32 or above it in mean {labels}: {names}."
        for cell, time in exact.times.items():
            fastest = min(kept, key=lambda row: row.times[cell], default=exact)
            if fastest is not exact:
                least, name = fastest.times[cell], fastest.variant
                yield f"{cell}: fp32 {time:.2f}, the fastest of these {least:.2f} ({name})."


def _keeps(row: MeanRow, exact: MeanRow) -> bool:
    own, than = row.accuracy | row.decided, exact.accuracy | exact.decided
    both = [(own[key], than[key]) for key in JUDGED]
    return all(a is not None and b is not None and a >= b - GOAL for a, b in both)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
