"""The embedding of F channels in k: the random matrix W, and its place in front of the grid."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.config import FitConfig
from edgeseg.model.backbones import Tap, embedded_features, features_of
from edgeseg.model.map_layers import embedded_width, map_width, rows_of_map


def embedding_matrix(kind: str, *, features: int, k: int, seed: int) -> Tensor:
    """Return W (F, min(k, F)) in float64, the same for every location; one generator, one seed."""
    return _matrix(kind, features, min(k, features), torch.Generator().manual_seed(seed))


def fit_embedding(config: FitConfig) -> Tensor:
    """Return W (F, k) of a fit; the first `map_width` columns see the layers of the map alone.

    Both blocks are semi-orthogonal, so W is, and moments of the map's features are a block of all
    moments: a map of its own costs no second embedding and no second pass.
    """
    features, k, width = embedded_features(config), embedded_width(config), map_width(config)
    if not width:
        return embedding_matrix(config.embedding, features=features, k=k, seed=config.seed)
    shown = rows_of_map(config)
    others = sorted(set(range(features)) - set(shown))
    generator = torch.Generator().manual_seed(config.seed)
    weight = torch.zeros(features, k, dtype=torch.float64)
    weight[shown, :width] = _matrix(config.embedding, len(shown), width, generator)
    weight[others, width:] = _matrix(config.embedding, len(others), k - width, generator)
    return weight


def _matrix(kind: str, features: int, k: int, generator: torch.Generator) -> Tensor:
    if kind == "identity":
        return torch.eye(features, dtype=torch.float64)
    if kind == "sampled":  # PaDiM: k columns of the identity
        chosen = torch.randperm(features, generator=generator)[:k]
        return torch.eye(features, dtype=torch.float64)[:, chosen]
    omega = torch.randn(features, k, generator=generator, dtype=torch.float64)
    if kind == "gaussian":
        return omega
    if kind == "semi_orthogonal":
        q: Tensor
        q, r = torch.linalg.qr(omega)
        # Equation 7: without the signs of R's diagonal the columns are not uniformly
        # distributed, because QR implementations choose the sign themselves (Mezzadri).
        return q * torch.sign(torch.diagonal(r))
    raise UsageError(f"embedding {kind!r} is unknown")


class GridEmbedding(nn.Module):
    """W'x on the grid: each layer is projected at its own resolution, then the parts are added.

    W acts on channels, pooling and interpolation act on space, so they commute exactly. Each
    layer does them in the cheaper order: pool before projecting, interpolate after. With a context
    x is [x, mean of x around it], taken at the layer's own resolution.

    Where W has blocks, a layer is projected to the columns that see it, and what other layers give
    is put beside it: the rest of W is zero.
    """

    def __init__(
        self,
        weight: Tensor,
        *,
        taps: tuple[Tap, ...],
        stride: int,
        interpolation: str,
        context: int = 1,
        columns: Sequence[tuple[int, int]] | None = None,  # that see each layer; None: all of W
    ):
        super().__init__()
        self.taps = taps
        self.columns = tuple(columns or [(0, weight.shape[1])] * len(taps))
        self.stride = stride
        self.interpolation = interpolation
        self.context = context
        for tap in taps:
            larger, smaller = max(tap.stride, stride), min(tap.stride, stride)
            if larger % smaller:
                raise UsageError(
                    Setting("stride", stride),
                    f": must divide or be divided by {tap.stride}, the stride of "
                    f"{tap.module}; try 4, 8 or 16",
                )
        # W (F, k) cut by layer, each part as the kernel (k, C, 1, 1) of a 1x1 convolution.
        rows = [features_of(tap.channels, context=context) for tap in taps]
        if not rows:
            raise UsageError("no layers were chosen; expected at least one")
        parts = torch.split(weight.to(torch.float32), rows)
        for number, (part, (first, last)) in enumerate(zip(parts, self.columns, strict=True)):
            kernel = part[:, first:last].t()[:, :, None, None].contiguous()
            self.register_buffer(f"kernel_{number}", kernel)

    def forward(self, maps: list[Tensor]) -> Tensor:
        """Embed feature maps (N, C, H / s, W / s) of every tap as (N, k, h, w)."""
        blocks: dict[tuple[int, int], Tensor] = {}
        layers = zip(self.taps, maps, self.columns, strict=True)
        for number, (tap, feature_map, columns) in enumerate(layers):
            kernel = self.get_buffer(f"kernel_{number}")
            part = self._to_grid(self._in_context(feature_map), kernel, tap.stride)
            blocks[columns] = blocks[columns] + part if columns in blocks else part
        return torch.cat([blocks[columns] for columns in sorted(blocks)], dim=1)

    def _in_context(self, feature_map: Tensor) -> Tensor:
        if self.context == 1:
            return feature_map
        # At the border the mean is of the cells that exist.
        mean = functional.avg_pool2d(
            feature_map,
            self.context,
            stride=1,
            padding=self.context // 2,
            count_include_pad=False,
        )
        return torch.cat([feature_map, mean], dim=1)

    def _to_grid(self, feature_map: Tensor, kernel: Tensor, tap_stride: int) -> Tensor:
        if tap_stride < self.stride:
            feature_map = functional.avg_pool2d(feature_map, self.stride // tap_stride)
        part = functional.conv2d(feature_map, kernel)
        if tap_stride > self.stride:
            scale = float(tap_stride // self.stride)
            if self.interpolation == "nearest":
                part = functional.interpolate(part, scale_factor=scale, mode="nearest")
            else:
                part = functional.interpolate(
                    part, scale_factor=scale, mode="bilinear", align_corners=False
                )
        return part
