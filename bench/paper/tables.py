"""The paper's tables, ours beside the published numbers."""

from collections.abc import Iterator

import numpy as np

from edgeseg.bench.harness.accuracy import group_means
from edgeseg.bench.harness.sampling import mean_std
from edgeseg.bench.harness.tabular import Cell, Column, Table
from edgeseg.bench.paper import published
from edgeseg.bench.paper.inverse_time import LOCATIONS, SIZES
from edgeseg.bench.paper.results import ABLATION, MODELS, RANDOM_ROWS, Findings
from edgeseg.bench.paper.studies import STUDIES

__all__ = ["Findings", "tables_of"]


def tables_of(findings: Findings) -> Iterator[Table]:
    """Every table for which something was measured."""
    makers = (_categories, _main, _ablation, *STUDIES)
    for make in makers:
        table = make(findings)
        if table.rows:
            yield table


def _categories(findings: Findings) -> Table:
    models = [m for m in published.CATEGORY_PRO if findings.model(m)]
    columns = [Column(name="category")]
    for model in models:
        columns += [
            Column(name=f"{model} ours"),
            Column(name="std"),
            Column(name="published"),
            Column(name="difference", signed=True),
        ]
    rows: list[tuple[Cell, ...]] = []
    measured = {model: findings.model(model) for model in models}
    for category in [*findings.categories, "mean"] if models else []:
        row: list[Cell] = [category]
        for model in models:
            row += _ours_and_theirs(measured[model], published.CATEGORY_PRO[model], category)
        rows.append(tuple(row))
    return Table(
        title="PRO by category",
        columns=tuple(columns),
        rows=tuple(rows),
        note=f"Mean and standard deviation over {findings.options.seeds} random embeddings. The "
        "mean row is over the categories that are here, of both.",
    )


def _ours_and_theirs(
    ours: dict[str, tuple[float, float | None]], theirs: dict[str, float], category: str
) -> list[Cell]:
    if category == "mean":
        common = [c for c in ours if c in theirs]
        if not common:
            return [None] * 4
        mean = sum(ours[c][0] for c in common) / len(common)
        other = sum(theirs[c] for c in common) / len(common)
        spreads = [spread for c in common if (spread := ours[c][1]) is not None]
        return [mean, mean_std(spreads)[0] if spreads else None, other, mean - other]
    if category not in ours:
        return [None, None, theirs.get(category), None]
    mean, spread = ours[category]
    known = theirs.get(category)
    return [mean, spread, known, None if known is None else mean - known]


def _main(findings: Findings) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for model, row in published.MAIN.items():
        pro, roc = findings.model(model), findings.model(model, "pixel_auroc")
        if not pro:
            continue
        means = group_means({c: mean for c, (mean, _) in pro.items()})
        image = findings.model(model, "image_auroc")
        rows.append(
            (
                model,
                MODELS[model][0],
                means["texture"],
                means["object"],
                means["overall"],
                group_means({c: mean for c, (mean, _) in roc.items()})["overall"],
                group_means({c: mean for c, (mean, _) in image.items()})["overall"],
                *(row.texture, row.object, row.overall, row.roc),
            )
        )
    names = ("texture PRO", "object PRO", "overall PRO", "pixel ROC", "image ROC")
    columns = [Column(name="model"), Column(name="backbone")]
    columns += [Column(name=name, better="high" if "overall" in name else "") for name in names]
    columns += [Column(name=f"published {name}") for name in names[:4]]
    return Table(
        title="Main table",
        columns=tuple(columns),
        rows=tuple(rows),
        note=f"Ours: means over {len(findings.categories)} categories ({_names(findings)}). "
        "Published: over all fifteen, so the two stand side by side and are not subtracted. The "
        "paper has no image ROC.",
    )


def _ablation(findings: Findings) -> Table:
    complete = set(published.CATEGORIES) <= set(findings.categories)
    rows: list[tuple[Cell, ...]] = []
    for name, row in published.ABLATION.items():
        found = findings.ablation(name)
        if not found:
            continue
        means = group_means({c: mean for c, (mean, _) in found.items()})
        overall = means["overall"]
        spreads = [spread for _, spread in found.values() if spread is not None]
        difference = overall - row.overall if complete and overall is not None else None
        seconds, megabytes = _cost(findings, name)
        rows.append(
            (
                *(name, row.complexity, means["texture"], means["object"], overall),
                mean_std(spreads)[0] if spreads and name in RANDOM_ROWS else None,
                *(row.texture, row.object, row.overall, row.std, difference),
                *(seconds, megabytes),
            )
        )
    names = ("texture", "object", "overall", "std")
    columns = [Column(name="model"), Column(name="complexity")]
    columns += [Column(name=name) for name in names]
    columns += [Column(name=f"published {name}") for name in names]
    columns += [Column(name="difference", signed=True)]
    columns += [Column(name="inverse s", digits=2), Column(name="factors MB", digits=1)]
    return Table(
        title="Ablation (PRO, ResNet-18, k=100)",
        columns=tuple(columns),
        rows=tuple(rows),
        note=f"Ours over {len(findings.categories)} categories ({_names(findings)}), published "
        "over fifteen; a difference is shown only where all fifteen are here. inverse: seconds on "
        "this machine from covariances to factors of the 64 x 64 grid (eigenvectors: the "
        "decomposition of F x F). factors MB: float32, what a frame has to read.",
    )


def _cost(findings: Findings, row: str) -> tuple[float | None, float | None]:
    """Seconds and megabytes of a row's factors, from the timing of the batched inverse."""
    variant = ABLATION[row]
    size = {"Layer 1": 64, "Layer 2": 128, "Layer 3": 256}.get(row, 448)
    kept = 100 if variant.sizes == (100,) else size
    if variant.embedding != "identity":
        size = 100
    locations = 1 if variant.method == "global" else LOCATIONS
    megabytes = locations * size * kept * 4 / 1e6
    method = "eigenvectors" if variant.method == "eigen" else "cholesky"
    timed = {
        k: found["grid_seconds"]
        for k in SIZES
        if (found := findings.done.results.get(f"inverse k{k} {method}")) is not None
    }
    if not timed:
        return None, megabytes
    # Sizes between two that were timed follow the power law between them.
    sizes = sorted(timed)
    seconds = float(
        np.exp(np.interp(np.log(size), np.log(sizes), np.log([timed[k] for k in sizes])))
    )
    return seconds * locations / LOCATIONS, megabytes


def _names(findings: Findings) -> str:
    return ", ".join(findings.categories)
