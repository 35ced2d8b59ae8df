"""Embeddings with known statistics, and when moments are the same."""

import numpy as np
import torch
from torch import Tensor

from edgeseg.model.moments import Moments

TIGHT = 1e-10


def rows(
    count: int, *, k: int = 4, locations: int = 6, seed: int = 0, offset: float = 5.0
) -> Tensor:
    """Correlated embeddings (N, k, P), every location with another mean."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(locations, k, k))
    x = np.einsum("pij,njp->nip", mixing, rng.normal(size=(count, k, locations)))
    return torch.from_numpy(x + offset * rng.normal(size=(1, k, locations)))


def moments_of_rows(x_nkp: Tensor) -> Moments:
    """Of one batch of embeddings (N, k, P)."""
    return Moments.zero(x_nkp.shape[2], x_nkp.shape[1]).update_(x_nkp)


def assert_same(found: Moments, expected: Moments, *, tolerance: float = TIGHT) -> None:
    assert torch.equal(found.count, expected.count)
    scale = float(expected.scatter.abs().max()) + 1
    torch.testing.assert_close(found.mean, expected.mean, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(found.scatter, expected.scatter, atol=tolerance * scale, rtol=0)
