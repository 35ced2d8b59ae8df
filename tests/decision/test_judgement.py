"""A verdict people understand: what is marked, what is unsure, how odd it is."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeseg.base.messages import Message
from edgeseg.decision.doubt import Doubt, DoubtKind
from edgeseg.decision.judgement import (
    Verdict,
    chance,
    judge,
    judge_areas,
    mark_pixels,
    marked_regions,
    oddness_of,
    severity_of,
    verdict_on,
)
from edgeseg.decision.operating_point import conformal_threshold
from edgeseg.decision.prediction import (
    MAX_REGIONS,
    Prediction,
    Region,
    blend_tiles,
    find_regions,
)
from edgeseg.decision.score_statistics import ScoreStatistics
from edgeseg.vision.geometry import Found, Pose, View
from edgeseg.vision.tiles import Tiling
from tests.support.thresholds import made_up_thresholds

LIMITS = made_up_thresholds(10.0, pixel=12.0)
BAND = replace(LIMITS, unsure=8.0, unsure_rate=0.05)
TWENTY, WIDE = (View(frame_hw=size, size_hw=size) for size in ((20, 20), (9, 13)))


@pytest.mark.parametrize(
    ("score", "verdict"),
    [(8.0, "good"), (8.1, "unsure"), (10.0, "unsure"), (10.1, "defect"), (np.nan, "invalid")],
)
def test_a_second_threshold_makes_a_band(score, verdict):
    assert verdict_on(score, BAND) == verdict
    assert verdict_on(score, LIMITS) == ("good" if verdict == "unsure" else verdict)


def shown(map_hw: np.ndarray) -> Prediction:
    """What a model without a grid says of a frame."""
    return Prediction(map_hw=map_hw, score=11.0)


def test_the_band_moves_with_the_threshold():
    half = BAND.with_score(5.0)
    assert (half.score, half.pixel, half.unsure) == (5.0, 6.0, 4.0)
    assert LIMITS.with_score(5.0).unsure is None
    with pytest.raises(ValueError, match=r"expected up to the score's 10\.0"):
        replace(LIMITS, unsure=10.5)


@given(st.integers(0, 2**32 - 1), st.floats(-5, 12), st.floats(-3, 3))
def test_what_is_not_good_is_marked_where_the_map_is_highest(seed, shift, spread):
    map_hw = (np.random.default_rng(seed).normal(size=(9, 13)) * spread + shift).astype(np.float32)
    map_hw = np.minimum(map_hw, np.float32(12.0))  # nothing above the pixel threshold
    assert find_regions(map_hw, LIMITS.pixel, size_hw=(9, 13)) == ((), 0)
    result = judge(
        Prediction(map_hw=map_hw, score=11.0),
        thresholds=LIMITS,
        view=WIDE,
    )
    (region,) = result.regions
    x, y, w, h = region.box_xywh
    assert region.peak == map_hw[y : y + h, x : x + w].max() == map_hw.max()
    assert result.verdict == "defect"


def test_a_marked_place_is_what_belongs_to_the_peak():
    map_hw = np.zeros((20, 20), np.float32)
    map_hw[2:5, 3:7], map_hw[3, 4], map_hw[12:15, 12:15] = 7.5, 8.0, 7.0
    (region,), count = marked_regions(shown(map_hw), "defect", 12.0, view=TWENTY)
    assert (region.box_xywh, region.area_px, count) == ((3, 2, 4, 3), 12, 1)
    assert np.argwhere(mark_pixels(shown(map_hw), "defect", 12.0)).tolist() == [
        [row, column] for row in range(2, 5) for column in range(3, 7)
    ]
    assert marked_regions(shown(map_hw), "good", 12.0, view=TWENTY) == (
        (),
        0,
    )
    both = marked_regions(shown(map_hw), "defect", 6.0, view=TWENTY)
    assert both == find_regions(map_hw, 6.0, size_hw=(20, 20)), "where pixels are above, only they"


def of_two_grids(*, score_at: tuple[int, int], map_at: tuple[int, int], height: float):
    """A frame whose score comes from one cell, and whose map is high in another."""
    grid_hw, own_hw = np.ones((4, 5), np.float32), np.ones((4, 5), np.float32)
    grid_hw[score_at], own_hw[map_at] = 30.0, height
    map_hw = own_hw.repeat(5, axis=0).repeat(4, axis=1)
    return Prediction(map_hw=map_hw, score=11.0, grid_hw=grid_hw, map_grid_hw=own_hw)


def test_an_alarm_marks_the_place_that_raised_it_where_the_map_shows_it_not():
    """A defect that the score sees and the map's layers do not; TWENTY has 5x4 pixels a cell."""
    hidden = of_two_grids(score_at=(1, 3), map_at=(3, 0), height=4.0)
    (region,) = judge(hidden, thresholds=LIMITS, view=TWENTY).regions
    assert (region.box_xywh, region.peak) == ((12, 5, 4, 5), 1.0), "not where the map is highest"
    alone = replace(hidden, map_grid_hw=None)
    (region,) = judge(alone, thresholds=LIMITS, view=TWENTY).regions
    assert (region.box_xywh, region.peak) == ((0, 15, 4, 5), 4.0), "a map of the same distances"
    result = judge(hidden, thresholds=LIMITS, view=TWENTY)
    assert np.argwhere(result.marked_hw).min(axis=0).tolist() == [5, 12]
    assert result.marked_hw.sum() == 20
    assert not judge(replace(hidden, score=1.0), thresholds=LIMITS, view=TWENTY).marked_hw.any()


