"""Drawing: what must change, what must not, and that nothing is hidden."""

import numpy as np
import pytest

from edgeseg.decision.prediction import Region
from edgeseg.runtime.drift.sink import drift_picture
from edgeseg.runtime.sinks.overlay import annotate, annotate_result, strip_height
from tests.support.scored_frames import THRESHOLD, make_drift_state, make_result

GREY = 90


def _heat(peak: float, *, size_hw: tuple[int, int] = (32, 32)) -> np.ndarray:
    """Heat in the upper left quarter, three eighths in: not symmetric in any way."""
    map_hw = np.zeros(size_hw, np.float32)
    height, width = size_hw
    map_hw[height // 8 : height // 4, width // 8 : 3 * width // 8] = peak
    return map_hw


def _plain(size_hw: tuple[int, int]) -> np.ndarray:
    return np.full((*size_hw, 3), GREY, np.uint8)


@pytest.mark.parametrize("size_hw", [(48, 64), (33, 257), (1, 1), (7, 300), (300, 7)])
def test_a_good_frame_stays_as_it_is(size_hw: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    frame = rng.integers(0, 256, (*size_hw, 3), dtype=np.uint8)
    out = annotate_result(make_result(frame_hwc=frame, score=5.0))
    height = size_hw[0]
    assert out.shape == (height + strip_height(size_hw), size_hw[1], 3)
    np.testing.assert_array_equal(out[:height], frame)
    np.testing.assert_array_equal(
        annotate_result(make_result(frame_hwc=frame, score=5.0), strip=False), frame
    )


def test_input_is_never_written_to() -> None:
    frame = _plain((48, 64))
    frame.flags.writeable = False
    view = frame[::2, 4:50]  # strided, as a region of interest is
    region = Region(box_xywh=(4, 4, 9, 6), area_px=40, peak=30.0)
    result = make_result(
        frame_hwc=view, score=30.0, map_hw=_heat(30.0), regions=(region,), alarm_started=True
    )
    assert not np.array_equal(annotate_result(result, strip=False), view)
    assert (frame == GREY).all()


@pytest.mark.parametrize("map_hw", [(32, 32), (256, 256), (96, 40)])
@pytest.mark.parametrize("size_hw", [(48, 64), (480, 640), (131, 257)])
def test_heat_is_where_the_map_is(size_hw: tuple[int, int], map_hw: tuple[int, int]) -> None:
    result = make_result(frame_hwc=_plain(size_hw), score=30.0, map_hw=_heat(30.0, size_hw=map_hw))
    out = annotate_result(result, strip=False)
    changed = (out != GREY).any(axis=2)
    height, width = size_hw
    inside = changed[
        round(height * 0.16) : round(height * 0.22), round(width * 0.16) : round(width * 0.34)
    ]
    assert inside.all()
    # Beyond two map pixels around the heat nothing has changed.
    edge_y, edge_x = 2.5 / map_hw[0], 2.5 / map_hw[1]
    assert not changed[round(height * (0.25 + edge_y)) + 2 :].any()
    assert not changed[:, round(width * (0.375 + edge_x)) + 2 :].any()


def test_heat_grows_from_nothing_below_the_threshold() -> None:
    def change(peak: float) -> float:
        map_hw = np.full((32, 32), peak, np.float32)
        out = annotate_result(
            make_result(frame_hwc=_plain((64, 64)), score=peak, map_hw=map_hw), strip=False
        )
        # Not at the border, where the contour runs.
        return float(np.abs(out[16:48, 16:48].astype(int) - GREY).mean())

    changes = [change(peak) for peak in (0.0, 7.4, 9.0, 10.5, 13.0, 20.0, 100.0)]
    assert changes[0] == changes[1] == 0.0
    assert 0.0 < changes[2] < changes[3] < changes[4] < changes[5] == changes[6]


def test_the_part_shows_through_the_strongest_heat() -> None:
    frame = _plain((64, 64))
    frame[:, ::2] = 200
    map_hw = np.full((32, 32), 1e6, np.float32)
    out = annotate_result(make_result(frame_hwc=frame, score=1e6, map_hw=map_hw), strip=False)
    assert int(out[32, 20, 1]) - int(out[32, 21, 1]) > 30


def test_contour_runs_along_the_pixel_threshold() -> None:
    # A ramp from left to right; the threshold lies in the middle.
    map_hw = np.tile(np.linspace(0, 2 * THRESHOLD, 256, dtype=np.float32), (256, 1))
    out = annotate_result(
        make_result(frame_hwc=_plain((256, 256)), score=20.0, map_hw=map_hw), strip=False
    )
    white = np.nonzero(out[100, :, 2] > 200)[0]  # heat takes blue away, the contour is white
    assert abs(int(white[0]) - 128) <= 2


def test_boxes_are_brackets_around_the_region() -> None:
    region = Region(box_xywh=(30, 20, 40, 30), area_px=900, peak=12.0)
    quiet = np.zeros((32, 32), np.float32)
    out = annotate_result(
        make_result(frame_hwc=_plain((96, 128)), score=12.0, map_hw=quiet, regions=(region,)),
        strip=False,
    )
    changed = (out != GREY).any(axis=2)
    assert changed[17, 27]  # the corner, three pixels outside
    assert not changed[24:46, 34:66].any()  # the region itself stays free
    assert not changed[35, 27]  # a bracket, not a box


def test_boxes_are_scaled_with_the_picture() -> None:
    region = Region(box_xywh=(400, 200, 160, 120), area_px=9000, peak=12.0)
    result = make_result(
        frame_hwc=_plain((800, 1000)),
        score=12.0,
        map_hw=np.zeros((32, 32), np.float32),
        regions=(region,),
    )
    out = annotate_result(result, max_side=500, strip=False)
    assert out.shape == (400, 500, 3)
    ys, xs = np.nonzero((out != GREY).any(axis=2))
    assert (abs(xs.min() - 197) <= 3, abs(ys.min() - 97) <= 3) == (True, True)
    assert (abs(xs.max() - 283) <= 3, abs(ys.max() - 163) <= 3) == (True, True)
    assert annotate_result(result, max_side=5000, strip=False).shape == (800, 1000, 3)
    assert annotate_result(result, min_side=1001, strip=False).shape == (1600, 2000, 3)
    assert annotate_result(result, min_side=1000, strip=False).shape == (800, 1000, 3)


def test_an_alarm_frames_the_picture() -> None:
    calm = annotate_result(make_result(score=5.0), strip=False)
    alarmed = annotate_result(make_result(score=5.0, alarm=True), strip=False)
    assert (calm[0] == GREY).all()
    assert (alarmed[0] != GREY).any()
    assert (alarmed[-1, :, 0] > 200).all()
    np.testing.assert_array_equal(alarmed[5:-5, 5:-5], calm[5:-5, 5:-5])


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_an_invalid_frame_shows_no_heat(score: float) -> None:
    map_hw = np.full((32, 32), np.nan, np.float32)
    out = annotate_result(make_result(score=score, map_hw=map_hw))
    assert (out[:48] == GREY).all()
    assert tuple(out[49, 1]) == (214, 142, 18)


@pytest.mark.parametrize(("score", "left_rgb"), [(5.0, (46, 160, 87)), (25.0, (226, 50, 54))])
def test_strip_tells_verdict_and_score(score: float, left_rgb: tuple[int, int, int]) -> None:
    quiet = np.zeros((32, 32), np.float32)
    out = annotate_result(make_result(frame_hwc=_plain((480, 640)), score=score, map_hw=quiet))
    strip = out[480:]
    assert tuple(strip[0, 0]) == left_rgb
    middle = strip[len(strip) // 2]
    filled = (middle[150:] == left_rgb).all(axis=1).sum()
    assert filled > 50
    half = annotate_result(make_result(frame_hwc=_plain((480, 640)), score=score / 2, map_hw=quiet))
    colour = (46, 160, 87) if score / 2 <= THRESHOLD else left_rgb
    filled_half = (half[480 + len(strip) // 2, 150:] == colour).all(axis=1).sum()
    assert filled_half < filled


def test_many_regions_cost_no_more_than_some() -> None:
    region = Region(box_xywh=(1, 1, 2, 2), area_px=4, peak=12.0)
    out = annotate(
        _plain((48, 64)),
        map_hw=np.zeros((32, 32), np.float32),
        regions=(region,) * 1000,
        score=12.0,
        threshold_score=THRESHOLD,
        threshold_pixel=THRESHOLD,
        verdict="defect",
    )
    assert out.shape[1] == 64


def test_drift_picture_colours_the_risen_cells_only() -> None:
    ratio_hw = np.ones((4, 6), np.float32)
    ratio_hw[1, 4] = 3.0
    state = make_drift_state(ratio_hw)
    out = drift_picture(_plain((480, 960)), state)
    assert out.shape == (240, 480, 3)
    coloured = out.max(axis=2).astype(int) - out.min(axis=2) > 20
    ys, xs = np.nonzero(coloured)
    assert (ys.min(), ys.max()) == (60, 119)
    assert (xs.min(), xs.max()) == (320, 399)
