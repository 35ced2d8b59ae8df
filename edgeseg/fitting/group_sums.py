"""Moments, factors and E[d^2] of a fit that processes of a group share."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgeseg.config import FitConfig
from edgeseg.fitting.process_group import ALONE, CHUNK_BYTES, ProcessGroup
from edgeseg.model.factors import (
    Factors,
    MapFactors,
    MapForm,
    expected_d2,
    make_factors,
    ridge_number,
)
from edgeseg.model.known_directions import KnownDirections
from edgeseg.model.map_layers import map_width
from edgeseg.model.moments import Floats, Moments, add_squares_, or_one
from edgeseg.model.variant_moments import VariantMoments
from edgeseg.model.windows import Windows


def sum_moments_(moments: Moments, group: ProcessGroup) -> Moments:
    """Sum the moments of the images of all processes, in place and exact to rounding.

    Counts and means first; then every process re-centres its scatter on the common mean (Chan's
    merge with all others at once) and the scatters are sums. A process without images adds zeros.
    """
    if group.size == 1:
        return moments
    if isinstance(moments, VariantMoments):
        pairs = zip(moments.own_count, moments.own_mean, strict=True)
        shifts = [_sum_means_(count, mean, group) for count, mean in pairs]
        moments.settle_()
    else:
        shifts = [_sum_means_(moments.count, moments.mean, group)]
    rows = np.stack(shifts, axis=1)  # (P, V, k), or (P, 1, k) of one product
    locations, _, k = rows.shape
    step = max(1, CHUNK_BYTES // (8 * k * k))
    for start in range(0, locations, step):
        part = slice(start, start + step)
        add_squares_(moments.scatter[part], rows[part])
        group.sum_(moments.scatter[part])
    return moments


def _sum_means_(count: Floats, mean: Floats, group: ProcessGroup) -> Floats:
    """Sum counts (P,) and means (P, k) of all processes, in place.

    Return the rows whose squares are what the own scatter lacks about the common mean.
    """
    weighted = mean * count[:, None]
    own_count, own_mean = count.copy(), mean.copy()
    group.sum_(count)
    group.sum_(weighted)
    mean[:] = weighted / or_one(count)[:, None]
    return np.asarray((own_mean - mean) * np.sqrt(own_count)[:, None])


def group_factors(
    config: FitConfig,
    pooled: Moments,
    group: ProcessGroup = ALONE,
    *,
    known: KnownDirections | None = None,
    whitened: bool = False,
) -> Factors:
    """Compute the factors of the Gaussians; every process inverts its share of covariances.

    What known defects are learned by (`whitened`) is for one process alone.
    """
    own = pooled.own_mean.astype(np.float32) if isinstance(pooled, VariantMoments) else None
    if config.covariance == "global":
        pooled = pooled.shared_covariance()
    ridge = ridge_number(pooled, ridge=config.ridge, unit=config.ridge_unit)
    count = pooled.scatter.shape[0]
    if count < group.size:
        group = ALONE
    share = group.span(count)
    part = make_factors(
        pooled if group.size == 1 else pooled.at(share),
        ridge=ridge,
        rank=config.rank,
        directions=config.directions,
        form=map_form(config, pooled),
        known=known,
        whitened=whitened,
    )
    if group.size == 1:
        return replace(part, variant_means=own)

    def whole(values: NDArray[np.float32]) -> NDArray[np.float32]:
        rows = np.zeros((count, *values.shape[1:]), np.float32)
        rows[share] = values
        return group.sum_(rows)

    shown = part.shown
    return Factors(
        mean=pooled.mean.astype(np.float32),
        factor=whole(part.factor),
        ridge=ridge,
        shown=shown and MapFactors(weight=whole(shown.weight), factor=whole(shown.factor)),
        variant_means=own,
    )


def map_form(config: FitConfig, pooled: Moments) -> MapForm | None:
    """Return the features and ridges of a map of its own; None where it has none."""
    width = map_width(config)
    if not width:
        return None
    ridge, own_ridge = (
        ridge_number(pooled, ridge=config.map_ridge, unit="mean_square", features=features)
        for features in (None, width)
    )
    return MapForm(width=width, ridge=ridge, own_ridge=own_ridge)


def group_expected_d2(
    config: FitConfig, factors: Factors, moments: Moments, group: ProcessGroup = ALONE
) -> float:
    """Return E[d^2] over all locations on the images behind these (not pooled) moments.

    Of windows it is that of their own Gaussians on all of their cells: see Windows.mean_d2. Images
    of a variant are measured from its mean.
    """
    windows = Windows.of(config)
    share = group.span(windows.kept)
    block = windows.block_of_kept()[share]
    part = moments.at(share)
    if isinstance(part, VariantMoments) and factors.variant_means is not None:
        each = np.zeros(len(block))
        for own, mean in zip(part.parts, factors.variant_means, strict=True):
            about = replace(own, count=part.count, scatter=part.scatter)
            expected = expected_d2(replace(factors, mean=mean), about, block=block)
            each += expected * own.count / part.count
    else:
        each = expected_d2(factors, part, block=block)
    total = each.sum(keepdims=True)
    return float(group.sum_(total)[0]) / windows.kept
