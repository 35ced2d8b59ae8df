"""Embeddings with known statistics, and when moments are the same."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.model.moments import Moments

TIGHT = 1e-10


def rows(
    count: int, *, k: int = 4, locations: int = 6, seed: int = 0, offset: float = 5.0
) -> NDArray[np.float64]:
    """Correlated embeddings (N, k, P), every location with another mean."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(locations, k, k))
    x = np.einsum("pij,njp->nip", mixing, rng.normal(size=(count, k, locations)))
    return x + offset * rng.normal(size=(1, k, locations))


def moments_of_rows(x_nkp: NDArray[Any]) -> Moments:
    """Of one batch of embeddings (N, k, P)."""
    return Moments.zero(x_nkp.shape[2], x_nkp.shape[1]).update_(x_nkp)


def assert_same(found: Moments, expected: Moments, *, tolerance: float = TIGHT) -> None:
    assert np.array_equal(found.count, expected.count)
    scale = float(np.abs(expected.scatter).max()) + 1
    np.testing.assert_allclose(found.mean, expected.mean, atol=tolerance, rtol=tolerance)
    np.testing.assert_allclose(found.scatter, expected.scatter, atol=tolerance * scale, rtol=0)
