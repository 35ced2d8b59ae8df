"""The choice of how far moments of neighbours are merged, from the good images alone.

Parts that jitter show at a cell what other good parts show beside it, and few images tell little of
a cell by itself: then images that are held out are likelier under Gaussians of 3x3 cells than of
single ones. We take one step more than likelihood does, since a distance counts the directions of
smallest variance most: 3 where held-out images are likelier by single cells, 5 where they are not.
On seven categories, as they are and with planted jitter, the likelihood's own choice of single
cells loses image AUROC with the default backbone (docs/region.md).
"""

from dataclasses import replace

import numpy as np

from edgeseg.base.progress import Note
from edgeseg.config import AUTO, FitConfig
from edgeseg.fitting.embedding_store import EmbeddingStore
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.held_out import permutation
from edgeseg.model.factors import inverse_lower, ridge_number, with_diagonal
from edgeseg.model.moments import Moments
from edgeseg.model.parallel import in_parallel
from edgeseg.model.windows import Windows

ALIKE, JITTERING = 3, 5
_FEWEST = 8  # images: fewer say nothing of the others
_SHARE = 4  # one image of so many is held out


def resolve_pool(
    space: FeatureSpace, moments: Moments, store: EmbeddingStore, *, alone: bool, note: Note
) -> FeatureSpace:
    """Return the space with a number in place of `auto`, and note why."""
    config = space.config
    if config.pool != AUTO:
        return space
    few = len(store) < _FEWEST
    if few or not alone or config.moments == "blocks":
        why = (
            f"{len(store)} images are too few to tell"
            if few
            else "it is chosen in one process that keeps moments of cells"
        )
        note(f"pool auto: {ALIKE}; {why}")
        return replace(space, config=replace(config, pool=ALIKE))
    alone_1, merged_3 = (held_out_likelihood(space, moments, store, pool=pool) for pool in (1, 3))
    best = JITTERING if merged_3 > alone_1 else ALIKE
    what = "jitter" if best == JITTERING else "lie alike"
    note(
        f"pool auto: {best}; parts {what}: a cell of images held out has a log-likelihood of "
        f"{alone_1:.1f} by itself and of {merged_3:.1f} with its neighbours"
    )
    return replace(space, config=replace(config, pool=best))


def held_out_likelihood(
    space: FeatureSpace, moments: Moments, store: EmbeddingStore, *, pool: int
) -> float:
    """Return the mean log-likelihood of a cell of images held out, up to a constant."""
    config = replace(space.config, pool=pool)
    windows = Windows.of(config)
    places = sorted(store.places)
    held = sorted(places[index] for index in permutation(len(places), config.seed)[::_SHARE])
    fold = windows.new_moments(space.k)
    for rows in store.batches(held, size=8):
        windows.add_(fold, space.inputs(rows), images=len(rows))
    rest = windows.pool_moments(moments).remove(windows.pool_moments(fold))
    return _likelihood(config, windows, rest, space, store, held)


def _likelihood(
    config: FitConfig,
    windows: Windows,
    rest: Moments,
    space: FeatureSpace,
    store: EmbeddingStore,
    held: list[int],
) -> float:
    ridge = ridge_number(rest, ridge=config.ridge, unit=config.ridge_unit)
    blocks, k = rest.mean.shape
    x = np.concatenate([space.inputs(rows) for rows in store.batches(held, size=8)])
    x = x.reshape(len(x), k, -1).transpose(0, 2, 1)  # (N, P, k)
    by_block = windows.by_block(x - windows.per_cell(rest.mean.astype(x.dtype)))  # (B, N s^2, k)
    total = np.zeros(blocks)

    def fill(start: int, stop: int) -> None:
        covariance = rest.scatter[start:stop] / rest.count[start:stop, None, None]
        lower = np.linalg.cholesky(with_diagonal(covariance, ridge))
        rows = by_block[start:stop].astype(np.float64).transpose(0, 2, 1)  # (b, k, N s^2)
        d2 = np.square(inverse_lower(lower) @ rows).sum(axis=1)
        logdet = 2 * np.log(lower.diagonal(axis1=1, axis2=2)).sum(axis=1)
        total[start:stop] = -0.5 * (d2.mean(axis=1) + logdet)

    in_parallel(fill, blocks, bytes_each=8 * k * k)
    return float(total.mean())
