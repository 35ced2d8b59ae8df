"""Thresholds: the promise of a false-alarm rate, checked by simulation."""

import json

import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError
from edgeseg.config import FitConfig
from edgeseg.decision.calibration import Calibration, GoodImageScores, calibrate
from edgeseg.decision.operating_point import conformal_threshold
from edgeseg.decision.score_origin import ScoreOrigin
from tests.support.fold_promise import CASES, counted


def good_images(scores: NDArray[np.float32]) -> GoodImageScores:
    grid = np.ones((2, 3), np.float32)
    return GoodImageScores(
        scores=scores, peaks=scores * 2, frame_d2=scores**2, d2_mean=grid, d2_std=grid
    )


def calibrated(scores: list[float], *, rate: float = 0.1, **options: object) -> Calibration:
    return calibrate(
        good_images(np.array(scores, np.float32)),
        false_alarm_rate=rate,
        promise="conformal",
        origin=ScoreOrigin(kind="split"),
        expected_d2=1.0,
        measured_d2=1.0,
        **options,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("count", "rate", "rank"),
    [(9, 0.1, 9), (19, 0.1, 18), (99, 0.01, 99), (199, 0.01, 198), (19, 0.05, 19), (99, 0.07, 93),
     (10, 0.5, 6), (1, 0.5, 1), (3, 0.9, 1)],
)  # fmt: skip
def test_threshold_is_an_order_statistic(count, rate, rank):
    scores = np.random.default_rng(0).permutation(count) + 1.0
    found = conformal_threshold(scores.tolist(), false_alarm_rate=rate)
    assert (found.value, found.rate) == (rank, rate)


@pytest.mark.parametrize(("count", "rate"), [(1, 0.1), (8, 0.1), (98, 0.01), (20, 0.01)])
def test_a_rate_that_the_images_cannot_answer_for(count, rate):
    found = conformal_threshold(list(range(count)), false_alarm_rate=rate)
    assert found.value == count - 1  # the highest of all
    assert found.rate == 1 / (count + 1) > rate


def test_no_scores_are_an_error():
    with pytest.raises(DatasetError) as caught:
        calibrated([])
    assert str(caught.value) == "no good images to calibrate on; expected at least one"


@pytest.mark.parametrize(("count", "rate"), [(30, 0.1), (19, 0.05), (50, 0.33), (120, 0.01)])
def test_split_conformal_keeps_its_promise(count, rate):
    """Over many draws of good images, a new one is flagged as often as promised and no more."""
    rng = np.random.default_rng(0)
    draws = 3000
    flagged = []
    for _ in range(draws):
        threshold = conformal_threshold(rng.random(count).tolist(), false_alarm_rate=rate)
        flagged.append(1 - threshold.value)  # the chance that a uniform score exceeds it
    exact = np.floor((count + 1) * rate + 1e-9) / (count + 1)
    error = np.std(flagged) / np.sqrt(draws)
    assert exact <= rate
    assert abs(np.mean(flagged) - exact) < 4 * error


def test_split_conformal_with_ties():
    """Scores in whole numbers: ties only ever lower the rate of alarms."""
    rng = np.random.default_rng(0)
    flagged = []
    for _ in range(3000):
        scores = rng.poisson(3, 31).astype(float)
        threshold = conformal_threshold(scores[:30].tolist(), false_alarm_rate=0.1)
        flagged.append(scores[30] > threshold.value)
    assert np.mean(flagged) <= 0.1


def test_an_unattainable_rate_is_answered_as_reported():
    rng = np.random.default_rng(0)
    found = [
        conformal_threshold(rng.random(9).tolist(), false_alarm_rate=0.01) for _ in range(3000)
    ]
    assert {threshold.rate for threshold in found} == {0.1}
    assert np.mean([1 - threshold.value for threshold in found]) == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize(("images", "rate"), CASES)
def test_cross_calibration_on_gaussian_images(images, rate):
    """The whole way on data of known law: fit, judge by folds, threshold, new images."""
    found = counted(images, rate, folds=FitConfig().folds, repetitions=40)
    # A fold's model has seen fewer images than the final one, so its scores err on the high side:
    # the rate lies below the wish, but not far below.
    assert 0.3 < found.by_folds <= 1
    # Images judged by a model that was fitted on them promise too much.
    assert found.by_fitted > 1.5


def test_calibrate_by_good_images_alone():
    scores = [float(score) for score in range(1, 20)]
    found = calibrated(scores)
    assert found.score_threshold == 18
    assert found.pixel_threshold == 36
    assert (found.requested_rate, found.answered_rate) == (0.1, 0.1)
    assert found.method == "split-conformal, 19 good images"


def test_calibrate_reports_what_few_images_answer_for():
    found = calibrated([1, 2, 3])
    assert (found.score_threshold, found.answered_rate) == (3, 0.25)


def test_images_that_were_fitted_on_answer_for_nothing():
    assert calibrated([1.0], unseen=False).answered_rate == 1.0


def test_calibrate_by_f1():
    scores = [float(score) for score in range(1, 20)]
    found = calibrated(scores, anomaly_scores=[15.25, 30.0, 31.0, 32.0])
    # Between 19 and 30: one of four anomalies is missed, and no good image is flagged.
    assert 19 <= found.score_threshold < 30
    assert found.method == "best F1, 19 good images and 4 anomalies"
    assert found.answered_rate == 1 / 20
    assert found.pixel_threshold == 36  # of the good images, as before
    assert calibrated(scores, anomaly_scores=[2.5] * 40).answered_rate > 0.5


def test_header_is_plain_json():
    header = calibrated([1, 2, 3]).header()
    assert json.loads(json.dumps(header, allow_nan=False)) == header
    assert set(header) == {
        "score_threshold", "pixel_threshold", "requested_rate", "answered_rate", "origin", "choice",
        "expected_d2", "measured_d2", "unsure_threshold", "unsure_rate", "foreign_limit",
        "appearance", "images", "parts", "grouping", "promise",
    }  # fmt: skip
