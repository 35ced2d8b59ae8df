"""From the scores of good images that a model has not seen to a threshold with a stated rate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.prediction import above
from edgeseg.errors import DatasetError
from edgeseg.evaluation.metrics import best_f1_threshold


@dataclass(frozen=True, kw_only=True)
class ConformalThreshold:
    """A threshold and the false-alarm rate it answers for."""

    value: float
    rate: float  # the smallest rate that the number of scores can answer for, if above the wish


def conformal_threshold(scores: Sequence[float], *, false_alarm_rate: float) -> ConformalThreshold:
    """The threshold that a new good image exceeds with at most the requested probability.

    If the n scores and the new one are exchangeable, the new one is equally likely to have any of
    the n + 1 ranks, so it exceeds the ceil((n + 1)(1 - rate))-th smallest with probability at most
    `rate`: exact for every n and every distribution. With fewer than 1 / rate - 1 scores no finite
    threshold can promise it, and the highest score answers for 1 / (n + 1).
    """
    if not scores:
        raise DatasetError("no good images to calibrate on; expected at least one")
    ordered = sorted(float(score) for score in scores)
    count = len(ordered)
    # The rounding guards (n + 1)(1 - rate) against the binary form of a decimal rate.
    rank = math.ceil(round((count + 1) * (1 - false_alarm_rate), 9))
    if rank > count:
        return ConformalThreshold(value=ordered[-1], rate=1 / (count + 1))
    return ConformalThreshold(value=ordered[max(rank, 1) - 1], rate=false_alarm_rate)


@dataclass(frozen=True, kw_only=True)
class GoodImageScores:
    """What a model said of good images that were not used for their own verdict."""

    scores: NDArray[np.float32]  # (n,)
    peaks: NDArray[np.float32]  # (n,): highest value of each map
    frame_d2: NDArray[np.float32]  # (n,): mean of d^2 over each frame
    d2_mean: NDArray[np.float32]  # (h, w): mean of d^2 over images
    d2_std: NDArray[np.float32]  # (h, w)

    @property
    def count(self) -> int:
        """How many images there were."""
        return int(self.scores.size)


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The threshold, how it came about, and the statistics behind it."""

    score_threshold: float
    pixel_threshold: float
    requested_rate: float
    answered_rate: float
    method: str
    expected_d2: float  # of d^2 on the fitted images, from the moments
    measured_d2: float  # the same, from the images themselves
    good: GoodImageScores

    def header(self) -> dict[str, Any]:
        """The plain values; the arrays are stored as tensors."""
        return {
            "score_threshold": self.score_threshold,
            "pixel_threshold": self.pixel_threshold,
            "requested_rate": self.requested_rate,
            "answered_rate": self.answered_rate,
            "method": self.method,
            "expected_d2": self.expected_d2,
            "measured_d2": self.measured_d2,
        }


def calibrate(
    good: GoodImageScores,
    *,
    false_alarm_rate: float,
    how: str,
    expected_d2: float,
    measured_d2: float,
    unseen: bool = True,
    anomaly_scores: Sequence[float] = (),
) -> Calibration:
    """Choose both thresholds from good images, or the image threshold by F1 if told anomalies.

    Images that were fitted on too (`unseen` is false) are no evidence of what others will score.
    """
    score = conformal_threshold(good.scores.tolist(), false_alarm_rate=false_alarm_rate)
    peak = conformal_threshold(good.peaks.tolist(), false_alarm_rate=false_alarm_rate)
    method = f"{how}, {good.count} good images"
    value, rate = score.value, score.rate if unseen else 1.0
    if anomaly_scores:
        scores = np.concatenate([good.scores, np.asarray(anomaly_scores, np.float32)])
        labels = np.repeat([0, 1], [good.count, len(anomaly_scores)])
        value = best_f1_threshold(scores, labels)
        # Chosen on these very images, so an estimate: no guarantee is left.
        rate = float(1 + np.count_nonzero(above(good.scores, value))) / (good.count + 1)
        method = f"best F1, {good.count} good images and {len(anomaly_scores)} anomalies"
    return Calibration(
        score_threshold=float(value),
        pixel_threshold=peak.value,
        requested_rate=false_alarm_rate,
        answered_rate=rate,
        method=method,
        expected_d2=expected_d2,
        measured_d2=measured_d2,
        good=good,
    )
