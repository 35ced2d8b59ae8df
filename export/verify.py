"""Verify an exported graph: compare it with the reference, after every export."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edgeseg.base.tables import align_columns
from edgeseg.data.samples import frames_at_once
from edgeseg.decision.metrics import auroc
from edgeseg.decision.prediction import above
from edgeseg.export.chance import loss_margin, most_by_chance
from edgeseg.export.precision.tolerances import Tolerance
from edgeseg.export.sessions import Frames, Maps, Run
from edgeseg.model.predictor import VariantPredictor, VariantScores, variant_scores
from edgeseg.model.reference import ReferenceModel

# A share of the map's range. With a holdout the threshold is the very score of an image that is
# verified too: there the last digit decides, and no graph keeps that.
TIED = 1e-4


@dataclass(frozen=True, kw_only=True)
class VerificationFrames:
    """The frames of a comparison: good ones, then copies of them with a planted defect."""

    images: Frames  # (N, H, W, 3)
    source: str  # what the frames are
    planted: int = 0  # of them, at the end
    refitted: bool = False  # through the graph: then its map is another one by right


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How far a candidate is from the reference on the same frames."""

    backend: str
    images: int
    source: str
    map_range: float
    max_error: float  # of the map, as a share of the range
    mean_error: float
    p99_error: float
    score_error: float  # as a share of the highest score
    rank_correlation: float
    flips: int  # verdicts that differ, each at its own threshold; not where both are tied with it
    planted: int
    flagged: tuple[int, int]  # of the frames without a planted defect: reference, candidate
    detected: tuple[int, int]  # of those with one
    auroc: tuple[float, float] | None  # of planted against good
    margin: float  # how far their difference may be from the true one by chance
    head_error: float | None  # mean, on the same embedding; where it was fitted again
    failures: tuple[str, ...]
    other_variants: int | None = None  # frames taken for another one; None: there is one product

    @property
    def passed(self) -> bool:
        """Whether the candidate is within the tolerance."""
        return not self.failures

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        values = asdict(self) | {"passed": self.passed}
        if self.other_variants is None:
            del values["other_variants"]
        return values


def agreement(
    reference: VariantPredictor,
    candidate: VariantPredictor,
    frames: VerificationFrames,
    *,
    backend: str,
    thresholds: tuple[float, float],
    tolerance: Tolerance,
    head_error: float | None = None,
) -> Agreement:
    """Compare maps, scores and verdicts on the same frames.

    `thresholds` are those of the reference and of the candidate. The reference sees one frame at a
    time, so a graph that mixes the frames of a batch is caught.
    """
    scores, error, span, other = _compare(reference, candidate, frames.images)
    verdicts = [above(part, limit) for part, limit in zip(scores, thresholds, strict=True)]
    limits = np.array(thresholds)[:, None]
    tied = (np.abs(np.stack(scores) - limits) <= TIED * span).all(axis=0)
    good = len(frames.images) - frames.planted
    finite = bool(np.isfinite(error).all() and np.isfinite(scores[1]).all())
    # -1 stands for an error that is no number: JSON has none for it.
    error = error if finite else np.full(1, -1.0, np.float32)
    row = Agreement(
        backend=backend,
        images=len(frames.images),
        source=frames.source,
        map_range=span,
        max_error=float(error.max()),
        mean_error=float(error.mean()),
        p99_error=float(np.quantile(error, 0.99)),
        score_error=_score_error(*scores) if finite else -1.0,
        rank_correlation=rank_correlation(*scores) if finite else -1.0,
        flips=int(np.sum((verdicts[0] != verdicts[1]) & ~tied)),
        planted=frames.planted,
        flagged=(int(verdicts[0][:good].sum()), int(verdicts[1][:good].sum())),
        detected=(int(verdicts[0][good:].sum()), int(verdicts[1][good:].sum())),
        auroc=_separations(scores, good=good) if finite and frames.planted else None,
        margin=loss_margin(*scores, good=good) if finite and frames.planted else 0.0,
        head_error=head_error if head_error is None or np.isfinite(head_error) else -1.0,
        failures=("not finite",),
        other_variants=other,
    )
    if not finite or row.head_error == -1.0:
        return row
    order = order_agreement(*scores, apart=tolerance.mean_error * span)
    failures = _failures(row, tolerance, order=order, refitted=frames.refitted)
    return Agreement(**{**vars(row), "failures": failures})


