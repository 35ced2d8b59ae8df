"""Factors: d by Cholesky or eigenvectors is the Mahalanobis distance by brute force."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.model import factors as factors_module
from edgeseg.model import parallel
from edgeseg.model.factors import (
    Factors,
    expected_d2,
    inverse_lower,
    kept_directions,
    make_factors,
    ridge_number,
)
from edgeseg.model.moments import Moments
from edgeseg.model.windows import Windows
from tests.support.moment_rows import moments_of_rows

K, LOCATIONS, RIDGE = 5, 7, 0.01


def rows(count: int, *, seed: int = 0, k: int = K, locations: int = LOCATIONS) -> NDArray[Any]:
    """Embeddings (N, k, P) with strongly correlated features."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(locations, k, k)) * np.geomspace(0.01, 2, k)
    x = np.einsum("pij,njp->nip", mixing, rng.normal(size=(count, k, locations)))
    return np.asarray(x + rng.normal(size=(1, k, locations)))


def measured(factors: Factors, x_nkp: NDArray[Any]) -> NDArray[np.float64]:
    """d (N, P) as the model computes it, in float64."""
    x = x_nkp.transpose(2, 0, 1) - factors.mean[:, None].astype(np.float64)  # (P, N, k)
    d: NDArray[np.float64] = np.linalg.norm(x @ factors.factor.astype(np.float64), axis=2).T
    return d


def brute_force(
    train_nkp: NDArray[Any],
    x_nkp: NDArray[Any],
    *,
    rank: int = 0,
    lower: bool = True,
    shared: bool = False,
    ridge: float = RIDGE,
) -> NDArray[np.float64]:
    """d (N, P) one location at a time, with explicit inverses."""
    train, x = train_nkp, x_nkp
    covariances = [np.cov(train[:, :, p].T, bias=True) for p in range(train.shape[2])]
    if shared:
        covariances = [np.mean(covariances, axis=0)] * len(covariances)
    d = np.empty((x.shape[0], x.shape[2]))
    for p, covariance in enumerate(covariances):
        values, vectors = np.linalg.eigh(covariance)
        kept = (
            slice(None) if rank == 0 else slice(rank) if lower else slice(len(values) - rank, None)
        )
        basis = vectors[:, kept]
        inside = basis.T @ (covariance + ridge * np.eye(len(values))) @ basis
        precision = basis @ np.linalg.inv(inside) @ basis.T
        centred = x[:, :, p] - train[:, :, p].mean(axis=0)
        d[:, p] = np.sqrt(np.einsum("ni,ij,nj->n", centred, precision, centred))
    return d


@pytest.mark.parametrize("shared", [False, True], ids=["local", "global"])
@pytest.mark.parametrize(
    ("rank", "directions"), [(0, "lower"), (2, "lower"), (2, "higher"), (0, "higher"), (9, "lower")]
)
def test_distance_is_brute_force(rank, directions, shared):
    train, new = rows(30), rows(4, seed=1)
    moments = moments_of_rows(train)
    if shared:
        moments = moments.shared_covariance()
    factors = make_factors(moments, ridge=RIDGE, rank=rank, directions=directions)
    kept = min(rank, K) or K
    assert factors.rank == kept
    assert factors.factor.shape == (1 if shared else LOCATIONS, K, kept)
    assert factors.factor.dtype == factors.mean.dtype == np.float32
    expected = brute_force(
        train, new, rank=0 if rank >= K else rank, lower=directions == "lower", shared=shared
    )
    np.testing.assert_allclose(measured(factors, new), expected, rtol=1e-4)


