"""The cells of the grid that each Gaussian covers, for every room.

A block of share x share cells uses one Gaussian. It is fitted on the window of that block: the
block and the pool // 2 cells around it, cut at the border of the grid.

Moments are kept of every cell and merged into windows when they are needed, or kept of whole
windows straight from embeddings, for grids too large to keep cells. A frame of 2160x3840 has
129,600 cells: with k=150 their moments are 23 GB, those of its 3,600 blocks of 6x6 cells 0.65 GB.
Means and covariances are equal to rounding. Counts are of images, not of cells, so that windows
merge and split like cells do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from edgeseg.config import FitConfig
from edgeseg.model.factors import Factors
from edgeseg.model.moments import Floats, Moments, merge_first_axis
from edgeseg.model.parallel import in_parallel
from edgeseg.model.variant_moments import VariantMoments

Places = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True)
class Windows:
    """B blocks of a grid of P cells, and the window of each."""

    grid_hw: tuple[int, int]
    share: int = 1
    pool: int = 1
    moments: str = "cells"  # what moments are kept of: "cells", or whole windows of "blocks"
    covariance: str = "local"  # "global": all blocks have one covariance, each its own mean
    variants: int = 0  # of the product, each with a mean of its own; 0: there is one product

    @classmethod
    def of(cls, config: FitConfig) -> "Windows":
        """Return the windows of a fit."""
        return cls(
            grid_hw=config.grid_hw,
            share=config.share,
            pool=config.pool,
            moments=config.moments,
            covariance=config.covariance,
            variants=len(config.variants),
        )

    @property
    def cells(self) -> int:
        """P: cells of the grid."""
        return self.grid_hw[0] * self.grid_hw[1]

    @property
    def count(self) -> int:
        """B: Gaussians, one for each block."""
        height, width = self.blocks_hw
        return height * width

    @property
    def covariances(self) -> int:
        """The number of different covariances of the Gaussians: B or 1."""
        return 1 if self.covariance == "global" else self.count

    @property
    def kept(self) -> int:
        """M: locations whose moments are kept, all cells or all blocks."""
        return self.count if self.moments == "blocks" else self.cells

    @property
    def are_cells(self) -> bool:
        """Whether every window is just one cell."""
        return self.share == self.pool == 1

    def block_of_cell(self) -> Places:
        """Return the Gaussian that each cell (P,) uses."""
        (height, width), share = self.grid_hw, self.share
        row = np.arange(height)[:, None] // share
        return (row * (width // share) + np.arange(width)[None] // share).ravel()

    def block_of_kept(self) -> Places:
        """Return the Gaussian that each location (M,) with moments is measured by."""
        return np.arange(self.count) if self.moments == "blocks" else self.block_of_cell()

    def cells_of_block(self) -> Places:
        """Return the cells (B, share^2) that use each Gaussian."""
        return self._cells(radius=0)[0]

    def cells_of_window(self) -> tuple[Places, NDArray[np.bool_]]:
        """Return the cells (B, W) that each Gaussian is fitted on, and which of them exist.

        A window is cut at the border of the grid; its places beyond are cell 0 and marked False.
        """
        return self._cells(radius=self.pool // 2)

    def per_cell(self, values_bk: NDArray[Any]) -> NDArray[Any]:
        """Repeat values (B, k) of blocks for each of their cells: (P, k)."""
        if self.share == 1:
            return values_bk
        values = values_bk.reshape(*self.blocks_hw, -1)
        values = values.repeat(self.share, axis=0).repeat(self.share, axis=1)
        return np.asarray(values.reshape(self.cells, -1))

    def by_block(self, rows_npk: NDArray[Any]) -> NDArray[Any]:
        """Arrange rows (N, P, k) of cells as (B, N share^2, k): all that one Gaussian measures."""
        n, _, k = rows_npk.shape
        s = self.share
        if s == 1:
            return np.asarray(rows_npk.transpose(1, 0, 2))  # (P, N, k)
        height, width = self.blocks_hw
        rows = rows_npk.reshape(n, height, s, width, s, k).transpose(1, 3, 0, 2, 4, 5)
        return np.asarray(rows.reshape(height * width, n * s * s, k))

    def to_grid(self, values: NDArray[Any], *, images: int) -> NDArray[Any]:
        """Put values (B, N share^2) in the order of `by_block` back on the grid: (N, h, w)."""
        n, s = images, self.share
        if s == 1:
            return np.asarray(values.T.reshape(n, *self.grid_hw))
        values = values.reshape(*self.blocks_hw, n, s, s).transpose(2, 0, 3, 1, 4)
        return np.asarray(values.reshape(n, *self.grid_hw))

    def new_moments(self, k: int) -> Moments:
        """Return the moments of no images; the one place where moments of a fit are made."""
        if self.variants:
            return VariantMoments.blank(self.variants, self.kept, k)
        return Moments.zero(self.kept, k)

    def add_(self, moments: Moments, x_nkhw: NDArray[Any], *, images: int) -> None:
        """Add embedded inputs of `images` images to their moments, in place."""
        if self.moments == "cells":
            moments.update_(x_nkhw.reshape(*x_nkhw.shape[:2], self.cells), images=images)
            return
        for blocks, rows in self._window_rows(x_nkhw):
            moments.at(blocks).update_(rows, images=images)

    def pool_moments(self, moments: Moments) -> Moments:
        """Return the moments of every window (B), from those that are kept (M)."""
        if isinstance(moments, VariantMoments):  # neighbours are merged within each variant
            return VariantMoments.of([self.pool_moments(part) for part in moments.parts])
        if self.moments == "cells":
            return self._merge(moments)
        # They are pooled; only a sum over windows has to know how many cells each has.
        return self.in_cells(moments) if self.covariance == "global" else moments

    def in_cells(self, moments: Moments) -> Moments:
        """Count cells instead of images: windows cut at the border weigh less than others."""
        rows, columns = (
            np.array([stop - start for start, stop in self._spans(side)], np.float64)
            for side in self.grid_hw
        )
        cells = (rows[:, None] * columns).ravel()
        return Moments(
            count=moments.count * cells,
            mean=moments.mean,
            scatter=moments.scatter * cells[:, None, None],
        )

    def mean_d2(self, factors: Factors, x_nkhw: NDArray[np.float32]) -> Floats:
        """Average d^2 (B,) of every Gaussian over the cells of its own window and the images.

        The counterpart of expected_d2 on moments of windows. A map has each cell's distance to its
        own block alone, so this is not the mean of a map unless pool is 1.
        """
        result = np.empty(self.count)
        single = factors.factor.shape[0] == 1
        for blocks, rows in self._window_rows(x_nkhw):
            centred = rows.transpose(2, 0, 1) - factors.mean[blocks, None]  # (blocks, N cells, k)
            y = centred @ (factors.factor if single else factors.factor[blocks])
            result[blocks] = np.square(y).sum(axis=2).mean(axis=1)
        return result

    @property
    def blocks_hw(self) -> tuple[int, int]:
        """Rows and columns of blocks."""
        return self.grid_hw[0] // self.share, self.grid_hw[1] // self.share

    def _spans(self, length: int) -> list[tuple[int, int]]:
        """Return first and last cell (exclusive) of every window along an axis."""
        reach = self.pool // 2
        return [
            (max(first - reach, 0), min(first + self.share + reach, length))
            for first in range(0, length, self.share)
        ]

    def _runs(self, length: int) -> list[tuple[int, int, int, int]]:
        """Return runs of neighbouring blocks with equally wide windows, `share` cells apart.

        First and last block (exclusive), where the first window begins, and the width of each.
        """
        runs: list[tuple[int, int, int, int]] = []
        for block, (start, stop) in enumerate(self._spans(length)):
            if runs:
                first, _, left, width = runs[-1]
                if stop - start == width and start == left + (block - first) * self.share:
                    runs[-1] = (first, block + 1, left, width)
                    continue
            runs.append((block, block + 1, start, stop - start))
        return runs

    def _cells(self, *, radius: int) -> tuple[Places, NDArray[np.bool_]]:
        """Return cells (B, (share + 2 radius)^2) of blocks and around, and which of them exist."""
        height, width = self.grid_hw
        offsets = np.arange(-radius, self.share + radius)
        rows, columns = (np.arange(0, side, self.share)[:, None] + offsets for side in self.grid_hw)
        cells = _cross(rows * width, columns)
        beyond = _cross((rows < 0) | (rows >= height), (columns < 0) | (columns >= width))
        exists = beyond == 0
        return np.where(exists, cells, 0), exists

    def _window_rows(self, x_nkhw: NDArray[Any]) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Yield blocks (as a slice of all) and the rows (N * cells, k, blocks) of their windows.

        One row of blocks at a time, so that copies of overlapping windows stay small.
        """
        images, k = x_nkhw.shape[:2]
        columns = self.blocks_hw[1]
        for row, (top, bottom) in enumerate(self._spans(self.grid_hw[0])):
            band = x_nkhw[:, :, top:bottom]  # (N, k, y, w)
            for first, last, left, width in self._runs(self.grid_hw[1]):
                right = left + (last - first - 1) * self.share + width
                cells = sliding_window_view(band[..., left:right], width, axis=3)
                cells = cells[..., :: self.share, :]  # (N, k, y, blocks, x)
                cells = cells.transpose(0, 2, 4, 1, 3)
                yield (
                    slice(row * columns + first, row * columns + last),
                    cells.reshape(images * (bottom - top) * width, k, last - first),
                )

    def _merge(self, moments: Moments) -> Moments:
        """Merge moments of cells (P) into those of windows (B)."""
        if self.are_cells:
            return moments
        # Merging is associative, so columns first and rows after is the merge of the whole window.
        height, width = self.grid_hw
        columns = self._merge_along(moments, 1, (height, width))
        return self._merge_along(columns, 0, (height, width // self.share))

    def _merge_along(self, moments: Moments, axis: int, grid_hw: tuple[int, int]) -> Moments:
        k, spans = moments.mean.shape[1], self._spans(grid_hw[axis])
        shape = (len(spans), grid_hw[1]) if axis == 0 else (grid_hw[0], len(spans))
        whole = Moments.zero(shape[0] * shape[1], k)
        cells, windows = (
            [
                np.moveaxis(values.reshape(*size, *values.shape[1:]), axis, 0)
                for values in (sums.count, sums.mean, sums.scatter)
            ]
            for sums, size in ((moments, grid_hw), (whole, shape))
        )

        def fill(first: int, last: int) -> None:
            for place in range(first, last):
                span = slice(*spans[place])
                count, mean, scatter = (values[span] for values in cells)
                targets = (windows[0][place], windows[1][place], windows[2][place])
                merge_first_axis(count, mean, scatter, into=targets)

        in_parallel(fill, len(spans), bytes_each=8 * grid_hw[1 - axis] * k * k)
        return whole


def _cross(rows: NDArray[Any], columns: NDArray[Any]) -> Places:
    """Return sums of what each row (y, i) and each column (x, j) of windows has: (y x, i j)."""
    sums = rows[:, None, :, None].astype(np.intp) + columns[None, :, None, :].astype(np.intp)
    return sums.reshape(rows.shape[0] * columns.shape[0], -1)
