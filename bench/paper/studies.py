"""Tables of the paper's discussion: PRO over k, eigenvalues, the inverse, other datasets."""

from edgeseg.bench.harness.sampling import mean_std
from edgeseg.bench.harness.tabular import Cell, Column, Table
from edgeseg.bench.paper import published
from edgeseg.bench.paper.inverse_time import SIZES
from edgeseg.bench.paper.results import ABLATION, Findings

KIND_NAMES = {
    "semi_orthogonal": "semi-orthogonal",
    "sampled": "sampled features",
    "gaussian": "Gaussian",
}


def _curve(findings: Findings) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for size in findings.options.curve_sizes:
        row: list[Cell] = [size]
        for kind in KIND_NAMES:
            row += list(findings.curve(kind, size) or (None, None))
        if any(cell is not None for cell in row[1:]):
            rows.append(tuple(row))
    columns = [Column(name="k")]
    for name in KIND_NAMES.values():
        columns += [Column(name=name), Column(name="std", digits=4)]
    return Table(
        title="PRO over the size of the embedding",
        columns=tuple(columns),
        rows=tuple(rows),
        note=f"ResNet-18, means over {len(findings.categories)} categories and "
        f"{findings.options.curve_seeds} seeds; std: mean of the categories' deviations.",
    )


def _eigen(findings: Findings) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for category in findings.categories:
        shares = {kind: findings.shares(category, kind) for kind in KIND_NAMES}
        if not all(shares.values()):
            continue
        row: list[Cell] = [category]
        for kind in KIND_NAMES:
            row += list(mean_std(shares[kind]))
        rows.append((*row, published.EIGEN_SHARE.get(category)))
    columns = [Column(name="category")]
    for name in KIND_NAMES.values():
        columns += [Column(name=name, digits=4), Column(name="std", digits=4)]
    columns.append(Column(name="published, sampled", digits=4))
    return Table(
        title="Share of eigenvalues of W'CW above 1e-4 (rank collapse)",
        columns=tuple(columns),
        rows=tuple(rows),
        note="k=100, all locations of the 64 x 64 grid, before the ridge is added.",
    )


def _inverse(findings: Findings) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for k in SIZES:
        found = {
            method: findings.done.results.get(f"inverse k{k} {method}")
            for method in ("cholesky", "eigenvectors", "svd")
        }
        if all(result is None for result in found.values()):
            continue
        seconds = [None if r is None else float(r["grid_seconds"]) for r in found.values()]
        measured = [str(r["locations"]) for r in found.values() if r is not None]
        memory = next(float(r["factor_mb"]) for r in found.values() if r is not None)
        rows.append((k, *seconds, memory, published.SVD_SECONDS.get(k), ", ".join(measured)))
    return Table(
        title="Seconds for the batched inverse of a 64 x 64 grid",
        columns=(
            *(Column(name="k"), Column(name="Cholesky (full rank)", digits=2)),
            *(Column(name="eigenvectors (rank 0.64 k)", digits=2), Column(name="SVD", digits=1)),
            *(Column(name="factors MB", digits=0), Column(name="published SVD, GPU", digits=1)),
            Column(name="locations timed"),
        ),
        rows=tuple(rows),
        note="Scaled to 4096 locations where fewer were timed. Published: PyTorch 1.5 on a "
        "Quadro RTX 6000.",
    )


def _kolektor(findings: Findings) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, row in published.KOLEKTOR.items():
        embedding = ABLATION[name].embedding
        folds = [
            findings.seeds(f"kolektor-fold{n}", "resnet18", embedding, 100, "pixel_auroc")
            for n in (1, 2, 3)
        ]
        second = findings.seeds("kolektor2", "resnet18", embedding, 100, "pixel_auroc")
        if not any(folds) and not second:
            continue
        means = [mean_std(values)[0] if values else None for values in folds]
        known = [mean for mean in means if mean is not None]
        mean, spread = mean_std(known) if known else (None, None)
        rows.append(
            (
                *(name, *means, mean, spread, row.mean),
                *(mean_std(second) if second else (None, None)),
                row.second,
            )
        )
    columns = [Column(name=n) for n in ("model", "fold 1", "fold 2", "fold 3", "mean", "std")]
    columns += [Column(name="published mean"), Column(name="KolektorSDD2"), Column(name="std")]
    columns += [Column(name="published KolektorSDD2")]
    return Table(
        title="KolektorSDD and KolektorSDD2 (pixel ROC, 704 x 256)",
        columns=tuple(columns),
        rows=tuple(rows),
        note="Means over three seeds; the deviation of the folds is over folds, as published.",
    )


def _mstc(findings: Findings) -> Table:
    rows = [
        (name, float(found["pixel_auroc"]), published.MSTC[name])
        for name in published.MSTC
        if (found := findings.done.results.get(f"mstc resnet18 {ABLATION[name].embedding}"))
    ]
    columns = tuple(Column(name=name) for name in ("model", "ours", "published"))
    return Table(title="mSTC (pixel ROC)", columns=columns, rows=tuple(rows))


STUDIES = (_curve, _eigen, _inverse, _kolektor, _mstc)
