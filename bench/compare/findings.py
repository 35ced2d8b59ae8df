"""Sentences about the rows of a comparison."""

from collections.abc import Iterator, Sequence

from edgeseg.bench.compare.record import ComparedFile
from edgeseg.bench.harness.accuracy import LABELS
from edgeseg.bench.harness.figures import Dot, dot_of, pareto_front

NOTABLE = 0.005  # of PRO or AUROC: less is not worth a sentence
PROMISED = ("pro", "image_auroc")  # what sentences compare


def row_dot(row: ComparedFile) -> Dot | None:
    """Make a row's dot in the Pareto picture; None if something was not measured."""
    value, ms, group = row.accuracy.get("pro"), row.p50_ms, "anomalib"
    if row.settings is not None:
        group = row.settings.preset
    if row.planted_found is not None:
        value, ms, group = row.planted_found, row.streamed_p95_ms, row.backend or ""
    where = "" if row.backend in ("cpu", group) else f", {row.backend}"
    return dot_of(name=f"{row.name}{where}", group=group, ms=ms, value=value, size_mb=row.megabytes)


def findings_of(rows: Sequence[ComparedFile]) -> Iterator[str]:
    """Write what the numbers on test images say, the most important first."""
    judged = [row for row in rows if row.planted_found is None]
    dots = [dot for row in judged if (dot := row_dot(row)) is not None]
    for dot in pareto_front(dots):
        yield (
            f"{dot.name}: mean PRO {dot.value:.3f} in {dot.ms:.1f} ms, "
            f"{dot.size_mb:.0f} MB; nothing here is faster and as accurate."
        )
    yield from edge_beside_paper(judged)
    yield from costs_of_precision(judged)
    yield from peers_beside_ours(judged)


def edge_beside_paper(rows: Sequence[ComparedFile]) -> Iterator[str]:
    """Compare the preset `edge` with `paper`: it should be more accurate in less time."""
    exact = {
        (row.settings.config.backbone, row.backend, row.settings.preset): row
        for row in rows
        if row.settings is not None and row.precision == "fp32" and row.p50_ms is not None
    }
    for (backbone, backend, preset), edge in exact.items():
        paper = exact.get((backbone, backend, "paper"))
        if preset != "edge" or paper is None or edge.p50_ms is None or paper.p50_ms is None:
            continue
        pairs = _accuracies(edge, paper)
        parts = [f"{name} {ours:.3f} against {theirs:.3f}" for name, ours, theirs in pairs]
        parts.append(f"{edge.p50_ms:.1f} ms against {paper.p50_ms:.1f}")
        broken = [name for name, ours, theirs in pairs if ours < theirs]
        broken += ["speed"] * (edge.p50_ms >= paper.p50_ms)
        verdict = f"not as expected in {' and '.join(broken)}" if broken else "better in all of it"
        where = "" if backend == "cpu" else f" on {backend}"
        yield (f"{backbone} fp32{where}, preset edge against paper: {', '.join(parts)}; {verdict}.")


def costs_of_precision(rows: Sequence[ComparedFile]) -> Iterator[str]:
    """Name files that are less accurate than their own fp32 form."""
    exact = {(row.model, row.backend): row for row in rows if row.precision == "fp32"}
    for row in rows:
        reference = exact.get((row.model, row.backend), row)
        lost = [
            f"{name} {reached:.3f} against {wanted:.3f}"
            for name, reached, wanted in _accuracies(row, reference)
            if wanted - reached > NOTABLE
        ]
        if lost:
            yield (
                f"{row.model} in {row.precision} is less accurate than in fp32: {', '.join(lost)}."
            )


def peers_beside_ours(rows: Sequence[ComparedFile]) -> Iterator[str]:
    """Compare each peer with the first of our models, in the same backend."""
    timed = [row for row in rows if row.p50_ms is not None]
    base = next((row for row in timed if row.settings is not None), None)
    for row in timed:
        if base is None or row.settings is not None or row.backend != base.backend:
            continue
        parts = [f"{row.p50_ms:.1f} ms per frame against {base.p50_ms:.1f} of {base.name}"]
        parts += [
            f"{name} {theirs:.3f} against {ours:.3f}"
            for name, theirs, ours in _accuracies(row, base)
        ]
        if row.fit_s is not None and base.fit_s is not None:
            parts.append(f"fit {row.fit_s:.0f} s against {base.fit_s:.0f} s")
        yield f"{row.model}: {'; '.join(parts)}."


def _accuracies(row: ComparedFile, other: ComparedFile) -> list[tuple[str, float, float]]:
    """PRO and image AUROC of both, where both were measured."""
    pairs = ((LABELS[key], row.accuracy.get(key), other.accuracy.get(key)) for key in PROMISED)
    return [(name, a, b) for name, a, b in pairs if a is not None and b is not None]