def _separations(scores: tuple[Maps, Maps], *, good: int) -> tuple[float, float]:
    labels = (np.arange(len(scores[0])) >= good).astype(np.int64)
    wanted, candidate = (auroc(part, labels) or 0.0 for part in scores)
    return wanted, candidate


def _score_error(wanted: Maps, candidate: Maps) -> float:
    """Return the largest difference of scores, which need not come from the cells of the map."""
    return float(np.abs(wanted - candidate).max()) / max(float(wanted.max()), 1e-6)


def _compare(
    reference: VariantPredictor, candidate: VariantPredictor, frames: Frames
) -> tuple[tuple[Maps, Maps], Maps, float, int | None]:
    """Return both scores, the map's error as a share of its range, that range, other variants.

    Large frames are compared a few at a time, and only the difference of their maps is kept.
    """
    step = frames_at_once(frames.shape[1:3], most=len(frames))
    scores, errors, low, high = [], [], np.inf, -np.inf
    others: list[int] = []
    for start in range(0, len(frames), step):
        part = frames[start : start + step]
        one_by_one = [variant_scores(reference(frame[None])) for frame in part]
        wanted = np.concatenate([one.maps for one in one_by_one])
        found = variant_scores(candidate(part))
        scores.append((np.concatenate([one.scores for one in one_by_one]), found.scores))
        others += _other_variants(one_by_one, found)
        errors.append(np.abs(wanted - found.maps))
        low, high = min(low, float(wanted.min())), max(high, float(wanted.max()))
    span = max(high - low, 1e-6)
    first, second = (np.concatenate(both) for both in zip(*scores, strict=True))
    error = np.concatenate(errors)
    error /= span
    return (first, second), error, span, sum(others) if others else None


def _other_variants(wanted: Sequence[VariantScores], found: VariantScores) -> list[int]:
    """Return 1 for each frame that is taken for another variant, else 0; nothing of one product."""
    if found.variants is None:
        return []
    pairs = zip(wanted, found.variants.tolist(), strict=True)
    return [int(one.variants is None or one.variants[0] != number) for one, number in pairs]


@torch.no_grad()
def head_error(model: ReferenceModel, run: Run, frames: Frames) -> float:
    """Measure the mean error of the map, or of the score, that a graph makes of its own embedding.

    The larger one counts: of maps as a share of their range, of scores as half a share of the
    highest one, because a score is the mean of few cells and a map is blurred. `run` gives the
    embedding (N, P, k), the map and the score of each frame.
    """
    total, low, high = np.zeros(2), np.inf, np.zeros(2)
    for frame in frames:
        embedded, maps, scores = run(frame[None])
        grid = torch.from_numpy(embedded).mT.reshape(1, -1, *model.windows.grid_hw)
        cells = model.mask_ignored(model.distances(grid))
        wanted_map, wanted_score = (values.numpy() for values in model.to_image(cells))
        total += np.abs(wanted_map - maps).mean(), np.abs(wanted_score - scores).mean()
        low = min(low, float(wanted_map.min()))
        high = np.maximum(high, (float(wanted_map.max()), float(wanted_score.max())))
    shares = total / len(frames) / np.maximum(high - (low, 0.0), 1e-6)
    return float((shares / (1.0, 2.0)).max())


