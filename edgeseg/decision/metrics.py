"""Metrics of a labelled test set; edgeseg.decision.metric_registry names them for every table.

An undefined metric (no anomalous image, no good one, nothing to divide by) is None, which JSON can
store.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.decision.prediction import above
from edgeseg.decision.pro import MapScores


@dataclass(frozen=True, kw_only=True)
class VerdictMetrics:
    """Metrics of the verdicts at one threshold; None where there is nothing to divide by."""

    f1: float | None
    precision: float | None
    recall: float | None
    false_alarm_rate: float | None  # share of the good images that are flagged
    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int


@dataclass(frozen=True, kw_only=True)
class LabelledResults:
    """The results of a model on a labelled test set, from which metrics are computed."""

    maps: MapScores
    scores: tuple[float, ...]  # of the images
    labels: tuple[int, ...]  # 1: anomalous
    threshold: float = math.nan  # for metrics that depend on it
    regions: tuple[int, ...] = ()  # how many are marked on each image at the pixel threshold

    @property
    def image_auroc(self) -> float | None:
        """The chance that an anomalous image outscores a good one, at any threshold."""
        return auroc(self.scores, self.labels)

    @cached_property
    def verdict_metrics(self) -> VerdictMetrics:
        """Metrics of the verdicts at the threshold."""
        return f1_at(self.scores, self.labels, threshold=self.threshold)

    @property
    def false_regions(self) -> float | None:
        """The mean number of regions marked on a good image."""
        if not self.regions:
            return None  # not counted
        good = [count for count, label in zip(self.regions, self.labels, strict=True) if not label]
        return _ratio(sum(good), len(good))


def auroc(scores: ArrayLike, labels: ArrayLike) -> float | None:
    """Return the chance that an anomalous image outscores a normal one; ties count half."""
    scores_n, labels_n = _as_scores(scores, labels)
    normal_n, anomalous_n = np.sort(scores_n[~labels_n]), scores_n[labels_n]
    pairs = 2 * normal_n.size * anomalous_n.size
    if not pairs:
        return None
    below = int(np.sum(np.searchsorted(normal_n, anomalous_n, side="left")))
    not_above = int(np.sum(np.searchsorted(normal_n, anomalous_n, side="right")))
    return (below + not_above) / pairs


def f1_at(scores: ArrayLike, labels: ArrayLike, *, threshold: float) -> VerdictMetrics:
    """Compute the metrics of the verdicts `score > threshold`."""
    if math.isnan(threshold):
        raise UsageError("threshold: nan, expected a number; calibrate the model first")
    scores_n, labels_n = _as_scores(scores, labels)
    alarm_n = above(scores_n, threshold)
    hits = int(np.count_nonzero(alarm_n & labels_n))
    alarms, anomalies = int(np.count_nonzero(alarm_n)), int(np.count_nonzero(labels_n))
    return VerdictMetrics(
        f1=_ratio(2 * hits, alarms + anomalies),
        precision=_ratio(hits, alarms),
        recall=_ratio(hits, anomalies),
        false_alarm_rate=_ratio(alarms - hits, labels_n.size - anomalies),
        true_positives=hits,
        false_positives=alarms - hits,
        true_negatives=labels_n.size - alarms - anomalies + hits,
        false_negatives=anomalies - hits,
    )


def best_f1_threshold(scores: ArrayLike, labels: ArrayLike) -> float:
    """Return the threshold with the highest F1, and of equal ones the one with the fewest alarms.

    It lies halfway between two scores, and is rounded to the precision of the scores, so that
    `score > threshold` means the same in float32 and in float64.
    """
    scores_n, labels_n = _as_scores(scores, labels)
    anomalies = int(np.count_nonzero(labels_n))
    if not anomalies:
        raise DatasetError(
            f"best F1 of {scores_n.size} scores: none is labelled anomalous, expected one or more; "
            "without defects, calibrate a threshold on good images instead"
        )
    order_n = np.argsort(-scores_n, kind="stable")
    falling_n = scores_n[order_n]
    hits_n = np.cumsum(labels_n[order_n])
    last_g = np.append(np.flatnonzero(np.diff(falling_n)), falling_n.size - 1)  # of tied scores
    f1_g = 2 * hits_n[last_g] / (last_g + 1 + anomalies)
    last = int(last_g[np.argmax(f1_g)])
    lowest_alarm = falling_n[last]
    if last + 1 == falling_n.size:
        return float(np.nextafter(lowest_alarm, -np.inf, dtype=scores_n.dtype))
    highest_pass = falling_n[last + 1]
    middle = highest_pass / 2 + lowest_alarm / 2  # halved first: the sum might overflow
    return float(middle if highest_pass <= middle < lowest_alarm else highest_pass)


def _as_scores(scores: ArrayLike, labels: ArrayLike) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    scores_n, labels_n = np.asarray(scores), np.asarray(labels)
    if scores_n.shape != labels_n.shape:
        raise UsageError(
            f"scores and labels: shapes {scores_n.shape} and {labels_n.shape}, expected the same; "
            "give one label per score"
        )
    if scores_n.dtype not in (np.float32, np.float64):
        scores_n = scores_n.astype(np.float64)
    if not np.isfinite(scores_n).all():
        raise DatasetError(
            f"scores: {int(np.sum(~np.isfinite(scores_n)))} of {scores_n.size} not finite, "
            "expected numbers; look for an overflow in the model (half precision?)"
        )
    if labels_n.dtype != np.bool_ and not np.isin(labels_n, (0, 1)).all():
        raise UsageError(
            f"labels: {np.unique(labels_n)[:5].tolist()}..., expected booleans or 0 and 1; "
            "pass label != 'good' where labels are words"
        )
    return scores_n.ravel(), labels_n.ravel().astype(np.bool_)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
