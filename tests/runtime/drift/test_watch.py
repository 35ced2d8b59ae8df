"""Drift against defects: a broad rise that stays, against a local one that comes and goes."""

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.runtime.drift.sink import DriftChange, DriftSink
from edgeseg.runtime.drift.watch import DriftState, DriftWatch
from tests.support.brightness_model import brightness_metadata
from tests.support.drift_distances import GRID, WINDOW, baseline, good_grid, textured
from tests.support.scored_frames import make_result, passing_part


def _run(watch: DriftWatch, frames: int, change, *, seed: int = 0) -> DriftState:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    for index in range(frames):
        grid_hw = change(good_grid(rng), index, rng)
        watch.update(grid_hw, anomalous=float(grid_hw.max()) > 8.0)
    return watch.state


def _same(grid_hw, index, rng):  # type: ignore[no-untyped-def]
    return grid_hw


def test_good_frames_have_a_ratio_of_one() -> None:
    state = _run(DriftWatch(baseline(), window=WINDOW), 512, _same)
    assert state.level == "ok"
    assert state.kind == "none"
    assert state.ratio == pytest.approx(1.0, abs=0.02)
    # The median of this gamma distribution is .979 of its mean.
    assert state.median_ratio == pytest.approx(0.979, abs=0.03)
    assert state.moved_share == 0.0
    assert state.frames == 512
    assert state.message == "as on the good images"
    assert state.advice == ""


def test_ratio_is_the_plain_mean_until_the_window_is_full() -> None:
    rng = np.random.default_rng(1)
    grids = [good_grid(rng) for _ in range(48)]
    watch = DriftWatch(baseline(), window=WINDOW)
    for grid_hw in grids:
        watch.update(grid_hw, anomalous=False)
    assert watch.state.ratio == pytest.approx(np.mean([g.astype(float) ** 2 for g in grids]) / 16)


def test_a_broad_rise_that_stays_warns_and_its_end_is_noticed() -> None:
    watch = DriftWatch(baseline(), window=WINDOW)
    _run(watch, 128, _same)
    state = _run(watch, WINDOW, lambda g, i, rng: g * 1.25)  # d^2 by 1.56: 2.25 deviations
    assert state.level == "warn"
    assert state.ratio > 1.25
    assert _run(watch, 4 * WINDOW, _same).level == "ok"


