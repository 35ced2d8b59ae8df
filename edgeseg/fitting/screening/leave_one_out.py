"""How far an image is from the Gaussians of all other images, without fitting those anew.

An image gives w rows x_j to a Gaussian: its own cell, or the window of a pooled and shared block,
of each tile if it is cut into tiles.
With Z (w, k) of the rows x_j - m, and n rows of all images with mean m and scatter S,

    A = S + (n - w) ridge I                       one Cholesky factor for all images
    K = I - 11'/n - Z A^-1 Z'                     w x w, for each image
    u = (n - w) A^-1 Z' K^-1 e_j                  equals (C + ridge I)^-1 (x_j - mean) of the others

Proof: the others have the mean m - Z'1 / (n - w) and the scatter S - Z' M Z with
M = I + 11'/(n - w), whose inverse is I - 11'/n. Row j lies Z'c off their mean with M^-1 c = e_j,
and by Woodbury's identity (A - Z'MZ)^-1 Z' = A^-1 Z' K^-1 M^-1. The ridge counts n - w times from
the start, so nothing is approximate, for few images and constant pixels too.

The distance is sqrt(ridge) |u|: that of Mahalanobis, with each direction weighed by
ridge / (variance + ridge). Directions in which good images vary fade out, as they do in a model
with a rank; but a rank chooses its directions with the image in question among the others, and
where that image alone makes the variance, it drops the very direction that betrays it.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.config import FitConfig
from edgeseg.model.factors import inverse_lower, ridge_number, with_diagonal
from edgeseg.model.moments import Floats, Moments
from edgeseg.model.parallel import in_parallel
from edgeseg.model.windows import Windows

Rows = NDArray[np.float32]

_CHUNK_BYTES = 64 << 20  # of rows in float64


class LeaveOneOut:
    """Distances of images from all others behind the same pooled moments.

    `images` says how many are behind them, `tiles` how many inputs of the model each one makes.
    """

    def __init__(self, pooled: Moments, config: FitConfig, *, images: int, tiles: int = 1):
        self._ridge = ridge_number(pooled, ridge=config.ridge, unit=config.ridge_unit)
        self._grid_hw, self._tiles = config.grid_hw, tiles
        windows = Windows.of(config)
        self._cells, exists = windows.cells_of_window()  # (B, W) each
        own = windows.cells_of_block()  # (B, share^2)
        match = (self._cells[:, None] == own[..., None]) & exists[:, None]
        self._select = _of_tiles(match.astype(np.float64), tiles)  # (B, T share^2, T W): rows e_j
        self._order = own.ravel().argsort()
        self._exists = np.tile(exists.astype(np.float64), (1, tiles))  # (B, T W)
        rows = self._exists.sum(axis=1)  # (B,): w
        self._left = rows * (images - 1)  # n - w
        if images < 2:
            raise UsageError("leave-one-out with one image: expected at least two to compare")
        # Moments may count images, cells or something between; here they count rows.
        rows_each = rows * images / pooled.count
        counted = Moments(
            count=rows * images,
            mean=pooled.mean,
            scatter=pooled.scatter * rows_each[:, None, None],
        )
        self._count = counted.count  # (B,): n
        self._one_covariance = config.covariance == "global"
        self._pooled = counted.shared_covariance() if self._one_covariance else counted

    @property
    def batch_size(self) -> int:
        """The number of images at a time that keeps the work space small."""
        image_bytes = int(self._exists.size * self._pooled.mean.shape[1] * 8)
        return max(1, _CHUNK_BYTES // image_bytes)

    def inside(self, x_ntkp: Rows) -> Rows:
        """Return distances (N T, h, w) of images (N, T, k, P) in the moments from all others."""
        z = self._centred_rows(x_ntkp)  # (B, N, T W, k)
        window, k = z.shape[2:]
        if self._one_covariance or window > k:
            refactored = [self._solve_alone(z[:, image]) for image in range(z.shape[1])]
            return self._to_grid(np.stack(refactored, 1))
        u = np.empty((len(z), z.shape[1], self._select.shape[1], k))
        ones, inverse = self._exists, self._inverse_without_one

        def fill(start: int, stop: int) -> None:
            part = slice(start, stop)
            v = _along_rows(z[part], inverse[part])
            # Windows are cut at the border: what they lack are rows of zeros, which K leaves alone.
            kernel = ones[part, :, None] * ones[part, None] / self._count[part, None, None]
            kernel = (np.eye(window) - kernel)[:, None] - v @ v.swapaxes(2, 3)  # (b, N, T W, T W)
            half = self._inverse_lower(kernel)
            columns = half.swapaxes(2, 3) @ (half @ self._select[part].swapaxes(1, 2)[:, None])
            solved = columns.swapaxes(2, 3) @ v  # (b, N, T share^2, k)
            u[part] = _along_rows(solved, inverse[part].swapaxes(1, 2))

        in_parallel(fill, len(z), bytes_each=z[0].nbytes)
        return self._to_grid(u * self._left[:, None, None, None])

    def outside(self, x_ntkp: Rows) -> Rows:
        """Return distances (N T, h, w) of images (N, T, k, P) that are not in the moments."""
        z = self._select[:, None] @ self._centred_rows(x_ntkp)  # (B, N, T share^2, k)
        inverse = self._inverse_with_all
        u = _along_rows(_along_rows(z, inverse), inverse.swapaxes(1, 2))
        return self._to_grid(u * self._pooled.count[:, None, None, None])

    @cached_property
    def _inverse_without_one(self) -> Floats:
        return self._invert(self._left)

    @cached_property
    def _inverse_with_all(self) -> Floats:
        return self._invert(self._pooled.count)

    def _invert(self, times: Floats) -> Floats:
        """Return L^-1 of S + times ridge I = L L'."""
        scatter = self._pooled.scatter
        inverse = np.empty_like(scatter)
        added = np.broadcast_to(times * self._ridge, len(scatter))

        def fill(start: int, stop: int) -> None:
            part = slice(start, stop)
            inverse[part] = self._inverse_lower(with_diagonal(scatter[part], added[part]))

        in_parallel(fill, len(scatter), bytes_each=scatter[0].nbytes)
        return inverse

    def _solve_alone(self, z: Floats) -> Floats:
        """Return u (B, T share^2, k) of one image's rows (B, T W, k) by a factor of its own.

        With more rows than k, as where all blocks share a covariance, this is the cheaper way.
        """
        total, left = z.sum(axis=1), self._left  # (B, k): Z'1
        shift = total / left[:, None]
        offset = self._select @ (z + shift[:, None])  # (B, T share^2, k)
        if self._one_covariance:
            rows = z.reshape(-1, z.shape[2])
            removed = (rows.T @ rows + shift.T @ total)[None]
            left, targets = left.sum(keepdims=True), offset.reshape(1, -1, z.shape[2])
        else:
            removed = z.swapaxes(1, 2) @ z + shift[:, :, None] * total[:, None]
            targets = offset
        scatter = with_diagonal(self._pooled.scatter - removed, left * self._ridge)
        inverse = self._inverse_lower(scatter)
        u = targets @ inverse.swapaxes(1, 2) @ inverse * left[:, None, None]
        return np.asarray(u.reshape(offset.shape))

    def _centred_rows(self, x_ntkp: Rows) -> Floats:
        """Centre the rows of each block's windows (B, N, T W, k), with zeros beyond the border."""
        rows = x_ntkp.astype(np.float64).transpose(3, 0, 1, 2)[self._cells]  # (B, W, N, T, k)
        rows = rows.transpose(0, 2, 3, 1, 4)
        rows = np.asarray(rows.reshape(*rows.shape[:2], -1, rows.shape[4]))  # (B, N, T W, k)
        rows -= self._pooled.mean[:, None, None]
        rows *= self._exists[:, None, :, None]
        return rows

    def _to_grid(self, u: Floats) -> Rows:
        """Map u (B, N, T share^2, k) to distances (N T, h, w)."""
        d = np.sqrt(np.square(u).sum(axis=3) * self._ridge)  # (B, N, T share^2)
        blocks, images = d.shape[:2]
        d = d.reshape(blocks, images, self._tiles, -1).transpose(1, 2, 0, 3)  # N, T, B, share^2
        cells = d.reshape(images, self._tiles, -1)[:, :, self._order].astype(np.float32)
        return np.asarray(cells.reshape(-1, *self._grid_hw))

    def _inverse_lower(self, matrices: Floats) -> Floats:
        """Return L^-1 of each matrix L L'."""
        try:
            return inverse_lower(np.linalg.cholesky(matrices))
        except np.linalg.LinAlgError:
            raise UsageError(
                Setting("ridge", f"{self._ridge:g}"),
                ": too small to compare images with each other; try a larger one",
            ) from None


def _along_rows(rows: Floats, matrices: Floats) -> Floats:
    """Multiply each block's matrix (k, k) with each of its rows (B, N, m, k)."""
    flat = rows.reshape(len(rows), -1, rows.shape[3])
    return np.asarray((flat @ matrices.swapaxes(1, 2)).reshape(rows.shape))


def _of_tiles(select: Floats, tiles: int) -> Floats:
    """Repeat a choice (B, c, W) for the rows of every tile: (B, T c, T W), block diagonal."""
    whole: Floats = np.einsum("st,bcw->bsctw", np.eye(tiles), select)
    return whole.reshape(len(select), tiles * select.shape[1], tiles * select.shape[2])
