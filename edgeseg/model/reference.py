"""The one reference forward, which export traces.

frames (N, H, W, 3) -> normalised pixels -> backbone -> one feature map per tap
feature maps -> W'x on the grid: embedding (N, k, h, w)
embedding - mean, times the factor of its block -> distances (N, h, w)
distances -> interpolated and blurred: map (N, H, W); highest ones: score (N,)
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgeseg.config import FitConfig
from edgeseg.contract.ignored import MapRule, hidden_of
from edgeseg.contract.upsampling import upsampling_operator
from edgeseg.errors import UsageError
from edgeseg.model.embedding import GridEmbedding
from edgeseg.model.factors import Factors
from edgeseg.model.feature_extractor import Backbone
from edgeseg.model.windows import Windows

Insides = Sequence[NDArray[np.bool_] | None]


class Preprocess(nn.Module):
    """RGB uint8 (N, H, W, 3) to the normalised float (N, 3, H, W) the weights were trained on."""

    offset: Tensor
    scale: Tensor | None  # None: it has moved into the first convolution

    def __init__(self, *, mean: tuple[float, ...], std: tuple[float, ...]):
        super().__init__()
        self.register_buffer("offset", torch.tensor(mean).view(1, -1, 1, 1) * 255.0)
        self.register_buffer("scale", 1.0 / (torch.tensor(std).view(1, -1, 1, 1) * 255.0))

    def forward(self, frames: Tensor) -> Tensor:
        """Subtract in the scale of the pixels, so that the factor can move into a convolution."""
        # The cast comes first: TensorRT does not transpose uint8.
        x = frames.to(torch.float32).permute(0, 3, 1, 2) - self.offset
        return x if self.scale is None else x * self.scale


class ReferenceModel(nn.Module):
    """Backbone, embedding, distance at every location, and the way back to image size."""

    mean: Tensor
    factor: Tensor
    rows: Tensor
    columns: Tensor
    kept: Tensor | None
    gain: Tensor | None

    def __init__(
        self, config: FitConfig, *, backbone: Backbone, embedding: Tensor, factors: Factors
    ):
        super().__init__()
        self.preprocess = Preprocess(mean=backbone.spec.mean, std=backbone.spec.std)
        self.backbone = backbone
        self.embedding = GridEmbedding(
            embedding,
            taps=backbone.taps,
            stride=config.stride,
            interpolation=config.interpolation,
            context=config.context,
        )
        self.windows = Windows.of(config)
        self.top = config.top
        self.register_buffer("mean", self.windows.per_cell(factors.mean))  # (P, k)
        self.register_buffer("factor", factors.factor)  # (B or 1, k, r)
        rows, columns = (
            torch.from_numpy(upsampling_operator(size, cells, sigma=config.sigma))
            for size, cells in zip(config.size_hw, config.grid_hw, strict=True)
        )
        self.register_buffer("rows", rows.to(torch.float32))  # (H, h)
        self.register_buffer("columns", columns.t().contiguous().to(torch.float32))  # (w, W)
        self.rule = MapRule(
            size_hw=config.size_hw, grid_hw=config.grid_hw, sigma=config.sigma, top=config.top
        )
        kept, gain = _counted(config, self.rule)
        self.register_buffer("kept", kept)  # (h, w), or None: all cells count
        self.register_buffer("gain", gain)  # (H, W)
        if kept is not None:
            self.top = min(self.top, int(kept.sum()))
        self.eval().requires_grad_(False)

    def embed(self, frames: Tensor) -> Tensor:
        """uint8 (N, H, W, 3) to the embedding (N, k, h, w): all that fitting needs."""
        grid: Tensor = self.embedding(self.backbone(self.preprocess(frames)))
        return grid

    def distances(self, embedded: Tensor) -> Tensor:
        """Embedding (N, k, h, w) to the Mahalanobis distance (N, h, w) of every location."""
        n, k = embedded.shape[:2]
        # One row per frame and cell of a block, so that each factor is read once for all of them.
        # Channels go last first: the second permutation then moves whole rows, five times faster.
        x = embedded.reshape(n, k, self.windows.cells).transpose(1, 2) - self.mean  # (N, P, k)
        y = torch.matmul(self.windows.by_block(x), self.factor)  # (B, N share^2, r)
        return self.windows.to_grid((y * y).sum(dim=2).sqrt(), images=n)

    def counted(self, grid: Tensor) -> Tensor:
        """Distances (N, h, w) with those of ignored cells set to 0."""
        return grid if self.kept is None else grid * self.kept

    def to_image(self, grid: Tensor, insides: Insides = ()) -> tuple[Tensor, Tensor]:
        """Distances (N, h, w) of cells that count to the map (N, H, W) and the score (N,).

        `insides` says of frames which cells (h, w) their camera saw; None or nothing: all of them.
        """
        image_map, score = self._to_image(grid)
        for index, inside_hw in enumerate(insides):
            if inside_hw is None:
                continue
            counted_hw = inside_hw if self.kept is None else inside_hw & (self.kept.numpy() != 0)
            map_hw, score[index] = self.rule.judged(grid[index].numpy(), counted_hw)
            image_map[index] = torch.from_numpy(map_hw)
        return image_map, score

    def _to_image(self, grid: Tensor) -> tuple[Tensor, Tensor]:
        image_map = torch.matmul(torch.matmul(self.rows, grid), self.columns)
        if self.gain is not None:
            image_map = image_map * self.gain
        if self.top == 1:
            return image_map, image_map.flatten(1).amax(dim=1)
        highest = grid.flatten(1).topk(min(self.top, grid[0].numel()), dim=1).values
        return image_map, highest.mean(dim=1)

    def forward(self, frames: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """uint8 (N, H, W, 3) to map (N, H, W), score (N,) and grid (N, h, w)."""
        grid = self.counted(self.distances(self.embed(frames)))
        image_map, score = self.to_image(grid)
        return image_map, score, grid


def _counted(config: FitConfig, rule: MapRule) -> tuple[Tensor | None, Tensor | None]:
    """Which cells count, and what that does to the map; None where all do."""
    hidden = hidden_of(config.geometry, config.image_hw)
    if hidden is None:
        return None, None
    kept = hidden.kept(config.grid_hw)
    if not kept.any():
        raise UsageError("ignore: every cell is ignored, so there is nothing left to look at")
    return torch.from_numpy(kept.astype(np.float32)), torch.from_numpy(rule.gain(kept))
