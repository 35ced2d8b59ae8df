"""The paper's tables, ours beside the published numbers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from edgeseg.bench.fit_cost.fits import SIZES
from edgeseg.bench.fit_cost.inverse_time import METHODS
from edgeseg.bench.harness.accuracy import group_means
from edgeseg.bench.harness.sampling import mean_std
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.bench.paper import published
from edgeseg.bench.paper.results import ABLATION, KIND_NAMES, MODELS, RANDOM_ROWS, Findings

MeanStd = tuple[float | None, float | None]


def tables_of(findings: Findings) -> Iterator[Table]:
    """Make every table for which something was measured."""
    for make in TABLES:
        table = make(findings)
        if table.rows:
            yield table


@dataclass(frozen=True, kw_only=True)
class CategoryCells:
    """One model on one category."""

    ours: float | None = field(metadata=column("{} ours"))
    std: float | None = field(metadata=column("std"))
    published: float | None = field(metadata=column("published"))
    difference: float | None = field(metadata=column("difference", signed=True))


@dataclass(frozen=True, kw_only=True)
class CategoryRow:
    """PRO of all models on one category."""

    category: str = field(metadata=column("category"))
    by_model: dict[str, CategoryCells]


def _categories(findings: Findings) -> Table:
    measured = {m: pro for m in published.CATEGORY_PRO if (pro := findings.model(m))}
    rows = [
        CategoryRow(
            category=category,
            by_model={
                model: _beside_published(ours, published.CATEGORY_PRO[model], category)
                for model, ours in measured.items()
            },
        )
        for category in ([*findings.categories, "mean"] if measured else [])
    ]
    return table_of(
        "PRO by category",
        rows,
        note=f"Mean and standard deviation over {findings.options.seeds} random embeddings. The "
        "mean row is over the categories that are here, of both.",
    )


def _beside_published(
    ours: dict[str, tuple[float, float | None]], theirs: dict[str, float], category: str
) -> CategoryCells:
    mean: float | None = None
    std: float | None = None
    known = theirs.get(category)
    if category == "mean":
        common = [c for c in ours if c in theirs]
        if common:
            mean = sum(ours[c][0] for c in common) / len(common)
            known = sum(theirs[c] for c in common) / len(common)
            std = _mean_of([ours[c][1] for c in common])
    elif category in ours:
        mean, std = ours[category]
    difference = None if mean is None or known is None else mean - known
    return CategoryCells(ours=mean, std=std, published=known, difference=difference)


@dataclass(frozen=True, kw_only=True)
class MainRow:
    """One model over all categories."""

    model: str = field(metadata=column("model"))
    backbone: str = field(metadata=column("backbone"))
    texture: float | None = field(metadata=column("texture PRO"))
    object: float | None = field(metadata=column("object PRO"))
    overall: float | None = field(metadata=column("overall PRO", better="high"))
    pixel_roc: float | None = field(metadata=column("pixel ROC"))
    image_roc: float | None = field(metadata=column("image ROC"))
    published_texture: float = field(metadata=column("published texture PRO"))
    published_object: float = field(metadata=column("published object PRO"))
    published_overall: float = field(metadata=column("published overall PRO"))
    published_roc: float | None = field(metadata=column("published pixel ROC"))


def _main(findings: Findings) -> Table:
    rows = []
    for model, theirs in published.MAIN.items():
        pro, pixel, image = (
            group_means({c: mean for c, (mean, _) in findings.model(model, metric).items()})
            for metric in ("pro", "pixel_auroc", "image_auroc")
        )
        if pro["overall"] is None:
            continue
        rows.append(
            MainRow(
                model=model,
                backbone=MODELS[model][0],
                texture=pro["texture"],
                object=pro["object"],
                overall=pro["overall"],
                pixel_roc=pixel["overall"],
                image_roc=image["overall"],
                published_texture=theirs.texture,
                published_object=theirs.object,
                published_overall=theirs.overall,
                published_roc=theirs.roc,
            )
        )
    return table_of(
        "Main table",
        rows,
        note=f"Ours: means over {len(findings.categories)} categories ({_names(findings)}). "
        "Published: over all fifteen, so the two stand side by side and are not subtracted. The "
        "paper has no image ROC.",
    )


@dataclass(frozen=True, kw_only=True)
class AblationRow:
    """One way to approximate the precision matrix, with ResNet-18 and k=100."""

    model: str = field(metadata=column("model"))
    complexity: str = field(metadata=column("complexity"))
    texture: float | None = field(metadata=column("texture"))
    object: float | None = field(metadata=column("object"))
    overall: float | None = field(metadata=column("overall"))
    std: float | None = field(metadata=column("std"))
    published_texture: float = field(metadata=column("published texture"))
    published_object: float = field(metadata=column("published object"))
    published_overall: float = field(metadata=column("published overall"))
    published_std: float | None = field(metadata=column("published std"))
    difference: float | None = field(metadata=column("difference", signed=True))
    inverse_s: float | None = field(metadata=column("inverse s", digits=2))
    factors_mb: float = field(metadata=column("factors MB", digits=1))


def _ablation(findings: Findings) -> Table:
    complete = set(published.CATEGORIES) <= set(findings.categories)
    rows = []
    for name, theirs in published.ABLATION.items():
        by_category = findings.ablation(name)
        if not by_category:
            continue
        means = group_means({c: mean for c, (mean, _) in by_category.items()})
        overall = means["overall"]
        spreads = [std for _, std in by_category.values()] if name in RANDOM_ROWS else []
        seconds, megabytes = findings.factor_cost(name)
        rows.append(
            AblationRow(
                model=name,
                complexity=theirs.complexity,
                texture=means["texture"],
                object=means["object"],
                overall=overall,
                std=_mean_of(spreads),
                published_texture=theirs.texture,
                published_object=theirs.object,
                published_overall=theirs.overall,
                published_std=theirs.std,
                difference=overall - theirs.overall if complete and overall is not None else None,
                inverse_s=seconds,
                factors_mb=megabytes,
            )
        )
    return table_of(
        "Ablation (PRO, ResNet-18, k=100)",
        rows,
        note=f"Ours over {len(findings.categories)} categories ({_names(findings)}), published "
        "over fifteen; a difference is shown only where all fifteen are here. inverse: seconds on "
        "this machine from covariances to factors of the 64 x 64 grid (eigenvectors: the "
        "decomposition of F x F). factors MB: float32, what a frame has to read.",
    )


@dataclass(frozen=True, kw_only=True)
class CurveCells:
    """One kind of embedding at one size."""

    pro: float | None = field(metadata=column("{}"))
    std: float | None = field(metadata=column("std", digits=4))


@dataclass(frozen=True, kw_only=True)
class CurveRow:
    """All kinds of embedding at one size."""

    k: int = field(metadata=column("k"))
    by_kind: dict[str, CurveCells]


def _curve(findings: Findings) -> Table:
    rows = []
    for size in findings.options.curve_sizes:
        points = {name: findings.curve(kind, size) for kind, name in KIND_NAMES.items()}
        if any(points.values()):
            cells = {}
            for name, point in points.items():
                pro, std = point or (None, None)
                cells[name] = CurveCells(pro=pro, std=std)
            rows.append(CurveRow(k=size, by_kind=cells))
    return table_of(
        "PRO over the size of the embedding",
        rows,
        note=f"ResNet-18, means over {len(findings.categories)} categories and "
        f"{findings.options.curve_seeds} seeds; std: mean of the categories' deviations.",
    )


@dataclass(frozen=True, kw_only=True)
class EigenCells:
    """One kind of embedding."""

    share: float = field(metadata=column("{}", digits=4))
    std: float | None = field(metadata=column("std", digits=4))


@dataclass(frozen=True, kw_only=True)
class EigenRow:
    """Eigenvalues of one category."""

    category: str = field(metadata=column("category"))
    by_kind: dict[str, EigenCells]
    published: float | None = field(metadata=column("published, sampled", digits=4))


def _eigen(findings: Findings) -> Table:
    rows = []
    for category in findings.categories:
        shares = {name: findings.shares(category, kind) for kind, name in KIND_NAMES.items()}
        if all(shares.values()):
            cells = {}
            for name, values in shares.items():
                mean, std = mean_std(values)
                cells[name] = EigenCells(share=mean, std=std)
            known = published.EIGEN_SHARE.get(category)
            rows.append(EigenRow(category=category, by_kind=cells, published=known))
    return table_of(
        "Share of eigenvalues of W'CW above 1e-4 (rank collapse)",
        rows,
        note="k=100, all locations of the 64 x 64 grid, before the ridge is added.",
    )


@dataclass(frozen=True, kw_only=True)
class InverseRow:
    """Seconds of the inverse at one size."""

    k: int = field(metadata=column("k"))
    cholesky_s: float | None = field(metadata=column("Cholesky (full rank)", digits=2))
    eigenvectors_s: float | None = field(metadata=column("eigenvectors (rank 0.64 k)", digits=2))
    svd_s: float | None = field(metadata=column("SVD", digits=1))
    factors_mb: float = field(metadata=column("factors MB", digits=0))
    published_svd_s: float | None = field(metadata=column("published SVD, GPU", digits=1))
    locations: str = field(metadata=column("locations timed"))


def _inverse(findings: Findings) -> Table:
    rows = []
    for k in SIZES:
        by_method = {method: findings.inverse(k, method) for method in METHODS}
        measured = [result for result in by_method.values() if result is not None]
        if not measured:
            continue
        seconds = {m: None if r is None else float(r["grid_seconds"]) for m, r in by_method.items()}
        rows.append(
            InverseRow(
                k=k,
                cholesky_s=seconds["cholesky"],
                eigenvectors_s=seconds["eigenvectors"],
                svd_s=seconds["svd"],
                factors_mb=float(measured[0]["factor_mb"]),
                published_svd_s=published.SVD_SECONDS.get(k),
                locations=", ".join(str(result["locations"]) for result in measured),
            )
        )
    return table_of(
        "Seconds for the batched inverse of a 64 x 64 grid",
        rows,
        note="Scaled to 4096 locations where fewer were timed. Published: PyTorch 1.5 on a "
        "Quadro RTX 6000.",
    )


@dataclass(frozen=True, kw_only=True)
class KolektorRow:
    """Pixel ROC of one kind of embedding on both datasets of surface defects."""

    model: str = field(metadata=column("model"))
    folds: dict[str, float | None] = field(metadata=column("fold {}"))
    mean: float | None = field(metadata=column("mean"))
    std: float | None = field(metadata=column("std"))
    published_mean: float = field(metadata=column("published mean"))
    second: float | None = field(metadata=column("KolektorSDD2"))
    second_std: float | None = field(metadata=column("std"))
    published_second: float = field(metadata=column("published KolektorSDD2"))


def _kolektor(findings: Findings) -> Table:
    rows = []
    for name, theirs in published.KOLEKTOR.items():

        def mean_auroc(source: str, embedding: str = ABLATION[name].embedding) -> MeanStd:
            values = findings.seeds(source, "resnet18", embedding, 100, "pixel_auroc")
            return mean_std(values) if values else (None, None)

        folds = {str(number): mean_auroc(f"kolektor-fold{number}")[0] for number in (1, 2, 3)}
        known = [mean for mean in folds.values() if mean is not None]
        mean, std = mean_std(known) if known else (None, None)
        second, second_std = mean_auroc("kolektor2")
        if mean is None and second is None:
            continue
        rows.append(
            KolektorRow(
                model=name,
                folds=folds,
                mean=mean,
                std=std,
                published_mean=theirs.mean,
                second=second,
                second_std=second_std,
                published_second=theirs.second,
            )
        )
    return table_of(
        "KolektorSDD and KolektorSDD2 (pixel ROC, 704 x 256)",
        rows,
        note="Means over three seeds; the deviation of the folds is over folds, as published.",
    )


@dataclass(frozen=True, kw_only=True)
class MstcRow:
    """Pixel ROC of one kind of embedding on mSTC."""

    model: str = field(metadata=column("model"))
    ours: float = field(metadata=column("ours"))
    published: float = field(metadata=column("published"))


def _mstc(findings: Findings) -> Table:
    rows = [
        MstcRow(model=name, ours=float(result["pixel_auroc"]), published=theirs)
        for name, theirs in published.MSTC.items()
        if (result := findings.mstc(ABLATION[name].embedding)) is not None
    ]
    return table_of("mSTC (pixel ROC)", rows)


def _mean_of(values: list[Any]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return mean_std(known)[0] if known else None


def _names(findings: Findings) -> str:
    return ", ".join(findings.categories)


TABLES: tuple[Callable[[Findings], Table], ...] = (
    *(_categories, _main, _ablation),
    *(_curve, _eigen, _inverse, _kolektor, _mstc),
)