def _failures(
    row: Agreement, limits: Tolerance, *, order: float, refitted: bool
) -> tuple[str, ...]:
    """List in words what is beyond the tolerance."""
    # A few images with scores nearer to each other than what may differ have no order to lose.
    ranks = max(row.rank_correlation, order)
    checks: list[tuple[str, float, str, float]] = []
    if refitted:
        checks += [("head error", row.head_error or 0.0, "<=", limits.head_error)]
    else:
        checks += [
            ("max error", row.max_error, "<=", limits.max_error),
            ("mean error", row.mean_error, "<=", limits.mean_error),
            ("score error", row.score_error, "<=", limits.max_error),
        ]
    checks += [
        ("rank correlation", ranks, ">=", limits.min_rank_correlation),
        ("verdicts that differ", row.flips, "<=", most_by_chance(limits.max_flips, row.images)),
    ]
    if row.other_variants is not None:
        most = most_by_chance(limits.max_flips, row.images)
        checks.append(("frames taken for another variant", row.other_variants, "<=", most))
    if row.auroc is not None:
        loss = row.auroc[0] - row.auroc[1]
        limit = round(limits.max_loss + row.margin, 4)
        checks += [("loss of AUROC on planted defects", loss, "<=", limit)]
    return tuple(
        f"{name} {value:.2g}, expected {sign} {limit:g}"
        for name, value, sign, limit in checks
        if not (value <= limit if sign == "<=" else value >= limit)
    )


def order_agreement(
    wanted: NDArray[np.floating[Any]], candidate: NDArray[np.floating[Any]], *, apart: float
) -> float:
    """Measure how well pairs of scores keep their order, from 1 to -1.

    Only pairs that are more than `apart` apart count.
    """
    wanted_steps, steps = (a[:, None] - a[None, :] for a in (wanted, candidate))
    clear = wanted_steps > apart
    return float(np.sign(steps[clear]).mean()) if clear.any() else 1.0


def rank_correlation(a: NDArray[np.floating[Any]], b: NDArray[np.floating[Any]]) -> float:
    """Spearman's correlation of ranks; equal values share a rank.

    It is undefined where all values are equal: then 1.0 if they are in both, else 0.0.
    """
    centred = [ranks - ranks.mean() for ranks in (_ranks(a), _ranks(b))]
    norms = [float(np.linalg.norm(ranks)) for ranks in centred]
    if min(norms) == 0.0:
        return 1.0 if max(norms) == 0.0 else 0.0
    return float(centred[0] @ centred[1]) / (norms[0] * norms[1])


def _ranks(values: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: NDArray[np.float64] = (last - (counts - 1) / 2.0)[inverse]
    return ranks


def table(rows: Sequence[Agreement]) -> str:
    """Format the comparison as a table for people."""
    refitted = any(row.head_error is not None for row in rows)
    errors: dict[str, Callable[[Agreement], str]] = {
        "head error": lambda row: f"{row.head_error or 0.0:.1e}"
    }
    if not refitted:
        errors = {
            "max error": lambda row: f"{row.max_error:.1e}",
            "mean error": lambda row: f"{row.mean_error:.1e}",
        }
    columns: dict[str, Callable[[Agreement], str]] = {
        "backend": lambda row: row.backend,
        **errors,
        "ranks": lambda row: f"{row.rank_correlation:.4f}",
        "same verdict": lambda row: f"{row.images - row.flips} of {row.images}",
    }
    if any(row.planted for row in rows):
        columns |= {
            "good flagged": lambda row: _both(row.flagged, row.images - row.planted),
            "planted found": lambda row: _both(row.detected, row.planted),
            "AUROC": lambda row: "-" if row.auroc is None else f"{row.auroc[1]:.3f}",
        }
    columns["verdict"] = lambda row: "; ".join(row.failures) or "agrees"
    cells = [list(columns), *([text(row) for text in columns.values()] for row in rows)]
    lines = align_columns(cells, last_left=True)
    return "\n".join([*lines, _legend(rows[0], refitted=refitted)])


def _both(counts: tuple[int, int], of: int) -> str:
    reference, candidate = counts
    return f"{candidate} of {of}" + ("" if reference == candidate else f" (fp32 {reference})")


def _legend(row: Agreement, *, refitted: bool) -> str:
    frames = f"on {row.images} frames ({row.source})"
    if not refitted:
        return f"errors are shares of the reference map's range, {frames}"
    separation = "" if row.auroc is None else f"; AUROC of fp32 {row.auroc[0]:.3f}"
    return (
        "head error: against the reference's from the same embedding, of the map as a share of its "
        "range, or half that of the score; the rest against fp32, each at its own threshold, "
        f"{frames}{separation}"
    )