def test_what_the_map_shows_elsewhere_is_marked_beside_it():
    both = of_two_grids(score_at=(1, 3), map_at=(3, 0), height=20.0)
    regions = judge(both, thresholds=LIMITS, view=TWENTY).regions
    assert [(each.box_xywh, each.peak) for each in regions] == [
        ((0, 15, 4, 5), 20.0),
        ((12, 5, 4, 5), 1.0),
    ]
    same = of_two_grids(score_at=(3, 0), map_at=(3, 0), height=20.0)
    (region,) = judge(same, thresholds=LIMITS, view=TWENTY).regions
    assert region.box_xywh == (0, 15, 4, 5), "what is marked is the place itself"


def test_the_place_of_a_score_of_tiles_is_in_the_tile_that_raised_it():
    tiling = Tiling(frame_hw=(20, 36), tile_hw=(20, 20), overlap_hw=(0, 4))
    quiet = of_two_grids(score_at=(0, 0), map_at=(0, 0), height=9.0)
    worst = replace(of_two_grids(score_at=(1, 3), map_at=(3, 0), height=4.0), score=12.0)
    blended = blend_tiles([quiet, worst], tiling)
    assert blended.score == 12.0
    view = View(frame_hw=(20, 36), size_hw=(20, 36))
    (region,) = judge(blended, thresholds=LIMITS, view=view).regions
    assert region.box_xywh == (16 + 12, 5, 4, 5), "though another tile's map is higher"
    plain = [replace(part, map_grid_hw=None) for part in (quiet, worst)]
    assert blend_tiles(plain, tiling).raised_hw is None


def test_a_p_value_and_the_verdict_agree():
    scores = np.random.default_rng(0).gamma(3.0, size=199).astype(np.float32)
    good = ScoreStatistics.of(scores, scores * 2)
    limit = conformal_threshold(list(good.scores), false_alarm_rate=0.02).value
    assert limit == conformal_threshold(scores.tolist(), false_alarm_rate=0.02).value
    thresholds = replace(LIMITS, score=limit)
    for score in np.random.default_rng(1).gamma(5.0, size=300).astype(np.float32):
        odd = chance(float(score), good)
        assert odd is not None
        assert (verdict_on(float(score), thresholds) == "defect") == (odd <= 0.02)


def test_nothing_is_said_of_what_is_not_known():
    unknown = ScoreStatistics(count=5, mean=1.0, std=1.0, min=0.0, max=2.0)
    assert chance(3.0, unknown) is None
    assert oddness_of(None, None) is None


def test_a_frame_that_does_not_show_the_part_is_not_compared_with_good_parts():
    assert oddness_of(1 / 41, 40) == Message("odd_above_all", n=40)
    for kind in DoubtKind:
        assert oddness_of(1 / 41, 40, doubt=Doubt(kind=kind)) is None


@pytest.mark.parametrize("values", [(1.0, 3.0, 2.0), (1.0, 2.0)])
def test_scores_that_are_damaged(values):
    with pytest.raises(ValueError, match="scores: expected none or 3 in ascending order"):
        ScoreStatistics(count=3, mean=1.0, std=1.0, min=0.0, max=2.0, scores=values)


def region(area_px: int, peak: float = 1.0) -> Region:
    return Region(box_xywh=(0, 0, 1, 1), area_px=area_px, peak=peak)


def specks(count: int, *, stain: int = 0, peak: float = 20.0) -> np.ndarray:
    """A map with so many specks of one pixel, and with a weaker stain of so many by so many."""
    map_hw = np.zeros((128, 128), np.float32)
    places = [(y, x) for y in range(0, 96, 3) for x in range(0, 126, 3)][:count]
    for y, x in places:
        map_hw[y, x] = peak
    map_hw[100 : 100 + stain, 40 : 40 + stain] = 13.0
    return map_hw


WHOLE = View(frame_hw=(128, 128), size_hw=(128, 128))


@pytest.mark.parametrize("count", [1, 31, 32, 33, 500])
def test_specks_never_hide_a_stain(count: int) -> None:
    map_hw = specks(count, stain=8)
    judged_so = judge_areas(shown(map_hw), "defect", LIMITS.pixel, view=WHOLE, min_area=25)
    assert judged_so.verdict == "defect"
    assert [(each.box_xywh, each.area_px) for each in judged_so.regions] == [((40, 100, 8, 8), 64)]
    assert judged_so.count == 1
    alone = judge_areas(shown(specks(count)), "defect", LIMITS.pixel, view=WHOLE, min_area=25)
    assert (alone.verdict, alone.regions, alone.count) == ("good", (), 0)


