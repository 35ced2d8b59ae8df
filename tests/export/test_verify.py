"""Does the comparison itself see what it should see?"""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import spearmanr

from edgeseg.contract.precisions import PRECISIONS
from edgeseg.export.precision.makers import MAKERS
from edgeseg.export.precision.tolerances import TOLERANCES, Tolerance
from edgeseg.export.verify import (
    Agreement,
    agreement,
    in_batches,
    installed_backends,
    ordered,
    rank_correlation,
    table,
)
from edgeseg.model.predictor import Predictor

FRAMES = np.arange(5, dtype=np.uint8)[:, None, None, None] * np.ones((1, 4, 6, 3), np.uint8) * 40
Arrays = tuple[NDArray[np.float32], NDArray[np.float32]]


def brightness(frames: NDArray[np.uint8]) -> Arrays:
    """The mean of the channels (N, H, W) and its maximum (N,)."""
    maps = frames.mean(axis=3, dtype=np.float32)
    maps[:, 0, 0] += 10
    return maps, maps.max(axis=(1, 2))


def compare(
    candidate: Predictor,
    *,
    reference: Predictor = brightness,
    frames: NDArray[np.uint8] = FRAMES,
    threshold: float = 100.0,
    tolerance: Tolerance = TOLERANCES["fp32"],
) -> Agreement:
    return agreement(
        reference,
        candidate,
        frames,
        backend="other",
        source="test",
        threshold=threshold,
        tolerance=tolerance,
    )


def test_the_same_answers_agree_perfectly() -> None:
    row = compare(brightness)
    assert row.passed
    assert (row.max_error, row.mean_error, row.p99_error) == (0.0, 0.0, 0.0)
    assert (row.rank_correlation, row.flips, row.images) == (pytest.approx(1.0), 0, 5)
    assert row.map_range == 170.0, "0 to 160, and 10 more in one pixel"


def test_errors_are_shares_of_the_range() -> None:
    def off(frames: NDArray[np.uint8]) -> Arrays:
        maps, scores = brightness(frames)
        maps[2, 1, 1] += 17.0
        return maps, scores

    row = compare(off)
    assert row.max_error == pytest.approx(0.1)
    assert row.mean_error == pytest.approx(0.1 / 120)
    assert row.p99_error == pytest.approx(np.quantile([0.0] * 119 + [0.1], 0.99))
    assert row.failures == ("max error: expected <= 0.001", "mean error: expected <= 0.0001")


def test_verdicts_that_change_are_counted_and_tolerated_as_a_share() -> None:
    def lower(frames: NDArray[np.uint8]) -> Arrays:
        maps, scores = brightness(frames)
        return maps, scores - 35  # 10, 50, 90, 130, 170: one of them falls below 100

    row = compare(lower)
    assert row.flips == 1
    assert row.failures == ("flipped verdicts: expected <= 0%",)
    loose = Tolerance(max_error=0, mean_error=0, min_rank_correlation=0.9, max_flips=0.2)
    assert compare(lower, tolerance=loose).passed
    assert not compare(lower, tolerance=Tolerance(**{**vars(loose), "max_flips": 0.19})).passed


def test_scores_that_do_not_follow_the_reference_fail() -> None:
    def constant(frames: NDArray[np.uint8]) -> Arrays:
        maps, scores = brightness(frames)
        return maps, np.full_like(scores, 500.0)

    row = compare(constant, threshold=-1.0)
    assert row.rank_correlation == 0.0, "right maps, and a score that says nothing"
    assert row.failures == ("rank correlation: expected >= 0.9999",)


