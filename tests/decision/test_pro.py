"""PRO and pixel AUROC of maps against the definition, hand-made examples and scikit-learn."""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import ndimage
from sklearn import metrics as sk

from edgeseg.decision import ranks
from edgeseg.decision.pro import MapEvaluator, MapScores
from tests.support.map_scores import map_scores

Image = tuple[NDArray[np.float32], NDArray[np.bool_]]

# Few distinct scores, so that ties between and within normal and anomalous pixels are the rule;
# or any float32 at all, both zeros and subnormals included.
TIED = st.sampled_from([-1.5, -0.0, 0.0, 0.5, 2.0, 7.0])
ANY = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def images(draw: st.DrawFn) -> Image:
    shape = draw(st.tuples(st.integers(1, 7), st.integers(1, 7)))
    map_hw = draw(hnp.arrays(np.float32, shape, elements=draw(st.sampled_from([TIED, ANY]))))
    mask_hw = draw(st.just(np.zeros(shape, np.bool_)) | hnp.arrays(np.bool_, shape))
    return map_hw, mask_hw


SETS = st.lists(images(), min_size=1, max_size=4)


LIMITS = (0.3, 0.05, 0.5, 1.0)


def evaluate(test_set: list[Image], *, memory_bytes: int = 1 << 20) -> MapScores:
    evaluator = MapEvaluator(limits=LIMITS, memory_bytes=memory_bytes)
    for map_hw, mask_hw in test_set:
        evaluator.add(map_hw, mask_hw)
    return evaluator.result()


def slow_curve(test_set: list[Image]) -> list[tuple[Fraction, Fraction]] | None:
    """The definition, word for word: every distinct score is a threshold."""
    regions, normal, scores = [], [], set()
    for map_hw, mask_hw in test_set:
        labels_hw, count = ndimage.label(mask_hw, structure=np.ones((3, 3)))
        regions += [map_hw[labels_hw == label] for label in range(1, count + 1)]
        normal += map_hw[~mask_hw].tolist()
        scores |= set(map_hw.ravel().tolist())
    if not regions or not normal:
        return None
    points = [(Fraction(0), Fraction(0))]
    for threshold in sorted(scores, reverse=True):
        fpr = Fraction(sum(score >= threshold for score in normal), len(normal))
        overlaps = [Fraction(int(np.sum(region >= threshold)), region.size) for region in regions]
        points.append((fpr, sum(overlaps, Fraction(0)) / len(regions)))
    return points


def slow_pro(test_set: list[Image], *, limit: float) -> float | None:
    points = slow_curve(test_set)
    if points is None:
        return None
    end, area = Fraction(limit), Fraction(0)
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 >= end or x0 == x1:
            continue
        stop = min(x1, end)
        y_stop = y0 + (y1 - y0) * (stop - x0) / (x1 - x0)
        area += (stop - x0) * (y0 + y_stop) / 2
    return float(area / end)


def grid_map(rows: list[list[float]]) -> NDArray[np.float32]:
    return np.array(rows, np.float32)


# --- by hand -----------------------------------------------------------------------------------


def test_a_region_above_every_normal_pixel_scores_one() -> None:
    maps, masks = [grid_map([[9, 3, 2, 1]])], [np.array([[True, False, False, False]])]
    assert map_scores(maps, masks).pro == 1.0
    assert map_scores(maps, masks).pixel_auroc == 1.0


def test_rounding_never_takes_pro_past_one() -> None:
    map_hw = grid_map([[9.0] * 3 + [0.0] * 13])  # the plain sum gives 1.0000000000000002
    assert map_scores([map_hw], [map_hw > 1]).pro == 1.0


@pytest.mark.parametrize(
    ("beaten_by", "pro", "area"),
    [(0, 1, 1.0), (1, 2 / 3, 0.9), (2, 1 / 3, 0.8), (3, 0, 0.7), (10, 0, 0.0)],
)
def test_each_of_ten_normal_pixels_above_costs_a_third(
    beaten_by: int, pro: float, area: float
) -> None:
    normal = [5.0] * beaten_by + [1.0] * (10 - beaten_by)
    maps = [grid_map([[3.0, *normal]])]
    masks = [np.array([[True] + [False] * 10])]
    scores = map_scores(maps, masks)
    assert scores.pro == pytest.approx(pro, abs=1e-15)
    assert scores.pixel_auroc == area


def test_a_small_region_weighs_as_much_as_a_large_one() -> None:
    # One pixel is found at no false positive, the four beside it never: half of the regions.
    maps = [grid_map([[9, 5, 0, 0, 0, 0]])]
    masks = [np.array([[True, False, True, True, True, True]])]
    assert map_scores(maps, masks).pro == 0.5
    assert map_scores(maps, masks).pixel_auroc == pytest.approx(0.2)


