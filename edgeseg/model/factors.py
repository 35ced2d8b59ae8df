"""From moments to what a frame is compared with: d = |L'(W'x - mean)| at every location."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from edgeseg.errors import DatasetError, UsageError
from edgeseg.model.moments import Moments

# A chunk of float64 work space: 64 MB holds 800 locations of k=100, and bounds Wide ResNet-50-2
# with k=300 as well.
_CHUNK_BYTES = 64 << 20
_LEAST_SQUARE = 1e-6  # of features that are all zero


@dataclass(frozen=True, kw_only=True)
class Factors:
    """The Gaussian of every location, ready to measure with."""

    mean: Tensor  # (B, k) float32: B blocks of cells that share a Gaussian, or all P cells
    factor: Tensor  # (B or 1, k, r) float32: L with L L' the precision, or its best rank-r part
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
    factor = torch.empty(locations, k, kept, dtype=torch.float32)

    def fill(start: int, stop: int) -> None:
        covariance = moments.scatter[start:stop] / moments.count[start:stop, None, None]
        if full:
            factor[start:stop] = _cholesky_factor(covariance, ridge)
        else:
            lower = directions == "lower"
            factor[start:stop] = _eigen_factor(covariance, ridge, kept, lower=lower)

    try:
        in_parallel(fill, locations, k)
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        raise DatasetError(
            f"covariances that no good images have ({error}); a file of moments is damaged, or "
            "ridge= is too small: fit again, or with a larger one"
        ) from None
    return Factors(mean=moments.mean.to(torch.float32), factor=factor, ridge=ridge)


def ridge_number(moments: Moments, *, ridge: float, unit: str) -> float:
    """A ridge in the features' own scale as the number to add to every variance.

    The unit is the mean square of the features over all Gaussians and all k of them, not centred:
    it says how large features are and hardly depends on how much the good parts vary, whereas a
    share of the variance itself would take most where parts lie most alike. It never is zero.
    """
    if unit == "absolute":
        return ridge
    variance = moments.scatter.diagonal(dim1=1, dim2=2) / moments.count[:, None]
    square = float(variance.mean() + moments.mean.square().mean())
    return ridge * max(square, _LEAST_SQUARE)


def kept_directions(rank: float, k: int) -> int:
    """How many of k directions a rank means: a share below 1, a number from 1, or 0 for all."""
    if rank == 0:
        return k
    return min(k, max(1, round(rank * k)) if rank < 1 else int(rank))


def expected_d2(factors: Factors, moments: Moments, *, block: Tensor | None = None) -> Tensor:
    """E[d^2] (P,) on the images behind these (not pooled) moments, in closed form.

    tr(L'CL) + |L'(m - mean)|^2: with the location's own moments, full rank and no ridge it is k
    (Proposition 2); the ridge lowers it, pooling moves it. `block` (P,) says which Gaussian each
    location uses, if they are shared.
    """
    locations, k = moments.mean.shape
    result = torch.empty(locations, dtype=torch.float64)
    single = factors.factor.shape[0] == 1
    block = torch.arange(locations) if block is None else block

    def fill(start: int, stop: int) -> None:
        used = block[start:stop]
        factor = (factors.factor if single else factors.factor[used]).to(torch.float64)
        covariance = moments.scatter[start:stop] / moments.count[start:stop, None, None]
        offset = (moments.mean[start:stop] - factors.mean[used])[:, None, :] @ factor
        spread = ((covariance @ factor) * factor).sum(dim=(1, 2))
        result[start:stop] = spread + offset.square().sum(dim=(1, 2))

    in_parallel(fill, locations, k)
    return result


def _cholesky_factor(covariance: Tensor, ridge: float) -> Tensor:
    k = covariance.shape[1]
    identity = torch.eye(k, dtype=covariance.dtype)
    lower, failed = torch.linalg.cholesky_ex(covariance + ridge * identity)
    if bool(failed.any()):
        # C is known to some 1e-16 of its largest variance: a ridge below that adds nothing.
        raise UsageError(
            f"a ridge of {ridge:g} is too small for these features, a covariance has no inverse; "
            "try ridge=0.1 with ridge_unit=mean_square"
        )
    inverse: Tensor = torch.linalg.solve_triangular(lower, identity.expand_as(lower), upper=False)
    return inverse.mT  # d = |inverse (x - m)|


def _eigen_factor(covariance: Tensor, ridge: float, kept: int, *, lower: bool) -> Tensor:
    variance, vectors = torch.linalg.eigh(covariance)  # ascending
    chosen = slice(None, kept) if lower else slice(covariance.shape[1] - kept, None)
    # A constant pixel has variances of rounding size, of either sign: the ridge decides there.
    scale = (variance[:, chosen].clamp(min=0.0) + ridge).rsqrt()
    factor: Tensor = vectors[:, :, chosen] * scale[:, None, :]
    return factor


def in_parallel(fill: Callable[[int, int], None], locations: int, k: int) -> None:
    """Run chunks on all cores, one LAPACK thread each.

    LAPACK's own threads make small eigenproblems slower, up to forty times on a busy machine.
    """
    threads = torch.get_num_threads()
    step = max(1, min(locations // (4 * threads) + 1, _CHUNK_BYTES // (8 * k * k)))
    spans = [(start, min(start + step, locations)) for start in range(0, locations, step)]
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda span: fill(*span), spans))
    finally:
        torch.set_num_threads(threads)
