"""The one reference forward: uint8 frames in, anomaly map and score out. Export traces it."""

import torch
from torch import Tensor, nn

from edgeseg.model.embedding import GridEmbedding
from edgeseg.model.factors import Factors
from edgeseg.model.feature_extractor import Backbone


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


class Model(nn.Module):
    """Backbone, embedding, distance at every location, and the way back to image size."""

    mean: Tensor
    factor: Tensor
    rows: Tensor
    columns: Tensor

    def __init__(
        self,
        *,
        backbone: Backbone,
        embedding: GridEmbedding,
        factors: Factors,
        size_hw: tuple[int, int],
        sigma: float,
        top: int,
        share: int = 1,
    ):
        super().__init__()
        self.preprocess = Preprocess(mean=backbone.spec.mean, std=backbone.spec.std)
        self.backbone = backbone
        self.embedding = embedding
        self.grid_hw = (size_hw[0] // embedding.stride, size_hw[1] // embedding.stride)
        self.top = top
        self.share = share
        self.register_buffer("mean", _per_cell(factors.mean, self.grid_hw, share))  # (P, k)
        self.register_buffer("factor", factors.factor)  # (B or 1, k, r)
        rows = upsampling_operator(size_hw[0], self.grid_hw[0], sigma=sigma)
        columns = upsampling_operator(size_hw[1], self.grid_hw[1], sigma=sigma)
        self.register_buffer("rows", rows.to(torch.float32))  # (H, h)
        self.register_buffer("columns", columns.t().contiguous().to(torch.float32))  # (w, W)
        self.eval().requires_grad_(False)

    def embed(self, frames: Tensor) -> Tensor:
        """uint8 (N, H, W, 3) to the embedding (N, k, h, w): all that fitting needs."""
        grid: Tensor = self.embedding(self.backbone(self.preprocess(frames)))
        return grid

    def distances(self, embedded: Tensor) -> Tensor:
        """Embedding (N, k, h, w) to the Mahalanobis distance (N, h, w) of every location."""
        n, k = embedded.shape[:2]
        h, w = self.grid_hw
        s = self.share
        # One row per frame and cell of a block, so that each factor is read once for all of them.
        # Channels go last first: the second permutation then moves whole rows, five times faster.
        x = embedded.reshape(n, k, h * w).transpose(1, 2) - self.mean  # (N, P, k)
        if s == 1:
            x = x.transpose(0, 1)  # (P, N, k)
        else:
            x = x.reshape(n, h // s, s, w // s, s, k).permute(1, 3, 0, 2, 4, 5)
            x = x.reshape((h // s) * (w // s), n * s * s, k)  # (B, N s s, k)
        y = torch.matmul(x, self.factor)  # (B, N s s, r)
        d = (y * y).sum(dim=2).sqrt()
        if s == 1:
            return d.t().reshape(n, h, w)
        d = d.reshape(h // s, w // s, n, s, s).permute(2, 0, 3, 1, 4)
        return d.reshape(n, h, w)

    def to_image(self, grid: Tensor) -> tuple[Tensor, Tensor]:
        """Distances (N, h, w) to the map (N, H, W) and the score (N,)."""
        image_map = torch.matmul(torch.matmul(self.rows, grid), self.columns)
        if self.top == 1:
            return image_map, image_map.flatten(1).amax(dim=1)
        highest = grid.flatten(1).topk(min(self.top, grid[0].numel()), dim=1).values
        return image_map, highest.mean(dim=1)

    def forward(self, frames: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """uint8 (N, H, W, 3) to map (N, H, W), score (N,) and grid (N, h, w)."""
        grid = self.distances(self.embed(frames))
        image_map, score = self.to_image(grid)
        return image_map, score, grid


def _per_cell(values: Tensor, grid_hw: tuple[int, int], share: int) -> Tensor:
    """Values (B, k) of blocks, repeated for each of their cells (P, k)."""
    if share == 1:
        return values
    blocks = values.view(grid_hw[0] // share, grid_hw[1] // share, -1)
    cells = blocks.repeat_interleave(share, dim=0).repeat_interleave(share, dim=1)
    return cells.flatten(0, 1).contiguous()


def upsampling_operator(size: int, cells: int, *, sigma: float) -> Tensor:
    """U (size, cells) with map = U_rows d U_columns': bilinear interpolation, then Gaussian blur.

    Both are linear and separable, borders included, so they are one matrix per axis.
    """
    return _blur_matrix(size, sigma) @ _bilinear_matrix(size, cells)


def _bilinear_matrix(size: int, cells: int) -> Tensor:
    position = (torch.arange(size, dtype=torch.float64) + 0.5) * cells / size - 0.5
    position = position.clamp(0, cells - 1)
    below = position.floor().long().clamp(max=max(cells - 2, 0))
    share = position - below
    matrix = torch.zeros(size, cells, dtype=torch.float64)
    index = torch.arange(size)
    matrix[index, below] += 1 - share
    matrix[index, (below + 1).clamp(max=cells - 1)] += share
    return matrix


def _blur_matrix(size: int, sigma: float) -> Tensor:
    if sigma == 0:
        return torch.eye(size, dtype=torch.float64)
    radius = int(4 * sigma + 0.5)  # as SciPy's; the tail beyond is below 1e-4 of the mass
    offsets = torch.arange(-radius, radius + 1)
    kernel = torch.exp(-0.5 * (offsets.to(torch.float64) / sigma) ** 2)
    kernel /= kernel.sum()
    # Reflect about the edges of the image (d c b a | a b c d | d c b a), as often as needed.
    position = (torch.arange(size)[:, None] + offsets) % (2 * size)
    position = torch.where(position < size, position, 2 * size - 1 - position)
    return torch.zeros(size, size, dtype=torch.float64).scatter_add_(
        1, position, kernel.expand(size, -1).contiguous()
    )
