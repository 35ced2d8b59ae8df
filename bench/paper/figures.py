"""The paper's figures: PRO over k, eigenvalues, seconds of the inverse, and pictures."""

from collections.abc import Iterator
from pathlib import Path

from edgeseg.bench.harness.figures import Curve, curves
from edgeseg.bench.harness.report import Figure
from edgeseg.bench.paper.distances_over_k import Variant
from edgeseg.bench.paper.experiments import unit_name
from edgeseg.bench.paper.results import ABLATION, KIND_NAMES, Findings

NOTHING = 1e-12  # an eigenvalue that is zero but for rounding
EIGEN_CATEGORIES = ("grid", "metal_nut")  # the paper's


def figures_of(findings: Findings, folder: Path) -> Iterator[Figure]:
    """Draw what was measured."""
    yield from _curve(findings, folder)
    yield from _eigenvalues(findings, folder)
    yield from _inverse(findings, folder)
    for category in findings.categories:
        drawn = findings.done.results.get(unit_name(category, "resnet18", "pictures"))
        if drawn is not None:
            yield Figure(
                title=f"Maps: {category}",
                file=str(drawn["file"]),
                note="Left to right: input, sampled features, semi-orthogonal, ground truth; "
                "ResNet-18, k=100, colours from 0 to 10.",
                shareable=False,
            )


def _curve(findings: Findings, folder: Path) -> Iterator[Figure]:
    lines = []
    for kind, name in KIND_NAMES.items():
        points = [(size, findings.curve(kind, size)) for size in findings.options.curve_sizes]
        known = [(size, point) for size, point in points if point is not None]
        if known:
            lines.append(
                Curve(
                    name=name,
                    x=[size for size, _ in known],
                    y=[mean for _, (mean, _) in known],
                    low=[mean - (spread or 0.0) for _, (mean, spread) in known],
                    high=[mean + (spread or 0.0) for _, (mean, spread) in known],
                )
            )
    if not lines:
        return
    best = findings.overall("Full-rank (local)")
    if best is not None:
        ends = [lines[0].x[0], lines[0].x[-1]]
        lines.append(Curve(name="full rank (local)", x=ends, y=[best, best], dashed=True))
    curves(lines, folder / "pro_over_k.png", x_name="k", y_name="mean PRO", log_x=True)
    yield Figure(
        title="PRO over the size of the embedding",
        file="pro_over_k.png",
        note=f"ResNet-18, mean over {', '.join(findings.categories)}; shaded: standard deviation "
        "over seeds.",
    )


def _eigenvalues(findings: Findings, folder: Path) -> Iterator[Figure]:
    wanted = [c for c in findings.categories if c in EIGEN_CATEGORIES] or findings.categories[:1]
    for category in wanted:
        lines = []
        for kind, name in KIND_NAMES.items():
            values = findings.eigenvalues(category, Variant(embedding=kind, sizes=(100,)))
            if values is not None:
                lines.append(Curve(name=name, x=list(range(1, len(values) + 1)), y=values))
        everything = findings.eigenvalues(category, ABLATION["Full-rank (local)"])
        if not lines:
            continue
        note = "Mean over locations, falling order, seed 0."
        if everything is not None:
            smallest = everything[-len(lines[0].x) :]
            if smallest[0] > NOTHING:
                lines.append(Curve(name="k smallest of C", x=lines[0].x, y=smallest, dashed=True))
                note += " k smallest of C: every eighth row of the grid."
            else:
                note += " The k smallest of C are zero: it has more features than images."
        file = f"eigenvalues-{category}.png"
        curves(lines, folder / file, x_name="number", y_name="eigenvalue", log_y=True)
        yield Figure(
            title=f"Eigenvalues of the embedded covariance: {category}",
            file=file,
            note=note,
        )


def _inverse(findings: Findings, folder: Path) -> Iterator[Figure]:
    names = {"cholesky": "Cholesky", "eigenvectors": "eigenvectors", "svd": "SVD"}
    timed = {name: findings.inverse_seconds(method) for method, name in names.items()}
    lines = [
        Curve(name=name, x=list(seconds), y=list(seconds.values()))
        for name, seconds in timed.items()
        if seconds
    ]
    if lines:
        curves(
            lines,
            folder / "inverse_over_k.png",
            x_name="k",
            y_name="seconds for 4096 locations",
            log_x=True,
            log_y=True,
        )
        yield Figure(title="Seconds of the batched inverse over k", file="inverse_over_k.png")