def test_no_warning_within_the_first_quarter_of_a_window() -> None:
    watch = DriftWatch(baseline(), window=WINDOW)
    state = _run(watch, WINDOW // 4, lambda g, i, rng: g * 10)
    assert state.level == "unseen"
    assert _run(watch, WINDOW, lambda g, i, rng: g * 10).level == "warn"


def _defect(share_of_cells: float, share_of_frames: float):  # type: ignore[no-untyped-def]
    side = round(GRID[0] * math.sqrt(share_of_cells))

    def change(grid_hw, index, rng):  # type: ignore[no-untyped-def]
        if rng.random() < share_of_frames:
            y, x = rng.integers(0, GRID[0] - side + 1, 2)
            grid_hw[y : y + side, x : x + side] *= 20.0
        return grid_hw

    return change


@pytest.mark.parametrize(
    ("cells", "frames"), [(0.02, 1.0), (0.12, 1.0), (0.25, 0.5), (1.0, 0.3), (0.6, 0.4)]
)
def test_defects_do_not_warn(cells: float, frames: float) -> None:
    # Everywhere now and then, or always but at changing places.
    state = _run(DriftWatch(baseline(), window=WINDOW), 512, _defect(cells, frames))
    assert state.level == "ok", state.message
    assert state.anomalous_share > 0.15  # they were there


def _corner(grid_hw, index, rng):  # type: ignore[no-untyped-def]
    grid_hw[:4, :4] *= 1.5
    return grid_hw


def test_a_corner_that_has_risen_is_mapped_but_is_no_drift() -> None:
    state = _run(DriftWatch(baseline(), window=WINDOW), 512, _corner)
    assert state.level == "ok"
    assert state.anomalous_share < 0.5
    assert (state.ratio_hw[:4, :4] > 1.9).all()
    assert (state.ratio_hw[4:, 4:] < 1.4).all()
    assert state.moved_share == pytest.approx(1 / 16)


def test_a_corner_that_alarms_in_most_views_is_a_spot() -> None:
    rng = np.random.default_rng(8)
    watch = DriftWatch(baseline(), window=WINDOW)
    for _ in range(2 * WINDOW):
        grid_hw = _corner(good_grid(rng), 0, rng)
        state = watch.update(grid_hw, anomalous=True)
    assert (state.level, state.kind) == ("warn", "spot")
    assert state.message == (
        "the same spot is anomalous in most views: 100% of the frames are anomalous, "
        "6% of the cells have risen and stayed high"
    )
    for _ in range(4 * WINDOW):  # the lens was wiped
        state = watch.update(good_grid(rng), anomalous=False)
    assert state.level == "ok"


def test_a_line_that_stops_at_a_defect_is_no_drift() -> None:
    rng = np.random.default_rng(6)
    watch = DriftWatch(baseline())  # window of 200
    broken, picture = good_grid(rng), textured(rng)
    broken[:12] *= 3.0  # three quarters of the picture
    for _ in range(2000):
        noisy = np.clip(picture + rng.normal(0, 3, picture.shape), 0, 255).astype(np.uint8)
        grid_hw = broken * rng.normal(1.0, 0.02, GRID).astype(np.float32)
        state = watch.update(grid_hw, anomalous=True, frame_hwc=noisy)
    assert state.level == "ok"
    # The same in part after part is no single defect any more.
    for _ in range(400):
        grid_hw = good_grid(rng)
        grid_hw[:12] *= 3.0
        state = watch.update(grid_hw, anomalous=True, frame_hwc=textured(rng))
    assert state.level == "warn"


def test_drift_of_a_scene_at_rest_is_found_later() -> None:
    rng = np.random.default_rng(7)
    watch = DriftWatch(baseline(), window=WINDOW)
    still, picture = good_grid(rng), textured(rng)
    for _ in range(200 * WINDOW):
        state = watch.update(still * np.float32(1.6), anomalous=False, frame_hwc=picture)
    assert state.level == "warn"


def test_drift_of_a_part_of_the_picture_warns() -> None:
    def half(grid_hw, index, rng):  # type: ignore[no-untyped-def]
        grid_hw[:, :6] *= 1.5
        return grid_hw

    state = _run(DriftWatch(baseline(), window=WINDOW), 512, half)
    assert state.level == "warn"
    assert state.median_ratio < state.median_limit  # it is the share that speaks
    assert state.moved_share == pytest.approx(6 / 16)


@settings(max_examples=20)
@given(cells=st.floats(0, 1), frames=st.floats(0, 0.35), seed=st.integers(0, 1000))
def test_no_defect_in_a_third_of_the_frames_ever_warns(
    cells: float, frames: float, seed: int
) -> None:
    watch = DriftWatch(baseline(), window=WINDOW)
    assert _run(watch, 256, _defect(cells, frames), seed=seed).level == "ok"


def test_saturated_background_does_not_divide_by_zero() -> None:
    zeros = ((0.0,) * GRID[1],) * GRID[0]
    dark = replace(baseline(), d2_mean=zeros, d2_std=zeros)
    watch = DriftWatch(dark, window=WINDOW)
    state = _run(watch, 128, lambda g, i, rng: np.zeros(GRID, np.float32))
    assert state.level == "ok"
    assert np.isfinite(state.ratio_hw).all()
    assert _run(watch, 256, _same).level == "warn"  # it is no longer saturated: light has moved


def test_invalid_frames_say_nothing() -> None:
    watch = DriftWatch(baseline(), window=WINDOW)
    before = _run(watch, 64, _same)
    for value in (np.nan, np.inf):
        assert watch.update(np.full(GRID, value, np.float32), anomalous=True) is before
    assert np.isfinite(_run(watch, 64, _same).ratio_hw).all()


def test_memory_does_not_grow_with_the_stream() -> None:
    watch = DriftWatch(baseline(), window=WINDOW)
    _run(watch, 64, _same)
    tracemalloc.start(8)
    _run(watch, 2048, _same)
    # What the watch itself took: other threads of this process may allocate meanwhile.
    ours = tracemalloc.Filter(True, "*/runtime/drift/*", all_frames=True)
    kept = tracemalloc.take_snapshot().filter_traces([ours])
    tracemalloc.stop()
    assert sum(trace.size for trace in kept.traces) < 16_000


def test_a_kept_state_does_not_change() -> None:
    watch = DriftWatch(baseline(), window=WINDOW)
    state = _run(watch, 64, _same)
    copy_hw = state.ratio_hw.copy()
    _run(watch, 64, lambda g, i, rng: g * 3)
    np.testing.assert_array_equal(state.ratio_hw, copy_hw)


def test_a_baseline_without_spread_is_refused() -> None:
    metadata = brightness_metadata()
    metadata = replace(metadata, drift=replace(metadata.drift, frame_std=0.0))
    with pytest.raises(RuntimeFailure, match=r"frame_std 0\.0, expected both above 0; fit on more"):
        DriftSink(metadata)


def test_bad_window_and_grid_are_refused() -> None:
    with pytest.raises(UsageError, match="drift window: got 3 frames, expected 16 or more"):
        DriftWatch(baseline(), window=3)
    with pytest.raises(RuntimeFailure, match=r"a grid of \(2, 2\), expected \(16, 16\)"):
        DriftWatch(baseline()).update(np.ones((2, 2), np.float32), anomalous=False)


def test_sink_watches_each_source_and_tells_changes_once() -> None:
    changes: list[tuple[int, str]] = []
    sink = DriftSink(
        brightness_metadata(),
        window=32,
        publish=lambda each: changes.append((each.result.source_index, each.state.level)),
    )
    # Metadata: d of 100 on average with hardly any deviation.
    for index in range(200):
        for source, distance in ((0, 100.0), (1, 130.0 if index < 100 else 100.0)):
            grid_hw = np.full((4, 6), distance, np.float32)
            sink.on_frame(
                make_result(
                    grid_hw=grid_hw,
                    frame_hwc=passing_part(index),
                    source_index=source,
                    frame_index=index,
                )
            )
    assert changes == [(1, "warn"), (1, "ok")]
    assert sink.states[0].level == sink.states[1].level == "ok"
    sink.on_frame(make_result(grid_hw=None, source_index=2))  # a tiled frame has no grid
    assert 2 not in sink.states
    event = DriftChange(result=make_result(), state=sink.states[0]).facts()
    assert (event["schema"], event["event"], event["kind"]) == (1, "drift_over", "none")
