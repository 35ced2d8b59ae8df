"""Inputs that cannot be scored, and AUROC and F1 of images against scikit-learn."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import metrics as sk

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.decision.metric_registry import METRICS, stored_metrics
from edgeseg.decision.metrics import LabelledResults, auroc, best_f1_threshold, f1_at
from edgeseg.decision.pro import MapEvaluator
from tests.support.map_scores import map_scores

# --- what cannot be scored ---------------------------------------------------------------------


def test_a_test_set_without_defects_or_without_normal_pixels_has_no_score() -> None:
    map_hw = np.zeros((3, 3), np.float32)
    for mask_hw, regions in ((None, 0), (np.zeros((3, 3), bool), 0), (np.ones((3, 3), bool), 1)):
        scores = map_scores([map_hw], [mask_hw])
        assert (scores.pro, scores.pixel_auroc, scores.regions) == (None, None, regions)
    assert map_scores([], []).pro is None


F32 = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("map_hw", "mask_hw", "error", "text"),
    [
        (
            F32.astype(np.float64),
            None,
            UsageError,
            "image 0: map of type float64, expected float32",
        ),
        (F32 + np.nan, None, DatasetError, "image 0: map with 6 of 6 values not finite"),
        (
            np.array([[1, np.inf]], np.float32),
            None,
            DatasetError,
            "map with 1 of 2 values not finite",
        ),
        (F32[None], None, DatasetError, r"map of shape \(1, 2, 3\), expected height x width"),
        (F32[:0], None, DatasetError, r"map of shape \(0, 3\)"),
        (F32, np.zeros((3, 2), bool), DatasetError, "mask of 3 x 2 for a map of 2 x 3"),
        (F32, np.zeros((2, 3, 1), bool), DatasetError, r"mask of shape \(2, 3, 1\)"),
        (F32, F32, DatasetError, "mask of type float32, expected bool or uint8"),
        (
            F32,
            np.eye(2, 3, dtype=np.uint8),
            DatasetError,
            r"2 pixels other than 0 and 255 \(first: 1",
        ),
    ],
)
def test_bad_images_are_refused_by_name(
    map_hw: NDArray[Any], mask_hw: NDArray[Any] | None, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        MapEvaluator().add(map_hw, mask_hw)
    with pytest.raises(error, match=r"^crack/003\.png: "):
        MapEvaluator().add(map_hw, mask_hw, name="crack/003.png")


def test_types_that_float32_holds_exactly_are_taken() -> None:
    levels = np.array([[3, 200], [7, 0]])
    mask_hw = np.array([[0, 255], [0, 255]], np.uint8)
    expected = map_scores([levels.astype(np.float32)], [mask_hw])
    for dtype in (np.float16, np.uint8, np.uint16):
        assert map_scores([levels.astype(dtype)], [mask_hw]) == expected


def test_views_of_larger_arrays_are_taken() -> None:
    rng = np.random.default_rng(2)
    maps, masks = rng.random((8, 12)).astype(np.float32), rng.random((8, 12)) < 0.4
    views = maps.T[::2, ::-1], masks.T[::2, ::-1]
    assert map_scores([views[0]], [views[1]]) == map_scores([views[0].copy()], [views[1].copy()])


@pytest.mark.parametrize("limit", [0.0, -0.1, 1.5, math.nan])
def test_the_limit_is_a_rate(limit: float) -> None:
    with pytest.raises(UsageError, match=r"expected more than 0 and at most 1; MVTec AD uses 0\.3"):
        MapEvaluator(limits=(0.3, limit))


def test_no_memory_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="memory for maps: 0 bytes"):
        MapEvaluator(memory_bytes=0)


# --- scores of images --------------------------------------------------------------------------

TIED = st.sampled_from([-1.5, -0.0, 0.0, 0.5, 2.0, 7.0])
ULP = math.ulp(1.0)
LABELLED = st.lists(st.tuples(TIED | st.floats(-1e6, 1e6), st.booleans()), min_size=1, max_size=30)


@given(LABELLED)
def test_auroc_equals_scikit_learn(pairs: list[tuple[float, bool]]) -> None:
    scores, labels = zip(*pairs, strict=True)
    if len(set(labels)) == 1:
        assert auroc(scores, labels) is None
    else:
        assert auroc(scores, labels) == pytest.approx(sk.roc_auc_score(labels, scores), abs=1e-12)


def test_auroc_by_hand() -> None:
    assert auroc([1, 2, 3], [0, 0, 1]) == 1.0
    assert auroc([3, 2, 1], [0, 0, 1]) == 0.0
    assert auroc([1, 2, 2, 3], [0, 0, 1, 1]) == 0.875  # of four pairs one is a tie
    assert auroc([5, 5, 5], [0, 1, 1]) == 0.5


@given(LABELLED, TIED | st.floats(-10, 10))
def test_decisions_equal_scikit_learn(pairs: list[tuple[float, bool]], threshold: float) -> None:
    scores, labels = zip(*pairs, strict=True)
    decision = f1_at(scores, labels, threshold=threshold)
    alarms = [score > threshold for score in scores]
    (tn, fp), (fn, tp) = sk.confusion_matrix(labels, alarms, labels=[False, True])
    assert (decision.true_positives, decision.false_positives) == (tp, fp)
    assert (decision.true_negatives, decision.false_negatives) == (tn, fn)
    for ours, theirs in (
        (decision.f1, sk.f1_score),
        (decision.precision, sk.precision_score),
        (decision.recall, sk.recall_score),
    ):
        expected = theirs(labels, alarms, zero_division=np.nan)
        assert (ours is None and math.isnan(expected)) or ours == pytest.approx(expected)


def test_a_score_at_the_threshold_is_good() -> None:
    decision = f1_at([1.0, 2.0, 3.0], [0, 1, 1], threshold=2.0)
    assert (decision.true_positives, decision.false_negatives) == (1, 1)
    assert (decision.precision, decision.recall) == (1.0, 0.5)
    assert decision.f1 == pytest.approx(2 / 3)


def test_a_float32_score_is_compared_without_rounding_the_threshold() -> None:
    score = np.float32(0.1)  # a little above 0.1, which float32 would round to the score itself
    assert f1_at([score], [1], threshold=0.1).true_positives == 1


def test_nothing_to_divide_by_is_none() -> None:
    silent = f1_at([1.0], [0], threshold=5)
    assert (silent.f1, silent.precision, silent.recall) == (None, None, None)
    missed = f1_at([1.0], [1], threshold=5)
    assert (missed.f1, missed.precision, missed.recall) == (0.0, None, 0.0)


@given(LABELLED, st.sampled_from([np.float32, np.float64]))
@settings(max_examples=200)
def test_no_threshold_beats_the_best(pairs: list[tuple[float, bool]], dtype: Any) -> None:
    pairs = [*pairs, (1.0, True)]
    scores = np.array([score for score, _ in pairs], dtype)
    labels = [label for _, label in pairs]
    threshold = best_f1_threshold(scores, labels)
    best = f1_at(scores, labels, threshold=threshold).f1
    assert best is not None
    for other in [*scores.tolist(), -math.inf]:
        rival = f1_at(scores, labels, threshold=other)
        assert (rival.f1 or 0.0) <= best
        if rival.f1 == best:  # of equals, the one with the fewest alarms
            assert np.sum(scores > threshold) <= np.sum(scores.astype(np.float64) > other)
    # numpy rounds a Python float to float32 beside a float32 array: no verdict may depend on it.
    np.testing.assert_array_equal(scores > threshold, scores.astype(np.float64) > threshold)


@pytest.mark.parametrize(
    ("scores", "labels", "threshold"),
    [
        ([1.0, 2.0, 4.0, 5.0], [0, 0, 1, 1], 3.0),  # halfway across the gap
        ([1.0, 2.0, 4.0, 5.0], [0, 1, 0, 1], 1.5),  # 4/5 beats 2/3
        ([2.0, 2.0, 5.0], [1, 1, 1], math.nextafter(2.0, -math.inf)),  # all are alarms
        ([1.0, 1.0 + ULP], [0, 1], 1.0),  # nothing lies between neighbours
        ([1.0 + ULP, 1.0 + 2 * ULP], [0, 1], 1.0 + ULP),  # and their middle rounds to the upper
    ],
)
def test_best_threshold_by_hand(scores: list[float], labels: list[int], threshold: float) -> None:
    assert best_f1_threshold(scores, labels) == threshold


def test_bad_scores_are_refused() -> None:
    with pytest.raises(UsageError, match=r"shapes \(2,\) and \(1,\), expected the same"):
        auroc([1, 2], [0])
    with pytest.raises(DatasetError, match="scores: 1 of 2 not finite"):
        auroc([1, math.nan], [0, 1])
    with pytest.raises(UsageError, match=r"labels: \[-1, 1\]\.\.\., expected booleans or 0 and 1"):
        auroc([1, 2], [-1, 1])
    with pytest.raises(UsageError, match="threshold: nan"):
        f1_at([1.0], [1], threshold=math.nan)
    with pytest.raises(DatasetError, match="best F1 of 2 scores: none is labelled anomalous"):
        best_f1_threshold([1, 2], [0, 0])


# --- the registry ------------------------------------------------------------------------------


def test_metrics_are_read_off_a_test_set() -> None:
    maps = map_scores([np.eye(3, dtype=np.float32)], [np.eye(3, dtype=bool)])
    measured = LabelledResults(
        maps=maps,
        scores=(1.0, 4.0, 2.0, 5.0),
        labels=(0, 1, 1, 0),
        threshold=3.0,
        regions=(0, 9, 9, 4),
    )
    values = {key: metric.value(measured) for key, metric in METRICS.items()}
    assert values == {
        "pro": 1.0, "pro_05": 1.0, "pixel_auroc": 1.0, "image_auroc": 0.5, "f1": 0.5,
        "precision": 0.5, "recall": 0.5, "false_alarm_rate": 0.5, "false_regions": 2.0,
    }  # fmt: skip
    assert [metric.key for metric in stored_metrics()] == [
        "pro", "pro_05", "pixel_auroc", "image_auroc", "f1", "recall", "false_alarm_rate",
    ]  # fmt: skip


def test_metrics_of_good_images_alone() -> None:
    maps = map_scores([F32], [F32 != 0])
    measured = LabelledResults(maps=maps, scores=(1.0,), labels=(0,), threshold=3.0, regions=(2,))
    values = {key: metric.value(measured) for key, metric in METRICS.items()}
    assert (values.pop("false_alarm_rate"), values.pop("false_regions")) == (0.0, 2.0)
    assert set(values.values()) == {None}


def test_metrics_of_images_without_masks() -> None:
    """What is measured by pixels is undefined; the verdicts of images are what they were."""
    images = {"scores": (1.0, 4.0), "labels": (0, 1), "threshold": 3.0, "regions": (2, 1)}
    with_masks, without = (
        LabelledResults(maps=map_scores([F32, F32], masks), **images)
        for masks in ([F32 != 0, F32 == 0], [F32 != 0, None])
    )
    for key, metric in METRICS.items():
        known, value = metric.value(with_masks), metric.value(without)
        assert value == (None if key in ("pro", "pro_05", "pixel_auroc") else known), key
        assert known is not None


def test_metrics_of_defective_images_alone() -> None:
    maps = map_scores([F32], [F32 == 0])
    measured = LabelledResults(maps=maps, scores=(1.0,), labels=(1,), threshold=0.5, regions=(2,))
    assert measured.verdict_metrics.recall == 1.0
    assert measured.verdict_metrics.false_alarm_rate is None
    assert measured.false_regions is None
    uncounted = LabelledResults(maps=maps, scores=(1.0,), labels=(0,))
    assert uncounted.false_regions is None