@pytest.mark.parametrize("count", [31, 32, 500])
def test_the_largest_region_is_told_among_many_stronger_ones(count: int) -> None:
    judged_so = judge_areas(shown(specks(count, stain=14)), "defect", 12.0, view=WHOLE, min_area=0)
    assert judged_so.count == count + 1
    assert len(judged_so.regions) == min(count + 1, MAX_REGIONS)
    assert judged_so.regions[-1].area_px == 14 * 14, "the weakest, and the worst"
    severities = {
        severity_of(each, pixel_threshold=12.0, picture_px=128 * 128) for each in judged_so.regions
    }
    assert severities == {"minor", "major"}


def test_a_map_of_specks_alone_is_judged_at_once() -> None:
    map_hw = np.zeros((1024, 1024), np.float32)
    map_hw[::2, ::2] = 20.0  # 262,144 regions
    judged_so = judge_areas(
        shown(map_hw),
        "defect",
        12.0,
        view=View(frame_hw=(1024, 1024), size_hw=(1024, 1024)),
        min_area=2,
    )
    assert (judged_so.verdict, judged_so.count) == ("good", 0)
    every = marked_regions(
        shown(map_hw), "defect", 12.0, view=View(frame_hw=(1024, 1024), size_hw=(1024, 1024))
    )
    assert (len(every[0]), every[1]) == (MAX_REGIONS, 512 * 512)


@pytest.mark.parametrize(
    ("verdict", "sides", "expected", "left"),
    [
        ("defect", (6, 2), "defect", (36,)),
        ("defect", (4, 2), "good", ()),
        ("unsure", (4,), "good", ()),
        ("good", (), "good", ()),
        ("invalid", (2,), "invalid", (4,)),
    ],
)
def test_regions_below_an_area_do_not_decide(
    verdict: Verdict, sides: tuple[int, ...], expected: str, left: tuple[int, ...]
) -> None:
    map_hw = np.zeros((20, 20), np.float32)
    for number, side in enumerate(sides):
        map_hw[10 * number : 10 * number + side, :side] = 20.0
    judged_so = judge_areas(shown(map_hw), verdict, LIMITS.pixel, view=TWENTY, min_area=25)
    assert (judged_so.verdict, tuple(each.area_px for each in judged_so.regions)) == (
        expected,
        left,
    )
    assert judged_so.count == len(left)


@pytest.mark.parametrize(
    ("area_px", "peak", "severity"),
    [(99, 1.9, "minor"), (100, 1.1, "major"), (1, 2.0, "major"), (1, math.nan, "major")],
)
def test_severity_is_of_area_and_peak(area_px: int, peak: float, severity: str) -> None:
    assert severity_of(region(area_px, peak), pixel_threshold=1.0, picture_px=10_000) == severity


HERE = Pose(x=5.0, y=6.0, degrees=0.0, home_xy=(5.0, 6.0))
FOUND = Found(pose=HERE, oddness=0.5, look=HERE)
ODD = replace(FOUND, oddness=1.2, reason="its mark is worn")
ELSEWHERE = replace(FOUND, oddness=1.2, look=replace(HERE, x=50.0))
NOTHING = Found(pose=None, oddness=math.inf, look=HERE)


@pytest.mark.parametrize(
    ("found", "score", "verdict"),
    [
        (FOUND, 9.0, "good"),
        (FOUND, 11.0, "defect"),
        (ODD, 11.0, "defect"),
        (ODD, 9.0, "not_found"),
        (ODD, math.nan, "not_found"),
        (ELSEWHERE, 11.0, "not_found"),
        (ELSEWHERE, 9.0, "not_found"),
        (NOTHING, 11.0, "not_found"),
        (NOTHING, 9.0, "not_found"),
    ],
)
def test_a_part_that_looks_odd_is_never_good(found: Found, score: float, verdict: str) -> None:
    assert verdict_on(score, LIMITS, found=found) == verdict
    assert verdict_on(min(score, 9.0), BAND, found=found) != "good" or found.ok


def test_small_regions_of_a_part_that_looks_odd_do_not_make_it_good() -> None:
    for found, expected in ((ODD, "not_found"), (FOUND, "good")):
        small = judge_areas(
            shown(specks(1)), "defect", LIMITS.pixel, view=WHOLE, min_area=25, found=found
        )
        assert (small.verdict, small.regions) == (expected, ())


def test_a_part_that_is_not_found_has_a_region_all_the_same() -> None:
    map_hw = np.zeros((20, 20), np.float32)
    map_hw[4:7, 8:12] = 5.0
    regions, count = marked_regions(shown(map_hw), "not_found", LIMITS.pixel, view=TWENTY)
    assert (regions[0].box_xywh, count) == ((8, 4, 4, 3), 1)
