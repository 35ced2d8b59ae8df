"""Distances of cells to a map of pixels: bilinear interpolation and blur, as matrices."""

import numpy as np
from numpy.typing import NDArray


def upsampling_operator(size: int, cells: int, *, sigma: float) -> NDArray[np.float64]:
    """Return U (size, cells) with map = U_rows d U_columns': bilinear interpolation, then blur.

    Both are linear and separable, borders included, so they are one matrix per axis.
    """
    return _blur_matrix(size, sigma) @ _bilinear_matrix(size, cells)


def _bilinear_matrix(size: int, cells: int) -> NDArray[np.float64]:
    position = np.clip((np.arange(size) + 0.5) * cells / size - 0.5, 0, cells - 1)
    below = np.minimum(np.floor(position).astype(int), max(cells - 2, 0))
    share = position - below
    matrix = np.zeros((size, cells))
    index = np.arange(size)
    matrix[index, below] += 1 - share
    matrix[index, np.minimum(below + 1, cells - 1)] += share
    return matrix


def _blur_matrix(size: int, sigma: float) -> NDArray[np.float64]:
    if sigma == 0:
        return np.eye(size)
    radius = int(4 * sigma + 0.5)  # as SciPy's; the tail beyond is below 1e-4 of the mass
    offsets = np.arange(-radius, radius + 1)
    kernel = np.exp(-0.5 * (offsets / sigma) ** 2)
    kernel /= kernel.sum()
    # Reflect about the edges of the image (d c b a | a b c d | d c b a), as often as needed.
    position = (np.arange(size)[:, None] + offsets) % (2 * size)
    position = np.where(position < size, position, 2 * size - 1 - position)
    matrix = np.zeros((size, size))
    np.add.at(matrix, (np.arange(size)[:, None], position), kernel)
    return matrix
