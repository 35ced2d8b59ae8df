"""A frame that is not this part: odd nearly everywhere, where a defect is local."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeseg.decision.foreign import LEAST, MARGIN, foreign_limit, map_floor, no_floors
from edgeseg.decision.judgement import judge, verdict_on
from edgeseg.decision.prediction import Prediction
from edgeseg.vision.geometry import PLAIN
from tests.support.thresholds import made_up_thresholds

LIMITS = made_up_thresholds(10.0, pixel=12.0, foreign=6.0)


@pytest.mark.parametrize("size_hw", [(32, 32), (8, 8), (1, 1), (256, 512), (96, 40)])
def test_the_floor_is_a_quantile_of_a_smooth_map(size_hw):
    rows, columns = np.meshgrid(*(np.linspace(0, 1, side) for side in size_hw), indexing="ij")
    map_hw = (rows + 2 * columns).astype(np.float32)
    assert map_floor(map_hw) == pytest.approx(np.quantile(map_hw, 0.25), abs=0.11)
    assert map_hw.min() <= map_floor(map_hw) <= map_hw.max()


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.7))
def test_a_defect_leaves_the_floor_within_the_good_part(seed, share):
    """However bright: the floor stays within what the rest of the map has."""
    rng = np.random.default_rng(seed)
    good = rng.uniform(1.0, 2.0, size=(64, 64)).astype(np.float32)
    side = int(64 * np.sqrt(share))
    spoilt = good.copy()
    spoilt[:side, :side] = 1000.0
    assert map_floor(spoilt) <= 2.0
    assert map_floor(good + 5) == pytest.approx(map_floor(good) + 5, rel=1e-5)


def test_what_is_ignored_has_no_floor():
    map_hw = np.full((64, 64), 7.0, np.float32)
    map_hw[:60] = 0.0
    assert map_floor(map_hw) == 7.0
    assert map_floor(np.zeros((64, 64), np.float32)) == 0.0


def test_the_limit_is_above_all_that_is_known():
    assert foreign_limit([1.0, 3.0, 2.0], threshold=0.0) == MARGIN * 3.0
    assert foreign_limit([1.0, 3.0], planted=[4.0], threshold=0.0) == MARGIN * 4.0
    assert foreign_limit([0.0, 0.001], threshold=8.0) == LEAST * 8.0, "parts that lie still"
    assert foreign_limit(no_floors(), planted=[4.0], threshold=8.0) is None, (
        "floors that nobody kept"
    )


@pytest.mark.parametrize(
    ("score", "level", "verdict"),
    [
        (9.0, 1.0, "good"),
        (9.0, 6.1, "invalid"),  # a covered lens: nothing high, and nothing as on good parts
        (11.0, 6.0, "defect"),  # at the limit
        (11.0, 6.1, "invalid"),
        (np.nan, 1.0, "invalid"),
        (np.inf, 1.0, "invalid"),
    ],
)
def test_the_rule(score, level, verdict):
    map_hw = np.full((16, 16), level, np.float32)
    assert verdict_on(score, LIMITS, map_hw=map_hw) == verdict
    finite = np.isfinite(score)
    by_score = "defect" if score > LIMITS.score else "good"
    before = by_score if finite else "invalid"
    assert verdict_on(score, LIMITS) == before, "without a map"
    assert verdict_on(score, replace(LIMITS, foreign=None), map_hw=map_hw) == before, "an old file"
    prediction = Prediction(map_hw=map_hw, score=score)
    if finite:
        result = judge(prediction, thresholds=LIMITS, view=PLAIN.view((16, 16), (16, 16)))
        assert result.verdict == verdict
        assert result.anomalous == (verdict != "good")


def test_a_doubt_about_another_part_is_none():
    """Between the thresholds too, what is not this part cannot be unsure."""
    band = replace(LIMITS, unsure=9.0)
    for level, verdict in ((6.0, "unsure"), (6.1, "invalid")):
        map_hw = np.full((16, 16), level, np.float32)
        assert verdict_on(9.5, band, map_hw=map_hw) == verdict


def test_the_limit_stays_when_the_threshold_moves():
    assert LIMITS.with_score(5.0).foreign == 6.0
    with pytest.raises(ValueError, match=r"foreign: -1\.0, expected a finite number from 0"):
        replace(LIMITS, foreign=-1.0)
