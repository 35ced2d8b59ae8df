"""Moments of variants: a mean each, and the covariance of images about the mean of their own."""

import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.model.moments import Moments
from edgeseg.model.variant_moments import VariantMoments
from edgeseg.model.windows import Windows
from tests.support.moment_rows import TIGHT, assert_same, moments_of_rows, rows

Rows = NDArray[np.float64]


def two(first: Rows, second: Rows) -> VariantMoments:
    """Moments of two variants, added in two batches each, in turn."""
    moments = VariantMoments.blank(2, first.shape[2], first.shape[1])
    for part in range(2):
        for variant, x in enumerate((first, second)):
            moments.part_(variant).update_(x[part::2])
    return moments.settle_()


def within(*sets: Rows) -> Moments:
    """Moments of all images, each about the mean of its own set."""
    x = np.concatenate(sets)
    centred = np.concatenate([each - each.mean(axis=0) for each in sets])
    scatter = np.einsum("nkp,nlp->pkl", centred, centred)
    return Moments(count=np.full(x.shape[2], len(x)), mean=x.mean(axis=0).T, scatter=scatter)


def test_scatter_is_about_the_own_mean() -> None:
    first, second = rows(9), rows(5, seed=1)
    moments = two(first, second)
    assert_same(moments, within(first, second))
    np.testing.assert_allclose(moments.own_mean[1], second.mean(axis=0).T, atol=TIGHT)
    assert moments.own_count[:, 0].tolist() == [9, 5]


def test_sets_merge_and_split_again() -> None:
    first, second = rows(12), rows(9, seed=1)
    whole, some = two(first, second), two(first[:4], second[:3])
    rest = two(first[4:], second[3:])
    for found, expected in ((some.merge(rest), whole), (whole.remove(some), rest)):
        assert_same(found, expected)
        np.testing.assert_allclose(found.own_mean, expected.own_mean, atol=TIGHT)


def test_a_set_may_lack_a_variant() -> None:
    first, second = rows(8), rows(6, seed=1)
    only = VariantMoments.blank(2, 6, 4)
    only.part_(1).update_(second[:2])
    assert_same(two(first, second).remove(only.settle_()), within(first, second[2:]))
    assert_same(only.merge(two(first, second[2:])), within(first, second))


@pytest.mark.parametrize("windows", [Windows(grid_hw=(2, 3), pool=3), Windows(grid_hw=(2, 3))])
def test_neighbours_are_merged_within_each_variant(windows: Windows) -> None:
    first, second = rows(9), rows(5, seed=1)
    pooled = windows.pool_moments(two(first, second))
    own = [windows.pool_moments(moments_of_rows(each)) for each in (first, second)]
    assert isinstance(pooled, VariantMoments)
    for variant, expected in enumerate(own):
        np.testing.assert_allclose(pooled.own_mean[variant], expected.mean, atol=TIGHT)
    np.testing.assert_allclose(pooled.scatter, own[0].scatter + own[1].scatter, atol=1e-8)


def test_moments_of_a_fit_are_those_of_its_variants() -> None:
    windows = Windows(grid_hw=(2, 3), variants=3)
    moments = windows.new_moments(4)
    assert isinstance(moments, VariantMoments)
    assert moments.own_mean.shape == (3, 6, 4)
    assert type(Windows(grid_hw=(2, 3)).new_moments(4)) is Moments


def test_some_places_are_a_view() -> None:
    moments = two(rows(5), rows(4, seed=1))
    part = moments.at(slice(2, 4))
    assert np.array_equal(part.own_mean, moments.own_mean[:, 2:4])
    assert np.shares_memory(part.scatter, moments.scatter)


def test_moments_of_other_variants_are_refused() -> None:
    with pytest.raises(UsageError, match="other variants"):
        two(rows(5), rows(4)).merge(moments_of_rows(rows(3)))
