"""Moments of whole windows of cells, straight from embeddings, for grids too large to keep cells.

A block of share x share cells has one Gaussian, of the block and the pool // 2 cells around it. A
frame of 2160x3840 has 129,600 cells: with k=150 their moments are 23 GB, those of its 3,600 blocks
of 6x6 cells 0.65 GB. Means and covariances are those of Moments.pooled of the cells, to rounding.
Counts are of images, not of cells, so that windows merge and split like cells do.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from edgeseg.model.factors import Factors
from edgeseg.model.moments import Moments


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """Which cells of a grid go into which Gaussian."""

    grid_hw: tuple[int, int]
    share: int
    pool: int

    @property
    def count(self) -> int:
        """How many Gaussians there are."""
        return (self.grid_hw[0] // self.share) * (self.grid_hw[1] // self.share)

    def windows(self, x_nkhw: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Blocks (as a slice of all) and the cells (N * cells, k, blocks) of their windows.

        One row of blocks at a time, so that copies of overlapping windows stay small.
        """
        images, k = x_nkhw.shape[:2]
        columns = self.grid_hw[1] // self.share
        for row, (top, bottom) in enumerate(_windows(self.grid_hw[0], self.share, self.pool)):
            band = x_nkhw[:, :, top:bottom]  # (N, k, y, w)
            for first, last, left, width in _runs(self.grid_hw[1], self.share, self.pool):
                right = left + (last - first - 1) * self.share + width
                cells = band[..., left:right].unfold(3, width, self.share)  # (N, k, y, blocks, x)
                cells = cells.permute(0, 2, 4, 1, 3)
                yield (
                    slice(row * columns + first, row * columns + last),
                    cells.reshape(images * (bottom - top) * width, k, last - first),
                )

    def update_(self, moments: Moments, x_nkhw: Tensor, *, images: int) -> None:
        """Add the windows of `images` embedded images to their moments, in place."""
        for span, cells in self.windows(x_nkhw):
            moments.at(span).update_(cells, images=images)

    def in_cells(self, moments: Moments) -> Moments:
        """Counts of cells instead of images: windows cut at the border weigh less than others."""
        rows, columns = (
            torch.tensor([stop - start for start, stop in _windows(side, self.share, self.pool)])
            for side in self.grid_hw
        )
        cells = (rows[:, None] * columns).flatten().to(moments.count)
        return Moments(
            count=moments.count * cells,
            mean=moments.mean,
            scatter=moments.scatter * cells[:, None, None],
        )

    def mean_d2(self, factors: Factors, x_nkhw: Tensor) -> Tensor:
        """d^2 (B,) of every Gaussian, averaged over the cells of its own window and the images.

        The counterpart of expected_d2 on moments of windows. A map has each cell's distance to its
        own block alone, so this is not the mean of a map unless pool is 1.
        """
        result = torch.empty(self.count, dtype=torch.float64)
        single = factors.factor.shape[0] == 1
        for span, cells in self.windows(x_nkhw):
            centred = cells.permute(2, 0, 1) - factors.mean[span, None]  # (blocks, N cells, k)
            y = centred @ (factors.factor if single else factors.factor[span])
            result[span] = y.square().sum(dim=2).mean(dim=1).to(torch.float64)
        return result


def _windows(length: int, share: int, pool: int) -> list[tuple[int, int]]:
    """First and last cell (exclusive) of every block's window along an axis."""
    reach = pool // 2
    return [
        (max(first - reach, 0), min(first + share + reach, length))
        for first in range(0, length, share)
    ]


def _runs(length: int, share: int, pool: int) -> list[tuple[int, int, int, int]]:
    """Runs of neighbouring blocks whose windows are equally wide and `share` cells apart.

    First and last block (exclusive), where the first window begins, and the width of each.
    """
    runs: list[tuple[int, int, int, int]] = []
    for block, (start, stop) in enumerate(_windows(length, share, pool)):
        if runs:
            first, _, left, width = runs[-1]
            if stop - start == width and start == left + (block - first) * share:
                runs[-1] = (first, block + 1, left, width)
                continue
        runs.append((block, block + 1, start, stop - start))
    return runs