def test_pixels_that_touch_by_a_corner_are_one_region() -> None:
    map_hw = grid_map([[9, 1, 1, 9], [1, 0, 1, 1]])
    mask_hw = np.array([[1, 0, 0, 1], [0, 1, 0, 0]], bool)
    scores = evaluate([(map_hw, mask_hw)])
    assert scores.regions == 2
    assert scores.pro == pytest.approx((0.5 + 1) / 2)  # three regions would give 2/3


def test_a_map_that_says_nothing_scores_the_diagonal() -> None:
    mask_hw = np.zeros((8, 8), bool)
    mask_hw[2:4, 5:] = True
    maps = [np.full((8, 8), 3, np.float32)]
    # The curve is the line from (0, 0) to (1, 1): 0.3 x 0.3 / 2, over 0.3.
    assert map_scores(maps, [mask_hw]).pro == pytest.approx(0.15)
    assert map_scores(maps, [mask_hw]).pro_05 == pytest.approx(0.025)
    assert evaluate([(maps[0], mask_hw)]).pro_up_to[1.0] == pytest.approx(0.5)
    assert map_scores(maps, [mask_hw]).pixel_auroc == 0.5


def test_good_images_share_the_false_positive_rate() -> None:
    defect = (grid_map([[5, 9, 1, 1]]), np.array([[True, False, False, False]]))
    good = (grid_map([[1, 1, 1, 1], [1, 1, 1, 0]]), np.zeros((2, 4), np.bool_))
    assert evaluate([defect]).pro == 0  # one of 3 normal pixels is above: past the limit
    assert evaluate([defect, good]).pro == pytest.approx((0.3 - 1 / 11) / 0.3)


def test_the_counts_of_images_of_different_sizes() -> None:
    mask_hw = np.zeros((5, 6), bool)
    mask_hw[0, :2] = mask_hw[4, 5] = True
    good = (np.ones((2, 3), np.float32), np.zeros((2, 3), np.bool_))
    scores = evaluate([(np.zeros((5, 6), np.float32), mask_hw), good])
    assert (scores.regions, scores.normal_pixels, scores.anomalous_pixels) == (2, 33, 3)


def test_a_defect_that_nobody_marked_leaves_nothing_defined() -> None:
    """Also beside marked ones: a mean over fewer defects would look like one over all."""
    marked_hw, map_hw = np.eye(3, dtype=np.bool_), np.eye(3, dtype=np.float32)
    assert map_scores([map_hw, map_hw], [marked_hw, ~marked_hw]).pro is not None
    for masks in ([None, marked_hw], [marked_hw, None], [None, None]):
        scores = map_scores([map_hw, map_hw], masks)
        assert (scores.pro, scores.pro_05, scores.pixel_auroc) == (None, None, None)


# --- against the definition --------------------------------------------------------------------


@given(SETS)
@settings(max_examples=300)
def test_pro_equals_the_definition_at_every_limit(test_set: list[Image]) -> None:
    scores = evaluate(test_set)
    for limit in LIMITS:
        expected = slow_pro(test_set, limit=limit)
        assert scores.pro_up_to[limit] == pytest.approx(expected, abs=1e-12)
    assert (scores.pro, scores.pro_05) == (scores.pro_up_to[0.3], scores.pro_up_to[0.05])


@given(SETS)
@settings(max_examples=50)
def test_one_limit_does_not_change_another(test_set: list[Image]) -> None:
    alone = MapEvaluator(limits=(0.05,))
    for map_hw, mask_hw in test_set:
        alone.add(map_hw, mask_hw)
    assert alone.result().pro_up_to == {0.05: evaluate(test_set).pro_05}


@given(SETS)
@settings(max_examples=200)
def test_pixel_auroc_equals_scikit_learn(test_set: list[Image]) -> None:
    score = evaluate(test_set).pixel_auroc
    scores = np.concatenate([map_hw.ravel() for map_hw, _ in test_set])
    labels = np.concatenate([mask_hw.ravel() for _, mask_hw in test_set])
    if labels.all() or not labels.any():
        assert score is None
    else:
        assert score == pytest.approx(sk.roc_auc_score(labels, scores), abs=1e-12)


@given(SETS, st.sampled_from([1, 64, 300]), st.sampled_from([1, 3, 1 << 20]))
@settings(max_examples=150)
def test_any_memory_gives_the_same_scores(
    test_set: list[Image], memory_bytes: int, slice_size: int
) -> None:
    whole = evaluate(test_set)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks, "SLICE", slice_size)
        bounded = evaluate(test_set, memory_bytes=memory_bytes)
    assert bounded.pixel_auroc == whole.pixel_auroc  # integers: not one bit differs
    for limit in LIMITS:
        assert bounded.pro_up_to[limit] == pytest.approx(whole.pro_up_to[limit], abs=1e-12)


@given(SETS, st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_the_order_of_the_images_does_not_matter(test_set: list[Image], random: Any) -> None:
    shuffled = random.sample(test_set, len(test_set))
    assert evaluate(shuffled) == evaluate(test_set)