@pytest.mark.parametrize("place", ["map", "score"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_fails_and_stays_json(place: str, value: float) -> None:
    def broken(frames: NDArray[np.uint8]) -> Arrays:
        maps, scores = brightness(frames)
        if place == "map":
            maps[1, 2, 3] = value
        else:
            scores[1] = value
        return maps, scores

    row = compare(broken, tolerance=TOLERANCES["int8"])
    assert row.failures == ("not finite",)
    assert (row.max_error, row.rank_correlation) == (-1.0, -1.0)
    assert json.loads(json.dumps(row.to_dict(), allow_nan=False))["passed"] is False


def test_a_constant_map_has_no_range_to_divide_by() -> None:
    black = np.zeros((2, 4, 6, 3), np.uint8)

    def nothing(frames: NDArray[np.uint8]) -> Arrays:
        return np.zeros((len(frames), 4, 6), np.float32), np.zeros(len(frames), np.float32)

    row = compare(nothing, reference=nothing, frames=black)
    assert row.passed
    assert row.map_range == 1e-6


def test_a_graph_that_mixes_the_frames_of_a_batch_is_caught() -> None:
    def mixes(frames: NDArray[np.uint8]) -> Arrays:
        maps, scores = brightness(frames)
        return np.repeat(maps.mean(axis=0, keepdims=True), len(maps), axis=0), scores

    assert compare(in_batches(mixes, (1, 1, 1))).passed, "with one frame there is nothing to mix"
    assert not compare(in_batches(mixes, (2, 2, 2))).passed
    assert not compare(in_batches(mixes, (1, 2, 4))).passed


@pytest.mark.parametrize(
    ("batch", "sizes"),
    [
        ((1, 1, 1), [1, 1, 1, 1, 1]),
        ((2, 2, 2), [2, 2, 2]),
        ((8, 8, 8), [8]),
        ((1, 2, 4), [4, 1]),
        ((3, 3, 4), [4, 3]),
    ],
)
def test_frames_are_fed_in_the_sizes_that_a_graph_takes(
    batch: tuple[int, int, int], sizes: list[int]
) -> None:
    seen = []

    def remembers(frames: NDArray[np.uint8]) -> Arrays:
        seen.append(len(frames))
        return brightness(frames)

    maps, scores = in_batches(remembers, batch)(FRAMES)
    assert seen == sizes
    np.testing.assert_array_equal(maps, brightness(FRAMES)[0])
    np.testing.assert_array_equal(scores, brightness(FRAMES)[1])


numbers = st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=12)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_rank_correlation_is_spearmans_with_ties(data: st.DataObject) -> None:
    a = data.draw(numbers)
    b = data.draw(st.lists(st.integers(-3, 3).map(float), min_size=len(a), max_size=len(a)))
    found = rank_correlation(np.array(a), np.array(b))
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert found == (1.0 if len(set(a)) == len(set(b)) == 1 else 0.0)
    else:
        assert found == pytest.approx(spearmanr(a, b).statistic, abs=1e-12)


def test_order_of_scores_that_are_told_apart() -> None:
    wanted = np.array([1.0, 1.1, 1.2, 5.0])
    assert ordered(wanted, wanted, apart=0) == 1.0
    assert ordered(wanted, -wanted, apart=0) == -1.0
    assert ordered(wanted, np.zeros(4), apart=0) == 0.0, "a score that says nothing keeps no order"
    shuffled = np.array([1.2, 1.1, 1.0, 5.0])
    assert rank_correlation(wanted, shuffled) == pytest.approx(0.2)
    assert ordered(wanted, shuffled, apart=0) == 0.0
    assert ordered(wanted, shuffled, apart=0.5) == 1.0, "only the last is told apart"
    assert ordered(wanted, -shuffled, apart=0.5) == -1.0
    assert ordered(wanted, shuffled, apart=9) == 1.0, "no order to lose"


def test_rank_correlation_of_known_orders() -> None:
    up = np.array([1.0, 2.0, 3.0, 10.0])
    assert rank_correlation(up, up**3) == pytest.approx(1.0)
    assert rank_correlation(up, -up) == pytest.approx(-1.0)
    assert rank_correlation(up[:1], up[:1]) == 1.0, "one image has no order to lose"


def test_the_table_names_backends_figures_and_failures() -> None:
    good = compare(brightness)
    bad = compare(lambda frames: (brightness(frames)[0] * 2, brightness(frames)[1]))
    lines = table([good, bad]).splitlines()
    head = ["backend", "images", "max", "mean", "p99", "ranks", "flips"]
    assert lines[0].split() == head
    assert lines[1].split() == ["other", "5", "0.00e+00", "0.00e+00", "0.00e+00", "1.00000", "0",
                                "ok"]  # fmt: skip
    assert lines[2].endswith(f"FAILED, {'; '.join(bad.failures)}")
    assert lines[-1] == "errors are shares of the map's range"


def test_backends_that_are_not_installed_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def names(precision: str, target: str) -> list[str]:
        path = Path("x.onnx")
        backends = installed_backends(path, precision=precision, target=target, batch=(1, 1, 1))
        return list(backends)

    exact = "ONNX Runtime, as written"
    assert names("fp32", "cpu") == names("int8", "cpu") == ["ONNX Runtime", "OpenVINO"]
    assert names("fp16", "cpu") == names("fp16", "trt") == [exact, "OpenVINO"]
    assert names("int8", "trt") == [exact], "a CPU's kernels would be judged, not the graph"
    found: dict[str, Any] = {"openvino": None}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found[name])
    assert names("fp32", "cpu") == ["ONNX Runtime"]


def test_tolerances_grow_as_precision_falls_and_fp32_is_the_promised_one() -> None:
    assert list(TOLERANCES) == list(MAKERS) == list(PRECISIONS)
    rows = list(TOLERANCES.values())
    for finer, coarser in itertools.pairwise(rows):
        assert finer.max_error < coarser.max_error
        assert finer.mean_error < coarser.mean_error
        assert finer.min_rank_correlation > coarser.min_rank_correlation
    assert (rows[0].max_error, rows[0].max_flips) == (1e-3, 0.0)
