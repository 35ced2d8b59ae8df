"""Factors of the Gaussians from their moments: d = |L'(W'x - mean)| at every location."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.base.messages import Setting
from edgeseg.model.known_directions import KnownDirections, whiten
from edgeseg.model.moments import Floats, Moments
from edgeseg.model.parallel import in_parallel

_SMALL = 24  # triangles up to this size are inverted as they are
_LEAST_SQUARE = 1e-6  # of features that are all zero
SHARPNESS = 2 / 3  # exponent of the map's own distances: see docs/method.md
LEAST_DISTANCE = 1e-6  # added to them, so that a frame without any has a map


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
    shown: "MapFactors | None" = None  # of a map of its own; None: it has the score's distances
    # (V, B, k) float32: the mean of each variant of the product; None: there is one product
    variant_means: NDArray[np.float32] | None = None
    # (B or 1, k, k) float32: (C + ridge I)^(-1/2), where known defects are learned; no file has it
    whitening: NDArray[np.float32] | None = None

    @property
    def rank(self) -> int:
        """Directions kept per location."""
        return int(self.factor.shape[2])

    @property
    def reads(self) -> int:
        """The numbers that a frame is compared with, besides means."""
        shown = self.shown
        return self.factor.size + (0 if shown is None else shown.weight.size + shown.factor.size)


@dataclass(frozen=True, kw_only=True)
class MapFactors:
    """The map's own weights: d_map = d_a (d_b / mean d_b)^(2/3), from two Gaussians of a location.

    d_a^2 = sum of weight y^2, with y = L'(W'x - mean) of the score and a larger ridge.
    d_b = |M'(W'x - mean)| of the first k_m features alone, which are of the map's layers. Only
    where in a frame it is large says something: its mean over the frame is divided out.
    """

    weight: NDArray[np.float32]  # (B or 1, r)
    factor: NDArray[np.float32]  # (B or 1, k_m, r_m): M

    @property
    def width(self) -> int:
        """k_m: the number of features of the map's layers."""
        return int(self.factor.shape[1])


@dataclass(frozen=True, kw_only=True)
class MapForm:
    """What the map's factors are made with: its features, and a ridge for each Gaussian."""

    width: int
    ridge: float  # of the Gaussian of all features
    own_ridge: float  # of that of the map's features

    def blank(self, locations: int, *, kept: int, k: int, fill: float = 0.0) -> MapFactors:
        """Return factors of this form beside those of the score, which keep so many of k."""
        rank = map_rank(self.width, kept=kept, k=k)
        return MapFactors(
            weight=np.full((locations, kept), fill, np.float32),
            factor=np.full((locations, self.width, rank), fill, np.float32),
        )


def make_factors(
    moments: Moments,
    *,
    ridge: float,
    rank: float,
    directions: str,
    form: MapForm | None = None,
    known: KnownDirections | None = None,
    whitened: bool = False,
) -> Factors:
    """Invert C + ridge I at every location; with a rank, keep only that many directions.

    Full rank goes by Cholesky, unless a map weighs the directions again. Rank r keeps the
    eigenvectors of smallest variance (Theorem 1, applied after the embedding, where it costs k^3
    and not F^3) or, for contrast, of largest. Directions of known defects are added, and
    `whitened` keeps what they are learned by.
    """
    if bool((moments.count <= 0).any()):
        raise DatasetError("no images to fit; expected at least one good image")
    locations, k = moments.scatter.shape[:2]
    kept = kept_directions(rank, k)
    lower = directions == "lower"
    full = kept == k and lower and form is None and known is None and not whitened
    factor = np.empty((locations, k, kept), np.float32)
    shown = None if form is None else form.blank(locations, kept=kept, k=k)
    white = np.empty((locations, k, k), np.float32) if whitened else None

    def fill(start: int, stop: int) -> None:
        covariance = moments.scatter[start:stop] / moments.count[start:stop, None, None]
        if full:
            factor[start:stop] = _cholesky_factor(covariance, ridge)
            return
        variance, vectors = np.linalg.eigh(covariance)  # ascending
        axes = whiten(variance, vectors, ridge) if whitened or known is not None else None
        variance, vectors = _choose(variance, vectors, kept, lower=lower)
        part = _scale(vectors, variance + ridge)
        weight = None if form is None else (variance + ridge) / (variance + form.ridge)
        if known is not None and axes is not None:
            part, weight = known.add_to(part, weight, axes)
        factor[start:stop] = part
        if white is not None:
            white[start:stop] = axes
        if form is None or shown is None:
            return
        shown.weight[start:stop] = weight
        own = covariance[:, : form.width, : form.width]
        variance, vectors = _choose(*np.linalg.eigh(own), shown.factor.shape[2], lower=lower)
        shown.factor[start:stop] = _scale(vectors, variance + form.own_ridge)

    try:
        in_parallel(fill, locations, bytes_each=8 * k * k)
    except np.linalg.LinAlgError as error:
        raise DatasetError(
            f"covariances that no good images have ({error}); a file of moments is damaged, or ",
            Setting("ridge"),
            " is too small: fit again, or with a larger one",
        ) from None
    mean = moments.mean.astype(np.float32)
    return Factors(mean=mean, factor=factor, ridge=ridge, shown=shown, whitening=white)


def map_rank(width: int, *, kept: int, k: int) -> int:
    """Return how many directions of the map's features are kept: as large a share as of all."""
    return max(1, round(width * kept / k))


def ridge_number(
    moments: Moments, *, ridge: float, unit: str, features: int | None = None
) -> float:
    """Return a ridge in the features' own scale as the number to add to every variance.

    The unit is the mean square of the features over all Gaussians and all k of them, not centred:
    it says how large features are and hardly depends on how much the good parts vary, whereas a
    share of the variance itself would take most where parts lie most alike. It never is zero.
    With `features` only the first ones count.
    """
    if unit == "absolute":
        return ridge
    variance = moments.scatter.diagonal(axis1=1, axis2=2) / moments.count[:, None]
    square = float(variance[:, :features].mean() + np.square(moments.mean[:, :features]).mean())
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


def _choose(variance: Floats, vectors: Floats, kept: int, *, lower: bool) -> tuple[Floats, Floats]:
    """Return the variances (B, r) and directions (B, k, r) of smallest variance, or of largest."""
    chosen = slice(None, kept) if lower else slice(variance.shape[1] - kept, None)
    # A constant pixel has variances of rounding size, of either sign: the ridge decides there.
    return np.maximum(variance[:, chosen], 0.0), vectors[:, :, chosen]


def _scale(vectors: Floats, variance: Floats) -> Floats:
    """Return a factor of the inverse: directions (B, k, r) by their standard deviations."""
    factor: Floats = vectors * (1 / np.sqrt(variance))[:, None, :]
    return factor
