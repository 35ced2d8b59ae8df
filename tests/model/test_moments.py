"""Moments: streaming, batch, merged in any order and split again are all the same numbers."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeseg.base.errors import UsageError
from edgeseg.model.moments import Moments
from edgeseg.model.windows import Windows
from tests.support.moment_rows import TIGHT, assert_same, moments_of_rows, rows


def test_batch_is_the_definition():
    x = rows(20)
    moments = moments_of_rows(x)
    for place in range(x.shape[2]):
        x_nk = x[:, :, place]
        assert moments.count[place] == 20
        np.testing.assert_allclose(moments.mean[place], x_nk.mean(axis=0), atol=TIGHT)
        np.testing.assert_allclose(
            moments.scatter[place], np.cov(x_nk.T, bias=True) * 20, atol=1e-9
        )
    assert moments.images == 20
    assert moments.scatter.dtype == np.float64


@pytest.mark.parametrize("size", [1, 2, 7, 20])
def test_streaming_is_the_batch(size):
    x = rows(20)
    streamed = Moments.zero(6, 4)
    for start in range(0, 20, size):
        streamed.update_(x[start : start + size])
    assert_same(streamed, moments_of_rows(x))


@settings(max_examples=30)
@given(
    cuts=st.lists(st.integers(0, 15), max_size=4),
    order_seed=st.integers(0, 1000),
)
def test_merged_in_any_order(cuts, order_seed):
    x = rows(15)
    edges = sorted({0, 15, *cuts})
    parts = [moments_of_rows(x[a:b]) for a, b in pairwise(edges)]
    parts.append(Moments.zero(6, 4))  # a camera that saw nothing
    order = np.random.default_rng(order_seed).permutation(len(parts))
    total = parts[order[0]]
    for index in order[1:]:
        total = total.merge(parts[index])
    assert_same(total, moments_of_rows(x))


def test_merging_is_associative():
    a, b, c = (moments_of_rows(rows(count, seed=count)) for count in (3, 8, 5))
    assert_same(a.merge(b).merge(c), a.merge(b.merge(c)))
    assert_same(a.merge(b), b.merge(a))


def test_remove_undoes_merge():
    old, new = moments_of_rows(rows(12)), moments_of_rows(rows(5, seed=9))
    assert_same(old.merge(new).remove(new), old)
    x = rows(12)
    assert_same(
        old.remove(moments_of_rows(x[3:7])), moments_of_rows(np.concatenate([x[:3], x[7:]]))
    )


def test_scaled_moments_are_those_of_weighted_images():
    """Half the old images, three of the new ones: a decayed model that was updated."""
    old, new = rows(6), rows(3, seed=1)
    weighted = moments_of_rows(old).scale(0.5).merge(moments_of_rows(new))
    weight = np.array([0.5] * 6 + [1.0] * 3)
    x = np.concatenate([old, new])
    mean = np.einsum("n,nkp->pk", weight, x) / 6.0
    centred = x - mean.T
    scatter = np.einsum("n,nkp,nlp->pkl", weight, centred, centred)
    assert_same(weighted, Moments(count=np.full(6, weight.sum()), mean=mean, scatter=scatter))
    assert (weighted.images, weighted.decayed) == (6, False)
    assert moments_of_rows(old).scale(0.9).decayed


def test_counts_below_one_are_counts():
    faint = moments_of_rows(rows(1)).scale(0.1)
    both = faint.merge(faint)
    np.testing.assert_allclose(both.mean, faint.mean)
    assert float(both.count[0]) == pytest.approx(0.2)
    windows = Windows(grid_hw=(2, 3), pool=3)
    np.testing.assert_allclose(
        windows.pool_moments(faint).mean, windows.pool_moments(moments_of_rows(rows(1))).mean
    )


def test_some_locations_are_a_view():
    moments = moments_of_rows(rows(5))
    part = moments.at(slice(2, 4))
    assert np.array_equal(part.mean, moments.mean[2:4])
    assert np.shares_memory(part.scatter, moments.scatter)


def test_packed_moments_are_unpacked():
    moments = moments_of_rows(rows(7))
    packed = moments.pack()
    assert packed["scatter"].shape == (6, 10)
    assert_same(Moments.unpack(packed), moments)


def test_merge_and_remove_leave_their_arguments_alone():
    x = rows(6)
    first, second = moments_of_rows(x[:4]), moments_of_rows(x[4:])
    total = first.merge(second)
    total.remove(second)
    assert_same(first, moments_of_rows(x[:4]), tolerance=0)
    assert_same(second, moments_of_rows(x[4:]), tolerance=0)


def test_nothing_and_nothing_is_nothing():
    both = Moments.zero(2, 3).merge(Moments.zero(2, 3))
    assert both.images == 0
    assert not both.mean.any()
    assert not both.scatter.any()
    assert_same(Moments.zero(6, 4).update_(rows(0)), Moments.zero(6, 4), tolerance=0)


def test_small_variance_survives_a_large_mean():
    """E[xx'] - mm' in float32 would lose all of it: 1e-3 beside 1e4 squared is below rounding."""
    rng = np.random.default_rng(0)
    x = 1e4 + 1e-3 * rng.normal(size=(200, 3, 1))
    streamed = Moments.zero(1, 3)
    for row in x:
        streamed.update_(row[None])
    expected = np.cov(x[:, :, 0].T, bias=True)
    np.testing.assert_allclose(streamed.scatter[0] / 200, expected, rtol=1e-4, atol=1e-10)


def test_float32_rows_are_accumulated_in_float64():
    x = rows(300).astype(np.float32)
    streamed = Moments.zero(6, 4)
    for row in x:
        streamed.update_(row[None])
    assert_same(streamed, moments_of_rows(x.astype(np.float64)))


def test_size_does_not_depend_on_the_number_of_images():
    moments = Moments.zero(6, 4)
    before = [values.ctypes.data for values in (moments.count, moments.mean, moments.scatter)]
    for seed in range(30):
        moments.update_(rows(10, seed=seed))
    after = [values.ctypes.data for values in (moments.count, moments.mean, moments.scatter)]
    assert before == after  # in place: no other array was put there
    assert moments.scatter.shape == (6, 4, 4)
    assert moments.images == 300


def test_shared_covariance_is_the_mean_over_locations():
    x = rows(9)
    shared = moments_of_rows(x).shared_covariance()
    centred = (
        (x - x.mean(axis=0)).transpose(0, 2, 1).reshape(-1, 4)
    )  # each location about its own mean
    assert shared.count.tolist() == [54]
    np.testing.assert_allclose(shared.scatter[0], centred.T @ centred)
    np.testing.assert_allclose(shared.mean, x.mean(axis=0).T)


def test_removing_everything_is_refused():
    moments = moments_of_rows(rows(5))
    with pytest.raises(UsageError) as caught:
        moments.remove(moments)
    assert str(caught.value) == "cannot remove 5 of 5 images: none would be left"


def test_moments_of_another_shape_are_refused():
    with pytest.raises(UsageError) as caught:
        Moments.zero(6, 4).merge(Moments.zero(6, 3))
    assert str(caught.value) == (
        "moments of (6, 3) locations and features cannot be combined with (6, 4); "
        "both fits need the same settings"
    )
