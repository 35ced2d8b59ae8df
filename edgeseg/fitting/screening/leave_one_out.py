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

import torch
from torch import Tensor

from edgeseg.config import FitConfig
from edgeseg.errors import UsageError
from edgeseg.model.factors import ridge_number
from edgeseg.model.moments import Moments
from edgeseg.model.windows import Windows

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
        self._select = _of_tiles(match.to(torch.float64), tiles)  # (B, T share^2, T W): rows e_j
        self._order = own.flatten().argsort()
        self._exists = exists.to(torch.float64).repeat(1, tiles)  # (B, T W)
        rows = self._exists.sum(dim=1)  # (B,): w
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
        """Images at a time that keep the work space small."""
        image_bytes = self._exists.numel() * self._pooled.mean.shape[1] * 8
        return max(1, _CHUNK_BYTES // image_bytes)

    def inside(self, x_ntkp: Tensor) -> Tensor:
        """Distances (N T, h, w) of images (N, T, k, P) behind the moments from all others."""
        z = self._centred_rows(x_ntkp)  # (B, N, T W, k)
        window, k = z.shape[2:]
        if self._one_covariance or window > k:
            return self._to_grid(torch.stack([self._refactored(image) for image in z.unbind(1)], 1))
        lower = self._lower_without_one
        v = _solve_rows(lower, z, transposed=False)
        identity = torch.eye(window, dtype=torch.float64)
        ones = self._exists
        # Windows are cut at the border: what they lack are rows of zeros, which K leaves alone.
        kernel = identity - ones[:, :, None] * ones[:, None] / self._count[:, None, None]
        kernel = kernel[:, None] - v @ v.mT  # (B, N, T W, T W)
        columns = torch.cholesky_solve(
            self._select.mT[:, None].expand(-1, z.shape[1], -1, -1), self._cholesky(kernel)
        )  # (B, N, T W, T share^2)
        u = _solve_rows(lower, columns.mT @ v, transposed=True)  # (B, N, T share^2, k)
        return self._to_grid(u * self._left[:, None, None, None])

    def outside(self, x_ntkp: Tensor) -> Tensor:
        """Distances (N T, h, w) of images (N, T, k, P) that are not behind the moments."""
        z = self._select[:, None] @ self._centred_rows(x_ntkp)  # (B, N, T share^2, k)
        lower = self._lower_with_all
        u = _solve_rows(lower, _solve_rows(lower, z, transposed=False), transposed=True)
        return self._to_grid(u * self._pooled.count[:, None, None, None])

    @cached_property
    def _lower_without_one(self) -> Tensor:
        return self._factor(self._left)

    @cached_property
    def _lower_with_all(self) -> Tensor:
        return self._factor(self._pooled.count)

    def _factor(self, times: Tensor) -> Tensor:
        scatter = self._pooled.scatter.clone()
        scatter.diagonal(dim1=1, dim2=2).add_((times * self._ridge)[:, None])
        return self._cholesky(scatter)

    def _refactored(self, z: Tensor) -> Tensor:
        """u (B, T share^2, k) of one image's rows (B, T W, k) by a factor of its own.

        With more rows than k, as where all blocks share a covariance, this is the cheaper way.
        """
        total, left = z.sum(dim=1), self._left  # (B, k): Z'1
        shift = total / left[:, None]
        offset = self._select @ (z + shift[:, None])  # (B, T share^2, k)
        blocks = "" if self._one_covariance else "b"
        removed = torch.einsum(f"bwk,bwl->{blocks}kl", z, z)
        removed += torch.einsum(f"bk,bl->{blocks}kl", shift, total)
        targets = offset
        if self._one_covariance:
            left, targets = left.sum(dim=0, keepdim=True), offset.flatten(0, 1)[None]
        scatter = self._pooled.scatter - removed
        scatter.diagonal(dim1=1, dim2=2).add_((left * self._ridge)[:, None])
        u = torch.cholesky_solve(targets.mT, self._cholesky(scatter)).mT * left[:, None, None]
        return u.reshape(offset.shape)

    def _centred_rows(self, x_ntkp: Tensor) -> Tensor:
        """Rows of each block's windows less its mean (B, N, T W, k), zeros beyond the border."""
        rows = x_ntkp.to(torch.float64).permute(3, 0, 1, 2)[self._cells]  # (B, W, N, T, k)
        rows = rows.permute(0, 2, 3, 1, 4).flatten(2, 3)  # (B, N, T W, k)
        return (rows - self._pooled.mean[:, None, None]) * self._exists[:, None, :, None]

    def _to_grid(self, u: Tensor) -> Tensor:
        """u (B, N, T share^2, k) to distances (N T, h, w)."""
        d = (u.square().sum(dim=3) * self._ridge).sqrt()  # (B, N, T share^2)
        blocks, images = d.shape[:2]
        d = d.view(blocks, images, self._tiles, -1).permute(1, 2, 0, 3)  # (N, T, B, share^2)
        cells: Tensor = d.flatten(2)[:, :, self._order].to(torch.float32)
        return cells.reshape(-1, *self._grid_hw)

    def _cholesky(self, matrix: Tensor) -> Tensor:
        lower: Tensor
        lower, failed = torch.linalg.cholesky_ex(matrix)
        if bool(failed.any()):
            raise UsageError(
                f"ridge={self._ridge:g}: too small to compare images with each other; try a "
                "larger one"
            )
        return lower


def _solve_rows(lower: Tensor, rows: Tensor, *, transposed: bool) -> Tensor:
    """L^-1, or its transpose, of rows (B, N, m, k) of each block."""
    triangle = lower.mT if transposed else lower
    solved: Tensor = torch.linalg.solve_triangular(
        triangle, rows.flatten(1, 2).mT, upper=transposed
    )
    return solved.mT.reshape(rows.shape)


def _of_tiles(select: Tensor, tiles: int) -> Tensor:
    """The same choice (B, c, W) in the rows of every tile: (B, T c, T W), block diagonal."""
    diagonal = torch.eye(tiles, dtype=select.dtype)
    whole = torch.einsum("st,bcw->bsctw", diagonal, select)
    return whole.flatten(3, 4).flatten(1, 2)
