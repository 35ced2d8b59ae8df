"""Test images that a model judged wrongly, and whether another threshold would do better.

The thresholds come from the scores of good images that the model carries, as those of
`edgeseg threshold` do: the test images only show the effect of each.
"""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.decision.judgement import Verdict, is_alarming
from edgeseg.decision.metrics import VerdictMetrics, f1_at
from edgeseg.decision.operating_point import p_value, rate_threshold
from edgeseg.decision.score_origin import Promise
from edgeseg.evaluation.evaluate import Evaluation

MISS, FALSE_ALARM = "miss", "false alarm"
RATES = (0.005, 0.01, 0.02, 0.05, 0.1)  # of false alarms, to try
# From here on the order of the scores is not what limits a model, and its recall is no complaint.
RANKS_WELL, FINDS_ENOUGH = 0.9, 0.8


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A test image with the wrong verdict."""

    error: str  # MISS or FALSE_ALARM
    kind: str
    verdict: Verdict
    score: float
    p_value: float  # how often a good part looks at least this odd
    path: str


def error_of(verdict: Verdict, *, label: int) -> str | None:
    """Return what a verdict got wrong, or None; a doubt raises no alarm, so it misses a defect."""
    if is_alarming(verdict) == bool(label):
        return None
    return MISS if label else FALSE_ALARM


def distance_of(score: float, verdict: Verdict, threshold: float) -> float:
    """Return how far a mistake is from the threshold; infinite where no threshold would help."""
    helps = verdict in ("good", "unsure", "defect") and not math.isnan(score)
    return abs(score - threshold) if helps else math.inf


def mistakes(
    evaluation: Evaluation, good_scores: Sequence[float] | NDArray[np.floating[Any]]
) -> tuple[Mistake, ...]:
    """Return all mistakes, the farthest from the threshold first."""
    found = evaluation
    rows = zip(found.verdicts, found.scores, found.labels, found.kinds, found.paths, strict=True)
    wrong = [
        Mistake(
            error=error,
            kind=kind,
            verdict=verdict,
            score=score,
            p_value=p_value(score, good_scores),
            path=path,
        )
        for verdict, score, label, kind, path in rows
        if (error := error_of(verdict, label=label))
    ]
    wrong.sort(key=lambda each: -distance_of(each.score, each.verdict, evaluation.threshold))
    return tuple(wrong)


def mistakes_csv(wrong: Sequence[Mistake]) -> str:
    """Write a table for spreadsheets."""
    text = io.StringIO()
    names = [field.name for field in fields(Mistake)]
    table = csv.DictWriter(text, names, lineterminator="\n")
    table.writeheader()
    table.writerows(asdict(each) for each in wrong)
    return text.getvalue()


def limit_sentence(
    evaluation: Evaluation,
    good_scores: Sequence[float] | NDArray[np.floating[Any]],
    *,
    promise: Promise,
    model: str,
) -> str | None:
    """Say what limits a model that ranks well but finds little, and the rate that would do."""
    auroc, recall = evaluation.image_auroc, evaluation.recall
    if auroc is None or recall is None or auroc < RANKS_WELL or recall >= FINDS_ENOUGH:
        return None
    fact = f"ranks well (image AUROC {auroc:.2f}) but finds {recall:.0%} at its threshold"
    scores = np.asarray(good_scores, np.float64).tolist()
    better = _better_rate(evaluation, scores, recall=recall, promise=promise)
    if better is None:
        return (
            f"{fact}, and no false-alarm rate up to {RATES[-1]:.0%} that its {len(scores)} good "
            "images can answer for finds more: fit on more of them, or look for odd ones among "
            "them (edgeseg fit DATA --robust)"
        )
    rate, at_rate = better
    good = evaluation.images - evaluation.anomalies
    return (
        f"{fact}: at a false-alarm rate of {rate:.1%} it would find {at_rate.recall:.0%} and flag "
        f"{at_rate.false_positives} of {good} good test images "
        f"(edgeseg threshold {model} --rate {rate:g})"
    )


def _better_rate(
    evaluation: Evaluation, good_scores: Sequence[float], *, recall: float, promise: Promise
) -> tuple[float, VerdictMetrics] | None:
    """Return the lowest rate that finds enough, or else the most; None where none finds more."""
    tried: dict[float, VerdictMetrics] = {}
    for rate in RATES:
        chosen = rate_threshold(good_scores, false_alarm_rate=rate, promise=promise)
        if chosen.rate <= rate:  # or else there are too few good images for this promise
            tried[rate] = f1_at(evaluation.ranks, evaluation.labels, threshold=chosen.value)
    recalls = {rate: decision.recall or 0.0 for rate, decision in tried.items()}
    wanted = min(FINDS_ENOUGH, max(recalls.values(), default=0.0))
    rates = (rate for rate in tried if recalls[rate] >= wanted > recall)
    return next(((rate, tried[rate]) for rate in rates), None)
