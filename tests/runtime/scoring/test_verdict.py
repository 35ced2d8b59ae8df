"""Verdicts, alarms and regions against brute force."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from edgeseg.base.errors import UsageError
from edgeseg.decision.judgement import verdict_on
from edgeseg.decision.prediction import MAX_REGIONS, find_regions
from edgeseg.runtime.scoring.verdict import Debounce, SourceAlarm
from tests.support.thresholds import made_up_thresholds


@pytest.mark.parametrize(
    ("score", "verdict"),
    [
        (9.9, "good"),
        (10.0, "good"),
        (10.1, "defect"),
        (math.nan, "invalid"),
        (math.inf, "invalid"),
        (-math.inf, "invalid"),
    ],
)
def test_verdicts(score: float, verdict: str) -> None:
    limits = made_up_thresholds(10.0, pixel=9.0)
    assert verdict_on(score, limits) == verdict


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 6), st.integers(0, 5))
def test_alarm_is_k_of_the_last_n(bad: list[bool], k: int, more: int) -> None:
    n = k + more
    alarm = SourceAlarm(Debounce(k=k, n=n))
    before = False
    for index in range(len(bad)):
        started = alarm.update("defect" if bad[index] else "good")
        expected = sum(bad[max(0, index - n + 1) : index + 1]) >= k
        assert alarm.active == expected
        assert started == (expected and not before)
        before = expected


def test_an_invalid_score_counts_towards_an_alarm() -> None:
    alarm = SourceAlarm(Debounce(k=2, n=2))
    alarm.update("invalid")
    assert alarm.update("invalid")


def test_frames_before_a_lost_connection_are_forgotten() -> None:
    alarm = SourceAlarm(Debounce(k=2, n=3))
    alarm.update("defect")
    alarm.forget()
    alarm.update("defect")
    assert not alarm.active


def test_debounce_is_read_and_checked() -> None:
    assert Debounce.parse("3/5") == Debounce(k=3, n=5)
    for text in ("3", "a/b", "3/5/7"):
        with pytest.raises(UsageError, match="expected k/n, for example 3/5"):
            Debounce.parse(text)
    for text in ("0/5", "6/5"):
        with pytest.raises(UsageError, match="expected 1 <= k <= n"):
            Debounce.parse(text)


@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(1, 20))
def test_regions_are_those_of_scipy(seed: int, height: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    map_hw = rng.random((height, width)).astype(np.float32)
    threshold = float(rng.random())
    labels, count = ndimage.label(map_hw > threshold, structure=np.ones((3, 3)))
    regions, region_count = find_regions(map_hw, threshold, size_hw=(height, width))
    assert region_count == count
    assert len(regions) == min(count, MAX_REGIONS)
    expected = []
    for label, (rows, columns) in enumerate(ndimage.find_objects(labels), start=1):
        inside = labels == label
        box = (columns.start, rows.start, columns.stop - columns.start, rows.stop - rows.start)
        expected.append((float(map_hw[inside].max()), box, int(inside.sum())))
    expected.sort(key=lambda item: -item[0])
    told = expected[:MAX_REGIONS]
    if count > MAX_REGIONS:
        largest = max(expected, key=lambda item: item[2])
        told = told if largest in told else [*told[:-1], largest]
    assert [(r.peak, r.box_xywh, r.area_px) for r in regions] == told


def test_boxes_are_in_pixels_of_the_frame() -> None:
    map_hw = np.zeros((8, 8), np.float32)
    map_hw[2:4, 5] = 9.0
    (region,), count = find_regions(map_hw, 1.0, size_hw=(80, 160))
    assert (region.box_xywh, region.area_px, count) == ((100, 20, 20, 20), 400, 1)
    (small,), _ = find_regions(map_hw, 1.0, size_hw=(4, 4))
    assert small.box_xywh == (2, 1, 1, 1)
    assert small.area_px == 1


@given(st.integers(1, 300), st.integers(1, 5000), st.integers(1, 300), st.integers(1, 5000))
def test_a_box_never_leaves_the_frame(map_h: int, height: int, map_w: int, width: int) -> None:
    whole_hw = np.ones((map_h, map_w), np.float32)
    (region,), _ = find_regions(whole_hw, 0.5, size_hw=(height, width))
    assert region.box_xywh == (0, 0, width, height)


def test_nothing_above() -> None:
    assert find_regions(np.zeros((4, 4), np.float32), 1.0, size_hw=(4, 4)) == ((), 0)


def test_a_doubt_is_never_an_alarm_and_never_ends_one() -> None:
    alarm = SourceAlarm(Debounce(k=2, n=3))
    assert not any(alarm.update("unsure") for _ in range(9))
    alarm.update("defect")
    alarm.update("unsure")
    assert alarm.update("defect"), "two of the last three"
