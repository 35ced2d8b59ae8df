"""The one reference forward, which export traces.

frames (N, H, W, 3) -> normalised pixels -> backbone -> one feature map per tap
feature maps -> W'x on the grid: embedding (N, k, h, w)
embedding -> where there are variants, the number (N,) of the one that each frame shows
embedding - mean, times the factor of its block -> distances (N, h, w), the map's own beside them
the map's distances -> interpolated and blurred: map (N, H, W); highest of the others: score (N,)
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgeseg.config import FitConfig
from edgeseg.model.embedding import GridEmbedding
from edgeseg.model.factors import LEAST_DISTANCE, SHARPNESS, Factors
from edgeseg.model.feature_extractor import Backbone
from edgeseg.model.gaussian_head import GaussianHead
from edgeseg.model.map_layers import layer_columns
from edgeseg.model.windows import Windows

APART = "apart"  # (N, P, k): cells minus the mean of their place


class Preprocess(nn.Module):
    """The step from RGB uint8 (N, H, W, 3) to the normalised float (N, 3, H, W) of the weights."""

    offset: Tensor
    scale: Tensor | None  # None: it has moved into the first convolution

    def __init__(self, *, mean: tuple[float, ...], std: tuple[float, ...], width: int):
        super().__init__()
        # A whole row: ONNX Runtime subtracts three values at a time far slower.
        self.register_buffer("offset", torch.tensor(mean).repeat(width, 1) * 255.0)  # (W, 3)
        self.register_buffer("scale", 1.0 / (torch.tensor(std).view(1, -1, 1, 1) * 255.0))

    def forward(self, frames: Tensor) -> Tensor:
        """Subtract in the scale of the pixels, so that the factor can move into a convolution."""
        # The transposition comes last: OpenVINO's convolutions want channels last, and drop it.
        x = (frames.to(torch.float32) - self.offset).permute(0, 3, 1, 2)
        return x if self.scale is None else x * self.scale


class ReferenceModel(nn.Module):
    """Backbone, embedding, distance at every location, and the way back to image size."""

    mean: Tensor
    factor: Tensor
    rows: Tensor
    columns: Tensor
    kept: Tensor | None
    gain: Tensor | None
    counted: Tensor
    map_weight: Tensor | None
    map_factor: Tensor | None
    variant_means: Tensor | None
    variant_weight: Tensor | None
    variant_bias: Tensor | None

    def __init__(
        self,
        config: FitConfig,
        *,
        backbone: Backbone,
        embedding: NDArray[np.float32],
        factors: Factors,
        explains: bool = False,  # one more output: what kinds and reasons are told by
    ):
        super().__init__()
        self.preprocess = Preprocess(
            mean=backbone.spec.mean, std=backbone.spec.std, width=config.size_hw[1]
        )
        self.backbone = backbone
        self.embedding = GridEmbedding(
            as_tensor(embedding),
            taps=backbone.taps,
            stride=config.stride,
            interpolation=config.interpolation,
            context=config.context,
            columns=layer_columns(config),
        )
        head = GaussianHead(config, factors)  # the same values in numpy
        self.windows, self.rule, self.top = head.windows, head.rule, head.top
        self.outputs = (*head.outputs, *(APART,) * explains)  # of `forward`
        rows, columns = head.rule.operators
        shown, variants = factors.shown, head.variants
        for name, values in (
            ("mean", head.mean),  # (P, k)
            ("factor", factors.factor),  # (B or 1, k, r)
            ("rows", rows),  # (H, h)
            ("columns", columns),  # (w, W)
            ("kept", head.kept),  # (h, w), or None: all cells count
            ("gain", head.gain),  # (H, W)
            # Of a map of its own, or None.
            ("counted", None if shown is None else head.counted),  # (h, w)
            ("map_weight", None if shown is None else shown.weight[:, None]),  # (B or 1, 1, r)
            ("map_factor", None if shown is None else shown.factor),  # (B or 1, k_m, r_m)
            # Of variants, or None.
            ("variant_means", None if variants is None else variants.means),  # (V, P, k)
            ("variant_weight", None if variants is None else variants.weight),  # (P k, V)
            ("variant_bias", None if variants is None else variants.bias),  # (V,)
        ):
            self.register_buffer(name, None if values is None else as_tensor(values))
        self.eval().requires_grad_(False)

    def embed(self, frames: Tensor) -> Tensor:
        """Embed uint8 (N, H, W, 3) as (N, k, h, w): all that fitting needs."""
        grid: Tensor = self.embedding(self.backbone(self.preprocess(frames)))
        return grid

    @torch.no_grad()
    def embeddings(self, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Embed inputs (N, H, W, 3) as (N, k, P), from numpy to numpy."""
        rows: NDArray[np.float32] = self.embed(torch.from_numpy(frames)).flatten(2).numpy()
        return rows

    def centre(self, x: Tensor) -> tuple[Tensor, ...]:
        """Subtract the mean from embedded cells (N, P, k): that of the variant that they show.

        Its number (N,) comes second; a model of one product has none.
        """
        apart = x - self.mean
        if self.variant_means is None or self.variant_weight is None or self.variant_bias is None:
            return (apart,)
        form = torch.matmul(apart.flatten(1), self.variant_weight) + self.variant_bias  # (N, V)
        variant = form.argmin(dim=1)
        return x - self.variant_means.index_select(0, variant), variant

    def distances(self, embedded: Tensor) -> tuple[Tensor, ...]:
        """Map an embedding (N, k, h, w) to distances (N, h, w): the score's, and the map's.

        Where there are variants, their numbers (N,) come last.
        """
        return self._measure(*self._centre_cells(embedded))

    def _centre_cells(self, embedded: Tensor) -> tuple[Tensor, ...]:
        n, k = embedded.shape[:2]
        # Channels go last first: the permutation by block then moves whole rows, five times faster.
        return self.centre(embedded.reshape(n, k, self.windows.cells).transpose(1, 2))

    def _measure(self, x: Tensor, *variant: Tensor) -> tuple[Tensor, ...]:
        n = x.shape[0]  # not len, which a trace would fix
        # One row per frame and cell of a block, so that each factor is read once for all of them.
        rows = _by_block(self.windows, x)  # (B, N share^2, k)
        y = torch.matmul(rows, self.factor)  # (B, N share^2, r)
        squares = y * y
        if self.map_factor is None or self.map_weight is None:
            (grid,) = _lengths(self.windows, squares, images=n)
            return (grid, grid, *variant)
        own = torch.matmul(rows[:, :, : self.map_factor.shape[1]], self.map_factor)
        grid, near, places = _lengths(
            self.windows, squares, squares * self.map_weight, own * own, images=n
        )
        return (grid, near * self._sharpen(places), *variant)

    def _sharpen(self, own: Tensor) -> Tensor:
        """Return the factor of the map: where in a frame the map's own distances are large."""
        # One axis, once: OpenVINO makes one sum of two, and on ARM splits it and may lose an axis.
        mean = (own * self.counted).flatten(1).sum(dim=1).reshape(own.shape[0], 1, 1)
        return ((own + LEAST_DISTANCE) / (mean + LEAST_DISTANCE)) ** SHARPNESS

    def mask_ignored(self, cells: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Set distances (N, h, w) of ignored cells to 0."""
        if self.kept is None:
            return cells
        return (cells[0] * self.kept, cells[1] * self.kept, *cells[2:])

    def to_image(self, cells: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Map distances (N, h, w) of cells that count to the map (N, H, W) and the score (N,)."""
        grid, shown, *_ = cells
        image_map = torch.matmul(torch.matmul(self.rows, shown), self.columns)
        if self.gain is not None:
            image_map = image_map * self.gain
        if self.rule.top == 1:
            return image_map, image_map.flatten(1).amax(dim=1)
        highest = grid.flatten(1).topk(min(self.top, grid[0].numel()), dim=1).values
        return image_map, highest.mean(dim=1)

    def forward(self, frames: Tensor) -> tuple[Tensor, ...]:
        """Map uint8 (N, H, W, 3) to map (N, H, W), score (N,), grid (N, h, w) and others.

        They are named by `outputs`.
        """
        apart, *variant = self._centre_cells(self.embed(frames))
        cells = self.mask_ignored(self._measure(apart, *variant))
        values = (*self.to_image(cells), *cells)
        given = dict(zip(("map", "score", "grid", "map_grid", "variant"), values, strict=False))
        given[APART] = apart
        return tuple(given[name] for name in self.outputs)


def as_tensor(values: NDArray[Any]) -> Tensor:
    """Return a tensor on the memory of an array, copied where torch may not write to it."""
    return torch.from_numpy(values if values.flags.writeable else values.copy())


def _by_block(windows: Windows, rows_npk: Tensor) -> Tensor:
    """Arrange rows (N, P, k) of cells as (B, N share^2, k): Windows.by_block, to be traced."""
    n, _, k = rows_npk.shape
    s = windows.share
    if s == 1:
        return rows_npk.transpose(0, 1)  # (P, N, k)
    height, width = windows.blocks_hw
    rows = rows_npk.reshape(n, height, s, width, s, k).permute(1, 3, 0, 2, 4, 5)
    return rows.reshape(height * width, n * s * s, k)


def _lengths(windows: Windows, *squares: Tensor, images: int) -> tuple[Tensor, ...]:
    """Sum squares (B, N share^2, r) to distances on the grid (N, h, w): Windows.to_grid."""
    # All in one permutation: an operator on so few numbers takes longer than the numbers.
    values = torch.cat([part.sum(dim=2) for part in squares]).sqrt()  # (M B, N share^2)
    m, n, s = len(squares), images, windows.share
    values = values.reshape(m, *windows.blocks_hw, n, s, s).permute(0, 3, 1, 4, 2, 5)
    if m == 1:
        return (values.reshape(n, *windows.grid_hw),)
    grids = values.reshape(m, n, *windows.grid_hw)
    return tuple(grids[number] for number in range(m))
