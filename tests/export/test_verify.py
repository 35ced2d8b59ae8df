"""Does the comparison itself see what it should see?"""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import spearmanr

from edgeseg.base.errors import ExportError
from edgeseg.export.precision.makers import MAKERS
from edgeseg.export.precision.tolerances import TOLERANCES, Tolerance
from edgeseg.export.sessions import backend_predictors, in_batches
from edgeseg.export.verify import (
    Agreement,
    VerificationFrames,
    agreement,
    order_agreement,
    rank_correlation,
    table,
)
from edgeseg.model.predictor import Predictor
from edgeseg.modelfile.precisions import PRECISIONS

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
    own_threshold: float | None = None,
    tolerance: Tolerance = TOLERANCES["fp32"],
    planted: int = 0,
    refitted: bool = False,
    head_error: float | None = None,
) -> Agreement:
    return agreement(
        reference,
        candidate,
        VerificationFrames(images=frames, source="test", planted=planted, refitted=refitted),
        backend="other",
        thresholds=(threshold, threshold if own_threshold is None else own_threshold),
        tolerance=tolerance,
        head_error=head_error,
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
    assert row.failures == (
        "max error 0.1, expected <= 0.001",
        "mean error 0.00083, expected <= 0.0001",
    )


def test_verdicts_that_change_are_counted_and_tolerated_as_a_share() -> None:
    def lower(frames: NDArray[np.uint8]) -> Arrays:
        maps, scores = brightness(frames)
        return maps, scores - 35  # 10, 50, 90, 130, 170: one of them falls below 100

    row = compare(lower)
    assert row.flips == 1
    assert row.failures == (
        "score error 0.21, expected <= 0.001",
        "verdicts that differ 1, expected <= 0",
    )
    loose = Tolerance(max_error=0.3, mean_error=0, min_rank_correlation=0.9, max_flips=0.02)
    assert compare(lower, tolerance=loose).passed, "0.98^5 is 0.90: one of five is no surprise"
    assert not compare(lower, tolerance=Tolerance(**{**vars(loose), "max_flips": 0.01})).passed


def test_a_score_that_the_map_does_not_show_is_compared_too() -> None:
    """A map of its own does not tell whether the score's cells are right."""

    def louder(frames: NDArray[np.uint8]) -> Arrays:
        maps, scores = brightness(frames)
        return maps, scores * 1.01

    row = compare(louder, threshold=500.0)
    assert (row.max_error, row.flips, row.rank_correlation) == (0.0, 0, pytest.approx(1.0))
    assert row.failures == ("score error 0.01, expected <= 0.001",)


def test_an_image_that_is_the_threshold_itself_has_no_verdict_to_lose() -> None:
    def moved(frames: NDArray[np.uint8], by: float) -> Arrays:
        maps, scores = brightness(frames)
        return maps, scores + np.float32(by)

    threshold = float(brightness(FRAMES)[1][2])
    rounded = compare(lambda frames: moved(frames, 1e-3), threshold=threshold)
    assert (rounded.flips, rounded.passed) == (0, True), "170 times 1e-4 is a tie"
    higher = compare(lambda frames: moved(frames, 0.1), threshold=threshold)
    assert higher.failures == ("verdicts that differ 1, expected <= 0",)


def test_scores_that_do_not_follow_the_reference_fail() -> None:
    def constant(frames: NDArray[np.uint8]) -> Arrays:
        maps, scores = brightness(frames)
        return maps, np.full_like(scores, 500.0)

    row = compare(constant, threshold=-1.0)
    assert row.rank_correlation == 0.0, "right maps, and a score that says nothing"
    assert row.failures == (
        "score error 2.9, expected <= 0.001",
        "rank correlation 0, expected >= 0.9999",
    )


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


@settings(max_examples=200)
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
    assert order_agreement(wanted, wanted, apart=0) == 1.0
    assert order_agreement(wanted, -wanted, apart=0) == -1.0
    assert order_agreement(wanted, np.zeros(4), apart=0) == 0.0, (
        "a score that says nothing keeps no order"
    )
    shuffled = np.array([1.2, 1.1, 1.0, 5.0])
    assert rank_correlation(wanted, shuffled) == pytest.approx(0.2)
    assert order_agreement(wanted, shuffled, apart=0) == 0.0
    assert order_agreement(wanted, shuffled, apart=0.5) == 1.0, "only the last is told apart"
    assert order_agreement(wanted, -shuffled, apart=0.5) == -1.0
    assert order_agreement(wanted, shuffled, apart=9) == 1.0, "no order to lose"


def test_rank_correlation_of_known_orders() -> None:
    up = np.array([1.0, 2.0, 3.0, 10.0])
    assert rank_correlation(up, up**3) == pytest.approx(1.0)
    assert rank_correlation(up, -up) == pytest.approx(-1.0)
    assert rank_correlation(up[:1], up[:1]) == 1.0, "one image has no order to lose"


def test_the_table_names_backends_figures_and_failures() -> None:
    good = compare(brightness)
    bad = compare(lambda frames: (brightness(frames)[0] * 2, brightness(frames)[1]))
    lines = table([good, bad]).splitlines()
    head = ["backend", "max error", "mean error", "ranks", "same verdict", "verdict"]
    assert re.split(" {2,}", lines[0]) == head
    row = ["other", "0.0e+00", "0.0e+00", "1.0000", "5 of 5", "agrees"]
    assert re.split(" {2,}", lines[1]) == row
    assert lines[2].endswith(f"5 of 5  {'; '.join(bad.failures)}")
    assert lines[-1] == "errors are shares of the reference map's range, on 5 frames (test)"


class TestFittedAgain:
    """A graph with moments of its own: another map and another threshold by right."""

    def doubled(self, frames: NDArray[np.uint8]) -> Arrays:
        maps, scores = brightness(frames)
        return maps * 2, scores * 2

    def test_verdicts_are_compared_each_at_its_own_threshold(self) -> None:
        row = compare(self.doubled, own_threshold=200.0, refitted=True, planted=2, head_error=5e-5)
        assert row.passed, row.failures
        assert (row.flips, row.max_error) == (0, pytest.approx(1.0))
        assert (row.flagged, row.detected) == ((0, 0), (2, 2))
        assert row.auroc == (1.0, 1.0)
        assert not compare(self.doubled, refitted=True, head_error=5e-5).passed, "at the other's"

    def test_the_head_is_held_to_its_own_limit(self) -> None:
        row = compare(self.doubled, own_threshold=200.0, refitted=True, head_error=2e-4)
        assert row.failures == ("head error 0.0002, expected <= 0.0001",)
        broken = compare(self.doubled, own_threshold=200.0, refitted=True, head_error=np.nan)
        assert broken.failures == ("not finite",)
        json.dumps(broken.to_dict(), allow_nan=False)

    def test_planted_defects_that_are_no_longer_told_apart_fail(self) -> None:
        def reversed_scores(frames: NDArray[np.uint8]) -> Arrays:
            maps, scores = brightness(frames)
            return maps, 170 - scores

        loose = Tolerance(
            max_error=1, mean_error=1, min_rank_correlation=-1, max_flips=1, max_loss=0.1
        )
        row = compare(reversed_scores, refitted=True, planted=2, head_error=0.0, tolerance=loose)
        assert row.auroc == (1.0, 0.0)
        assert row.failures == ("loss of AUROC on planted defects 1, expected <= 0.1",)

    def test_the_table_says_what_is_compared_with_what(self) -> None:
        row = compare(self.doubled, own_threshold=100.0, refitted=True, planted=2, head_error=5e-5)
        lines = table([row]).splitlines()
        assert "head error" in lines[0]
        assert "max error" not in lines[0]
        assert "1 of 3 (fp32 0)" in lines[1], (
            "good images that it flags, and the reference does not"
        )
        assert "2 of 2" in lines[1]
        assert "agrees" not in lines[1]
        assert lines[2].startswith(
            "head error: against the reference's from the same embedding, of the map"
        )
        assert lines[2].endswith("on 5 frames (test); AUROC of fp32 1.000")


def test_backends_that_are_not_installed_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def names(precision: str, target: str) -> list[str]:
        path = Path("x.onnx")
        backends = backend_predictors(path, precision=precision, target=target, batch=(1, 1, 1))
        return list(backends)

    exact = "ONNX Runtime, as written"
    assert names("fp32", "cpu") == names("int8", "cpu") == ["ONNX Runtime", "OpenVINO"]
    assert names("fp16", "cpu") == names("fp16", "trt") == [exact, "OpenVINO"]
    assert names("bf16", "cpu") == ["OpenVINO"], "no other library computes in bfloat16"
    assert names("int8", "trt") == [exact], "a CPU's kernels would be judged, not the graph"
    found: dict[str, Any] = {"openvino": None}
    monkeypatch.setattr("edgeseg.export.sessions.find_spec", lambda name: found[name])
    assert names("fp32", "cpu") == ["ONNX Runtime"]
    with pytest.raises(ExportError, match="precision=bf16 runs in OpenVINO alone, which is not"):
        names("bf16", "cpu")


def test_tolerances_grow_as_precision_falls_and_fp32_is_the_promised_one() -> None:
    assert list(TOLERANCES) == list(MAKERS) == list(PRECISIONS)
    rows = list(TOLERANCES.values())
    for finer, coarser in itertools.pairwise(rows):
        assert finer.max_error < coarser.max_error
        assert finer.mean_error < coarser.mean_error
        assert finer.min_rank_correlation > coarser.min_rank_correlation
    assert (rows[0].max_error, rows[0].max_flips) == (1e-3, 0.0)
