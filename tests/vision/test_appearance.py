"""Dark, glaring and blurred frames are invalid whatever their score; parts and defects are not."""

from dataclasses import asdict, replace

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeseg.base.plain import record
from edgeseg.decision.doubt import DoubtKind
from edgeseg.decision.judgement import invalid_kind, verdict_on
from edgeseg.vision.appearance import (
    FEWEST,
    FIGURES,
    AppearanceLimits,
    GoodAppearance,
    appearance_of,
)
from tests.support.small_models import frames
from tests.support.thresholds import made_up_thresholds

GOOD = frames(8)
THRESHOLDS = made_up_thresholds(10.0, pixel=12.0)
rows = st.lists(st.lists(st.integers(-3000, 6000), min_size=7, max_size=7), max_size=8)


def limits_of(pictures) -> AppearanceLimits:
    limits = GoodAppearance.of(map(appearance_of, pictures)).limits
    assert limits is not None
    return limits


def half_black(frame):
    covered = frame.copy()
    covered[len(frame) // 2 :] = 0
    return covered


LENSES = {
    "black": (np.zeros_like, "dark"),
    "a fifth of the light": (lambda frame: (frame * 0.2).astype(np.uint8), "dark"),
    "lower half black": (half_black, "dark"),
    "white": (lambda frame: np.full_like(frame, 255), "bright"),
    "blur, sigma 8": (lambda frame: cv2.GaussianBlur(frame, (0, 0), 8), "blurred"),
    "blur, sigma 20": (lambda frame: cv2.GaussianBlur(frame, (0, 0), 20), "blurred"),
}


@pytest.mark.parametrize("lens", LENSES)
@pytest.mark.parametrize("fitted", [FEWEST, 8])
def test_a_covered_lens_is_invalid_whatever_its_score(lens, fitted):
    cover, reason = LENSES[lens]
    thresholds = replace(THRESHOLDS, appearance=limits_of(GOOD[:fitted]))
    covered = appearance_of(cover(GOOD[0]))
    for score in (0.0, 9.0, 11.0):
        assert invalid_kind(score, thresholds, appearance=covered) == reason
        assert verdict_on(score, thresholds, appearance=covered) == "invalid"
    assert verdict_on(0.0, THRESHOLDS, appearance=covered) == "good", "no limits are known"


def test_a_good_part_is_good_and_a_defect_a_defect():
    thresholds = replace(THRESHOLDS, appearance=limits_of(GOOD))
    for frame in frames(6, first=40):
        assert verdict_on(1.0, thresholds, appearance=appearance_of(frame)) == "good"
        spoilt = frame.copy()
        spoilt[20:50, 30:60] = 0
        assert verdict_on(11.0, thresholds, appearance=appearance_of(spoilt)) == "defect"


def test_identical_images_leave_room_for_the_light_of_another_day():
    limits = limits_of([GOOD[0]] * 6)
    assert limits.fault_in(appearance_of(GOOD[0])) is None
    for gain in (0.7, 1.2):
        lit = np.clip(GOOD[0] * gain, 0, 255).astype(np.uint8)
        assert limits.fault_in(appearance_of(lit)) is None
    assert limits.fault_in(appearance_of((GOOD[0] * 0.3).astype(np.uint8))) == "dark"


def test_a_product_that_really_varies_may_be_dark():
    varied = [(frame * gain).astype(np.uint8) for frame in GOOD for gain in (0.25, 0.5, 1.0)]
    darker = appearance_of((GOOD[0] * 0.2).astype(np.uint8))
    assert limits_of(GOOD).fault_in(darker) == "dark"
    assert limits_of(varied).fault_in(darker) is None


def test_too_few_images_tell_nothing():
    assert GoodAppearance.of([]).limits is None
    assert GoodAppearance.of([appearance_of(GOOD[0])] * (FEWEST - 1)).limits is None


@pytest.mark.parametrize("size_hw", [(1, 1), (2, 3), (8, 8), (33, 70), (256, 256)])
def test_pictures_of_any_size_have_figures(size_hw):
    rng = np.random.default_rng(0)
    figures = appearance_of(rng.integers(0, 256, (*size_hw, 3), np.uint8))
    assert len(figures) == FIGURES
    assert all(isinstance(figure, int) for figure in figures)


@given(rows, st.integers(0, 8))
def test_sums_of_parts_are_those_of_all_in_any_order(values, at):
    whole = GoodAppearance.of(map(tuple, values))
    first, second = (GoodAppearance.of(map(tuple, part)) for part in (values[:at], values[at:]))
    assert first.merge(second) == second.merge(first) == whole
    assert record(GoodAppearance, asdict(whole)) == whole
    if whole.limits is not None:
        assert all(whole.limits.fault_in(tuple(row)) is None for row in values)


def test_every_reason_has_words_and_a_score_comes_first():
    nothing = appearance_of(np.zeros((16, 16, 3), np.uint8))
    thresholds = replace(THRESHOLDS, appearance=limits_of(GOOD), foreign=6.0)
    odd_hw = np.full((32, 32), 7.0, np.float32)
    blurred = appearance_of(cv2.GaussianBlur(GOOD[0], (0, 0), 8))
    found = [
        invalid_kind(np.nan, thresholds, appearance=nothing),
        invalid_kind(1.0, thresholds, appearance=nothing, map_hw=odd_hw),
        invalid_kind(1.0, thresholds, appearance=blurred, map_hw=odd_hw),
        invalid_kind(1.0, thresholds, appearance=blurred),
    ]
    assert found == ["no_score", "dark", "foreign", "blurred"]
    assert set(found) | {"bright", "not_found", "parts"} == set(DoubtKind)


def test_damaged_limits_are_refused():
    with pytest.raises(ValueError, match="lowest: expected 7 numbers"):
        AppearanceLimits(lowest=(1,), brightest=(1,) * 4)
    with pytest.raises(ValueError, match="squares: expected 7 numbers"):
        GoodAppearance(count=1, squares=(1,))
