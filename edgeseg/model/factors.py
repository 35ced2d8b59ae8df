"""Factors of the Gaussians from their moments: d = |L'(W'x - mean)| at every location."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.base.messages import Setting
from edgeseg.model.moments import Floats, Moments
from edgeseg.model.parallel import in_parallel

_SMALL = 24  # triangles up to this size are inverted as they are
_LEAST_SQUARE = 1e-6  # of features that are all zero


@dataclass(frozen=True, kw_only=True)
class Factors:
    """The Gaussian of every location, ready to measure with."""

    mean: NDArray[
        np.float32
    ]  # (B, k) float32: B blocks of cells that share a Gaussian, or all P cells
    factor: NDArray[
        np.float32
    ]  # (B or 1, k, r) float32: L with L L' the precision, or its best rank-r part
    ridge: float = math.nan  # the number that was added to every variance, where it is known

    @property
    def rank(self) -> int:
        """Directions kept per location."""
        return int(self.factor.shape[2])


def make_factors(moments: Moments, *, ridge: float, rank: float, directions: str) -> Factors:
    """Invert C + ridge I at every location; with a rank, keep only that many directions.

    Full rank goes by Cholesky. Rank r keeps the eigenvectors of smallest variance (Theorem 1,
    applied after the embedding, where it costs k^3 and not F^3) or, for contrast, of largest.
    """
    if bool((moments.count <= 0).any()):
        raise DatasetError("no images to fit; expected at least one good image")
    locations, k = moments.scatter.shape[:2]
    kept = kept_directions(rank, k)
    full = kept == k and directions == "lower"
    factor = np.empty((locations, k, kept), np.float32)

    def fill(start: int, stop: int) -> None:
        covariance = moments.scatter[start:stop] / moments.count[start:stop, None, None]
        if full:
            factor[start:stop] = _cholesky_factor(covariance, ridge)
        else:
            lower = directions == "lower"
            factor[start:stop] = _eigen_factor(covariance, ridge, kept, lower=lower)

    try:
        in_parallel(fill, locations, bytes_each=8 * k * k)
    except np.linalg.LinAlgError as error:
        raise DatasetError(
            f"covariances that no good images have ({error}); a file of moments is damaged, or ",
            Setting("ridge"),
            " is too small: fit again, or with a larger one",
        ) from None
    return Factors(mean=moments.mean.astype(np.float32), factor=factor, ridge=ridge)


def ridge_number(moments: Moments, *, ridge: float, unit: str) -> float:
    """Return a ridge in the features' own scale as the number to add to every variance.

    The unit is the mean square of the features over all Gaussians and all k of them, not centred:
    it says how large features are and hardly depends on how much the good parts vary, whereas a
    share of the variance itself would take most where parts lie most alike. It never is zero.
    """
    if unit == "absolute":
        return ridge
    variance = moments.scatter.diagonal(axis1=1, axis2=2) / moments.count[:, None]
    square = float(variance.mean() + np.square(moments.mean).mean())
    return ridge * max(square, _LEAST_SQUARE)


def kept_directions(rank: float, k: int) -> int:
    """Return how many of k directions a rank means: a share below 1, a number, or 0 for all."""
    if rank == 0:
        return k
    return min(k, max(1, round(rank * k)) if rank < 1 else int(rank))


def expected_d2(
    factors: Factors, moments: Moments, *, block: NDArray[np.intp] | None = None
) -> Floats:
    """Return E[d^2] (P,) on the images behind these (not pooled) moments, in closed form.

    tr(L'CL) + |L'(m - mean)|^2: with the location's own moments, full rank and no ridge it is k
    (Proposition 2); the ridge lowers it, pooling moves it. `block` (P,) says which Gaussian each
    location uses, if they are shared.
    """
    locations, k = moments.mean.shape
    result = np.empty(locations)
    single = factors.factor.shape[0] == 1
    block = np.arange(locations) if block is None else block

    def fill(start: int, stop: int) -> None:
        used = block[start:stop]
        factor = (factors.factor if single else factors.factor[used]).astype(np.float64)
        covariance = moments.scatter[start:stop] / moments.count[start:stop, None, None]
        offset = (moments.mean[start:stop] - factors.mean[used])[:, None, :] @ factor
        spread = ((covariance @ factor) * factor).sum(axis=(1, 2))
        result[start:stop] = spread + np.square(offset).sum(axis=(1, 2))

    in_parallel(fill, locations, bytes_each=8 * k * k)
    return result


def inverse_lower(lower: NDArray[Any]) -> Floats:
    """Invert lower triangles (..., n, n), half by half: numpy has no triangular solver."""
    n = lower.shape[-1]
    if n <= _SMALL:
        return np.asarray(np.linalg.inv(lower), np.float64)
    half = n // 2
    inverse = np.zeros_like(lower)
    inverse[..., :half, :half] = first = inverse_lower(lower[..., :half, :half])
    inverse[..., half:, half:] = last = inverse_lower(lower[..., half:, half:])
    np.matmul(last, -(lower[..., half:, :half] @ first), out=inverse[..., half:, :half])
    return inverse


def _cholesky_factor(covariance: Floats, ridge: float) -> Floats:
    try:
        lower = np.linalg.cholesky(with_diagonal(covariance, ridge))
    except np.linalg.LinAlgError:
        # C is known to some 1e-16 of its largest variance: a ridge below that adds nothing.
        raise UsageError(
            f"a ridge of {ridge:g} is too small for these features, a covariance has no "
            "inverse; try ",
            Setting("ridge", "0.1"),
            " with ",
            Setting("ridge_unit", "mean_square"),
        ) from None
    factor: Floats = inverse_lower(lower).transpose(0, 2, 1)
    return factor  # d = |inverse (x - m)|


def with_diagonal(matrices: Floats, added: Any) -> Floats:
    """Return matrices (B, k, k) with a number, or one of each (B,), added to the diagonal."""
    raised: Floats = matrices.copy()
    np.einsum("bii->bi", raised)[:] += np.asarray(added)[..., None]
    return raised


def _eigen_factor(covariance: Floats, ridge: float, kept: int, *, lower: bool) -> Floats:
    variance, vectors = np.linalg.eigh(covariance)  # ascending
    chosen = slice(None, kept) if lower else slice(covariance.shape[1] - kept, None)
    # A constant pixel has variances of rounding size, of either sign: the ridge decides there.
    scale = 1 / np.sqrt(np.maximum(variance[:, chosen], 0.0) + ridge)
    factor: Floats = vectors[:, :, chosen] * scale[:, None, :]
    return factor
