"""One rule for verdicts, regions and pictures: at the threshold good, no number not good."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeseg.decision.judgement import judge, verdict_on
from edgeseg.decision.metrics import f1_at
from edgeseg.decision.prediction import Prediction, above, find_regions, is_anomalous
from edgeseg.evaluation.panels import DECISION, render_panel
from edgeseg.runtime.sinks.overlay import annotate
from edgeseg.vision.geometry import View
from tests.support.thresholds import made_up_thresholds

SIDE = 256
THRESHOLD = float(np.float32(1.7))
BOTH = made_up_thresholds(THRESHOLD)
JUST_ABOVE = float(np.nextafter(np.float32(THRESHOLD), np.float32(9)))
CASES = [(THRESHOLD, False), (JUST_ABOVE, True), (math.nan, True), (math.inf, True), (0.0, False)]
SQUARE = View(frame_hw=(SIDE, SIDE), size_hw=(SIDE, SIDE))


def spot(value: float) -> np.ndarray:
    """A map of nothing but one square of a value."""
    map_hw = np.zeros((SIDE, SIDE), np.float32)
    map_hw[100:120, 40:60] = value
    return map_hw


@pytest.mark.parametrize(("value", "anomalous"), CASES)
def test_a_score(value: float, anomalous: bool) -> None:
    assert is_anomalous(value, THRESHOLD) is anomalous
    assert above(np.array([value], np.float32), THRESHOLD).tolist() == [anomalous]
    assert (verdict_on(value, BOTH) != "good") is anomalous
    prediction = Prediction(map_hw=spot(0.0), score=value)
    judgement = judge(prediction, thresholds=BOTH, view=SQUARE)
    assert judgement.anomalous is anomalous
    if math.isfinite(value):
        scores = np.array([value], np.float32)
        assert (f1_at(scores, [1], threshold=THRESHOLD).true_positives == 1) is anomalous


@pytest.mark.parametrize(("value", "anomalous"), CASES)
def test_a_map_as_regions(value: float, anomalous: bool) -> None:
    regions, count = find_regions(spot(value), THRESHOLD, size_hw=(SIDE, SIDE))
    assert count == len(regions) == int(anomalous)
    if anomalous:
        assert regions[0].box_xywh == (40, 100, 20, 20)
        np.testing.assert_equal(regions[0].peak, np.float32(value))


@pytest.mark.parametrize(("value", "anomalous"), CASES)
def test_a_map_as_a_picture_of_an_evaluation(value: float, anomalous: bool) -> None:
    frame_hwc = np.full((SIDE, SIDE, 3), 90, np.uint8)
    panel = render_panel(
        frame_hwc, spot(value), pixel_threshold=THRESHOLD, value_range=(0.0, 2 * THRESHOLD)
    )
    decision = panel[-SIDE:, -SIDE:]
    assert bool((decision == np.array(DECISION)).all(axis=2).any()) is anomalous


@pytest.mark.parametrize(("value", "anomalous"), CASES)
def test_a_map_as_a_picture_of_a_stream(value: float, anomalous: bool) -> None:
    picture = annotate(
        np.full((SIDE, SIDE, 3), 90, np.uint8),
        map_hw=spot(value),
        regions=(),
        score=0.0,
        threshold_score=THRESHOLD,
        threshold_pixel=THRESHOLD,
        verdict="good",
        strip=False,
    )
    outlined = (picture > 200).all(axis=2)  # near white: neither the frame nor the heat is
    assert outlined.any() == anomalous
    assert not outlined[:90].any()


def test_what_is_no_number_comes_before_the_strongest() -> None:
    map_hw = np.zeros((8, 30), np.float32)
    map_hw[2:4, 2:4], map_hw[2:4, 12:14], map_hw[2:4, 22:24] = 5.0, np.nan, 7.0
    map_hw[3, 13] = 6.0
    regions, count = find_regions(map_hw, 1.0, size_hw=(8, 30))
    assert count == 3
    assert [region.box_xywh[0] for region in regions] == [12, 22, 2]
    assert math.isnan(regions[0].peak)


@given(
    st.lists(st.floats(width=32), min_size=1, max_size=8),
    st.floats(-1e30, 1e30),
    st.integers(-1, 1),
)
def test_many_values_are_judged_like_one(values: list[float], threshold: float, step: int) -> None:
    """In float32, whatever the threshold: also next to one of the values."""
    nearest = float(np.float32(values[0]))
    limits = [threshold, float(np.nextafter(nearest, np.inf * step)) if step else nearest]
    for limit in limits:
        for kind in (np.float32, np.float64):
            array = np.array(values, kind)
            expected = [is_anomalous(float(value), limit) for value in array]
            assert above(array, limit).tolist() == expected
