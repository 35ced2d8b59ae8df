"""Moments, factors and E[d^2] of a fit that processes of a group share."""

import numpy as np

from edgeseg.config import FitConfig
from edgeseg.fitting.process_group import ALONE, CHUNK_BYTES, ProcessGroup
from edgeseg.model.factors import Factors, expected_d2, make_factors, ridge_number
from edgeseg.model.moments import Moments, add_squares_, or_one
from edgeseg.model.windows import Windows


def sum_moments_(moments: Moments, group: ProcessGroup) -> Moments:
    """Sum the moments of the images of all processes, in place and exact to rounding.

    Counts and means first; then every process re-centres its scatter on the common mean (Chan's
    merge with all others at once) and the scatters are sums. A process without images adds zeros.
    """
    if group.size == 1:
        return moments
    weighted = moments.mean * moments.count[:, None]
    own_count, own_mean = moments.count.copy(), moments.mean.copy()
    group.sum_(moments.count)
    group.sum_(weighted)
    moments.mean[:] = weighted / or_one(moments.count)[:, None]
    shift = (own_mean - moments.mean) * np.sqrt(own_count)[:, None]  # (P, k)
    locations, k = shift.shape
    step = max(1, CHUNK_BYTES // (8 * k * k))
    for start in range(0, locations, step):
        part = slice(start, start + step)
        add_squares_(moments.scatter[part], shift[part, None])
        group.sum_(moments.scatter[part])
    return moments


def group_factors(config: FitConfig, pooled: Moments, group: ProcessGroup = ALONE) -> Factors:
    """Compute the factors of the Gaussians; every process inverts its share of covariances."""
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
    )
    if group.size == 1:
        return part
    factor = np.zeros((count, *part.factor.shape[1:]), np.float32)
    factor[share] = part.factor
    return Factors(mean=pooled.mean.astype(np.float32), factor=group.sum_(factor), ridge=ridge)


def group_expected_d2(
    config: FitConfig, factors: Factors, moments: Moments, group: ProcessGroup = ALONE
) -> float:
    """Return E[d^2] over all locations on the images behind these (not pooled) moments.

    Of windows it is that of their own Gaussians on all of their cells: see Windows.mean_d2.
    """
    windows = Windows.of(config)
    share = group.span(windows.kept)
    block = windows.block_of_kept()[share]
    total = expected_d2(factors, moments.at(share), block=block).sum(keepdims=True)
    return float(group.sum_(total)[0]) / windows.kept