def test_full_rank_inverse_is_np_linalg_inv():
    train = rows(30)
    factors = make_factors(moments_of_rows(train), ridge=RIDGE, rank=0, directions="lower")
    for p in range(LOCATIONS):
        covariance = np.cov(train[:, :, p].T, bias=True)
        precision = np.linalg.inv(covariance + RIDGE * np.eye(K))
        factor = factors.factor[p].astype(np.float64)
        np.testing.assert_allclose(factor @ factor.T, precision, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rank", [0, 3])
@pytest.mark.parametrize("count", [1, 2, K - 1])
def test_fewer_images_than_features(count, rank):
    train, new = rows(count), rows(3, seed=1)
    factors = make_factors(moments_of_rows(train), ridge=RIDGE, rank=rank, directions="lower")
    found = measured(factors, new)
    assert np.isfinite(found).all()
    if rank == 0:
        np.testing.assert_allclose(found, brute_force(train, new), rtol=1e-3)
    else:
        # Which of the many directions without variance are kept is open; the bounds are not.
        whole = measured(
            make_factors(moments_of_rows(train), ridge=RIDGE, rank=0, directions="lower"), new
        )
        assert (found <= whole * (1 + 1e-5)).all()


def test_a_single_image_measures_by_the_ridge_alone():
    train, new = rows(1), rows(3, seed=1)
    factors = make_factors(moments_of_rows(train), ridge=RIDGE, rank=0, directions="lower")
    plain = np.linalg.norm(new - train, axis=1) / np.sqrt(RIDGE)
    np.testing.assert_allclose(measured(factors, new), plain, rtol=1e-5)


@pytest.mark.parametrize("rank", [0, 2])
def test_constant_pixels(rank):
    train = rows(20)
    train[:, :, 3] = 7.25  # a location that never changes
    train[:, 2, 4] = -1.5  # and a feature that never does
    factors = make_factors(moments_of_rows(train), ridge=RIDGE, rank=rank, directions="lower")
    assert np.isfinite(factors.factor).all()
    assert measured(factors, train)[:, 3].max() < 1e-6
    changed = train[:1].copy()
    changed[:, :, 3] += 1.0
    if rank == 0:
        expected = np.sqrt(K / RIDGE)
        assert measured(factors, changed)[0, 3] == pytest.approx(expected, rel=1e-5)


def test_no_images_are_an_error():
    for moments in (Moments.zero(3, 2), Moments.zero(3, 2).shared_covariance()):
        with pytest.raises(DatasetError) as caught:
            make_factors(moments, ridge=RIDGE, rank=0, directions="lower")
        assert str(caught.value) == "no images to fit; expected at least one good image"


def test_a_ridge_below_rounding_is_an_error():
    moments = moments_of_rows(rows(30))
    broken = Moments(
        count=moments.count, mean=moments.mean, scatter=moments.scatter - 1e6 * np.eye(K)
    )
    with pytest.raises(UsageError) as caught:
        make_factors(broken, ridge=1e-12, rank=0, directions="lower")
    assert str(caught.value) == (
        "a ridge of 1e-12 is too small for these features, a covariance has no inverse; "
        "try ridge=0.1 with ridge_unit=mean_square"
    )


@pytest.mark.parametrize("rank", [0, 3])
@pytest.mark.parametrize("chunk_locations", [1, 2, 1000])
def test_chunks_do_not_change_the_result(monkeypatch, chunk_locations, rank):
    moments = moments_of_rows(rows(30))
    expected = make_factors(moments, ridge=RIDGE, rank=rank, directions="lower")
    expected_mean = expected_d2(expected, moments)
    monkeypatch.setattr(parallel, "CHUNK_BYTES", chunk_locations * 8 * K * K)
    found = make_factors(moments, ridge=RIDGE, rank=rank, directions="lower")
    assert np.array_equal(found.factor, expected.factor)
    assert np.array_equal(expected_d2(found, moments), expected_mean)


def test_chunks_bound_the_work_space(monkeypatch):
    seen = []
    original = factors_module._cholesky_factor

    def spy(covariance: NDArray[Any], ridge: float) -> NDArray[Any]:
        seen.append(covariance.shape[0])
        return original(covariance, ridge)

    monkeypatch.setattr(factors_module, "_cholesky_factor", spy)
    monkeypatch.setattr(parallel, "worker_threads", lambda: 1)  # more would share it out finer
    monkeypatch.setattr(parallel, "CHUNK_BYTES", 2 * 8 * K * K)
    make_factors(moments_of_rows(rows(30)), ridge=RIDGE, rank=0, directions="lower")
    assert max(seen) == 2
    assert sum(seen) == LOCATIONS


@pytest.mark.parametrize("n", [1, 2, 24, 25, 49, 100])
def test_triangles_are_inverted_half_by_half(n):
    rng = np.random.default_rng(n)
    lower = np.tril(rng.normal(size=(3, n, n)) * 0.2) + np.eye(n) * (1 + rng.random((3, 1, n)))
    inverse = inverse_lower(lower)
    scale = np.abs(np.linalg.inv(lower)).max()
    np.testing.assert_allclose(inverse, np.linalg.inv(lower), rtol=0, atol=1e-12 * scale)
    assert not np.triu(inverse, 1).any() or n <= 24


@pytest.mark.parametrize("shared", [False, True], ids=["local", "global"])
@pytest.mark.parametrize("rank", [0, 3])
def test_expected_d2_is_the_mean_over_the_images(rank, shared):
    train = rows(30)
    moments = moments_of_rows(train)
    basis = moments.shared_covariance() if shared else moments
    factors = make_factors(basis, ridge=RIDGE, rank=rank, directions="lower")
    by_images = (measured(factors, train) ** 2).mean(axis=0)
    np.testing.assert_allclose(expected_d2(factors, moments), by_images, rtol=1e-6)


def test_expected_d2_of_pooled_factors():
    """Pooling moves the mean as well: the closed form has a term for that."""
    train = rows(30, locations=12)
    moments = moments_of_rows(train)
    factors = make_factors(
        Windows(grid_hw=(3, 4), pool=3).pool_moments(moments),
        ridge=RIDGE,
        rank=3,
        directions="lower",
    )
    by_images = (measured(factors, train) ** 2).mean(axis=0)
    np.testing.assert_allclose(expected_d2(factors, moments), by_images, rtol=1e-6)


def test_expected_d2_of_shared_factors():
    """Four cells use one Gaussian; each of them is measured by the Gaussian of its block."""
    train = rows(30, locations=16)  # a grid of 4x4 in blocks of 2x2
    moments = moments_of_rows(train)
    windows = Windows(grid_hw=(4, 4), share=2, pool=3)
    shared = make_factors(windows.pool_moments(moments), ridge=RIDGE, rank=3, directions="lower")
    block = np.array([0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3])
    assert np.array_equal(windows.block_of_cell(), block)
    each = Factors(mean=shared.mean[block], factor=shared.factor[block])
    by_images = (measured(each, train) ** 2).mean(axis=0)
    found = expected_d2(shared, moments, block=block)
    np.testing.assert_allclose(found, by_images, rtol=1e-6)


@pytest.mark.parametrize(
    ("rank", "k", "kept"),
    [
        (0, 10, 10),
        (3, 10, 3),
        (10, 10, 10),
        (99, 10, 10),
        (0.64, 150, 96),
        (0.01, 10, 1),
        (0.5, 1, 1),
    ],
)
def test_a_rank_is_a_number_or_a_share(rank, k, kept):
    assert kept_directions(rank, k) == kept


@pytest.mark.parametrize("scale", [1e-3, 1.0, 250.0])
def test_a_ridge_in_the_features_own_scale_changes_no_distance_between_scales(scale):
    """Features in other units give the same distances, at every rank."""
    x = rows(20) + 3.0
    plain, scaled = moments_of_rows(x), moments_of_rows(x * scale)
    for rank in (0, 2):
        factors = [
            make_factors(
                moments,
                ridge=ridge_number(moments, ridge=0.1, unit="mean_square"),
                rank=rank,
                directions="lower",
            )
            for moments in (plain, scaled)
        ]
        squares = [one.factor @ one.factor.swapaxes(1, 2) for one in factors]
        np.testing.assert_allclose(squares[1] * scale**2, squares[0], rtol=1e-4, atol=1e-5)


def test_the_unit_is_the_mean_square_over_images_cells_and_features():
    x = rows(50) * 2.0 + 1.0  # (N, k, P)
    number = ridge_number(moments_of_rows(x), ridge=0.1, unit="mean_square")
    assert number == pytest.approx(0.1 * float(np.square(x).mean()), rel=1e-6)
    assert ridge_number(moments_of_rows(x), ridge=0.1, unit="absolute") == 0.1


def test_features_that_are_all_zero_have_a_ridge_all_the_same():
    moments = moments_of_rows(np.zeros((3, 4, 2)))
    number = ridge_number(moments, ridge=0.1, unit="mean_square")
    assert number > 0
    factors = make_factors(moments, ridge=number, rank=0, directions="lower")
    assert np.isfinite(factors.factor).all()
