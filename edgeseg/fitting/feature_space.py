"""Settings with the backbone and W that they mean: frames to embeddings, moments to a model."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from edgeseg.artefact.artefact import Artefact, build_model
from edgeseg.config import FitConfig
from edgeseg.data.samples import frames_at_once
from edgeseg.errors import UsageError
from edgeseg.fitting.memory import check_memory, machine_bytes, with_moments
from edgeseg.fitting.parallel.group import ALONE, Group
from edgeseg.model.embedding import embedding_matrix
from edgeseg.model.factors import Factors, expected_d2, make_factors
from edgeseg.model.feature_extractor import Backbone
from edgeseg.model.moments import Moments
from edgeseg.model.reference import Model
from edgeseg.model.weights import WeightsOrigin, load_backbone
from edgeseg.model.windows import Blocks

CPU = torch.device("cpu")


class Network:
    """All that a fit, an update and a merge of the same settings have in common."""

    def __init__(
        self, config: FitConfig, *, backbone: Backbone, origin: WeightsOrigin, embedding: Tensor
    ):
        self.config, self.backbone, self.origin = config, backbone, origin
        self.embedding = embedding  # W (F, k) float32
        self.blocks = Blocks(grid_hw=config.grid_hw, share=config.share, pool=config.pool)
        self._of_windows = config.moments == "blocks"
        self._tiling = config.tiling

    @classmethod
    def load(
        cls, config: FitConfig, *, weights: str | None, note: Callable[[str], None]
    ) -> "Network":
        """Find the weights and make W."""
        backbone, origin = load_backbone(
            config.backbone, layers=config.layers, weights=weights, seed=config.seed
        )
        largest_stride = max(tap.stride for tap in backbone.taps)
        _check_size(config, largest_stride=largest_stride)
        config = with_moments(config)
        check_memory(config, have=machine_bytes(), largest_stride=largest_stride)
        features = sum(backbone.channels)
        embedding = embedding_matrix(
            config.embedding, features=features, k=config.k, seed=config.seed
        ).to(torch.float32)
        k = embedding.shape[1]
        if config.k > features and config.embedding != "identity":
            note(f"k={config.k} is cut to {features}, all features of {config.backbone}")
        if config.rank > k:
            note(f"rank={config.rank:g} is cut to k={k}: all directions are kept")
        return cls(config, backbone=backbone, origin=origin, embedding=embedding)

    @classmethod
    def of(cls, artefact: Artefact) -> "Network":
        """That of a fitted model."""
        return cls(
            artefact.config,
            backbone=artefact.backbone,
            origin=artefact.origin,
            embedding=artefact.embedding,
        )

    @property
    def embedding_shape(self) -> tuple[int, int]:
        """k and P: features and locations of one embedded image."""
        height, width = self.config.grid_hw
        return int(self.embedding.shape[1]), height * width

    @property
    def tiles(self) -> int:
        """Inputs of the model that one image makes."""
        return 1 if self._tiling is None else len(self._tiling.corners_yx())

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Of one embedded image: (k, P), or (T, k, P) where it is cut into tiles."""
        return self.embedding_shape if self._tiling is None else (self.tiles, *self.embedding_shape)

    def inputs(self, rows: Tensor) -> Tensor:
        """Embedded images (N, *row_shape) as embedded inputs of the model (N or N T, k, h, w)."""
        return rows.view(-1, self.embedding_shape[0], *self.config.grid_hw)

    def new_moments(self, device: torch.device = CPU) -> Moments:
        """Of no images; the one place where moments are made."""
        k, locations = self.embedding_shape
        count = self.blocks.count if self._of_windows else locations
        return Moments.zero(count, k, device=device)

    def add_(self, moments: Moments, rows: Tensor) -> None:
        """Add embedded images (N, *row_shape) in place; the one place where moments grow."""
        inputs = self.inputs(rows)
        if self._of_windows:
            self.blocks.update_(moments, inputs, images=len(rows))
        else:
            moments.update_(inputs.flatten(2), images=len(rows))

    def pool(self, moments: Moments) -> Moments:
        """Moments of the blocks of cells that share a Gaussian, with the cells around them."""
        if not self._of_windows:
            return moments.pooled(self.config.grid_hw, self.config.pool, share=self.config.share)
        # They are pooled; only a sum over windows has to know how many cells each has.
        return self.blocks.in_cells(moments) if self.config.covariance == "global" else moments

    def factors(self, pooled: Moments, group: Group = ALONE) -> Factors:
        """What a frame is compared with; every process inverts its share of the covariances."""
        config = self.config
        if config.covariance == "global":
            pooled = pooled.shared_covariance()
        if pooled.scatter.shape[0] < group.size:
            group = ALONE
        mine = group.span(pooled.scatter.shape[0])
        part = make_factors(
            pooled if group.size == 1 else pooled.at(mine),
            ridge=config.ridge,
            rank=config.rank,
            directions=config.directions,
        )
        if group.size == 1:
            return part
        factor = torch.zeros(pooled.scatter.shape[0], *part.factor.shape[1:])
        factor[mine] = part.factor
        return Factors(mean=pooled.mean.to(torch.float32), factor=group.sum_(factor))

    def expected_d2(self, factors: Factors, moments: Moments, group: Group = ALONE) -> float:
        """E[d^2] over all locations on the images behind these (not pooled) moments.

        Of windows it is that of their own Gaussians on all of their cells: see mean_d2.
        """
        mine = group.span(moments.count.shape[0])
        block = torch.arange(moments.count.shape[0]) if self._of_windows else self._blocks()
        block = block[mine]
        total = expected_d2(factors, moments.at(mine), block=block).sum()
        return float(group.sum_(total)) / moments.count.shape[0]

    def mean_d2(self, model: Model, inputs_nkhw: Tensor) -> float:
        """The same as expected_d2, from embedded inputs themselves."""
        if not self._of_windows:
            return float(model.distances(inputs_nkhw).square().mean())
        (height, width), share = self.config.grid_hw, self.config.share
        mean = model.mean.view(height, width, -1)[::share, ::share].flatten(0, 1)  # (B, k)
        factors = Factors(mean=mean, factor=model.factor)
        return float(self.blocks.mean_d2(factors, inputs_nkhw).mean())

    def of_frames(self, image_map: Tensor, score: Tensor) -> tuple[Tensor, Tensor]:
        """Score and highest value of the map (N,) of images, whose tiles go in: (N T, H, W).

        A frame is judged by its worst tile, so its threshold is one of frames, not of tiles.
        """
        if self._tiling is None:
            return score, image_map.flatten(1).amax(dim=1)
        frames = zip(*(torch.split(one, self.tiles) for one in (image_map, score)), strict=True)
        blended = [self._tiling.blend(list(maps.numpy()), of.tolist()) for maps, of in frames]
        return (
            torch.tensor([worst for _, worst in blended]),
            torch.tensor([float(map_hw.max()) for map_hw, _ in blended]),
        )

    def _blocks(self) -> Tensor:
        """Which Gaussian each location (P,) uses."""
        (height, width), share = self.config.grid_hw, self.config.share
        row = torch.arange(height)[:, None] // share
        return (row * (width // share) + torch.arange(width)[None] // share).flatten()

    def model(self, factors: Factors) -> Model:
        """The reference forward."""
        return build_model(
            self.config, backbone=self.backbone, embedding=self.embedding, factors=factors
        )

    def embedder(self, device: torch.device = CPU) -> Callable[[Tensor], Tensor]:
        """A function from images (N, H, W, 3) to embeddings (N, *row_shape) on the device."""
        blocks, k = int(self._blocks()[-1]) + 1, self.embedding.shape[1]
        blank = Factors(mean=torch.zeros(blocks, k), factor=torch.zeros(1, k, 1))
        model = self.model(blank).to(device)

        most = frames_at_once(self.config.size_hw, most=8)

        def embed(frames: Tensor) -> Tensor:
            # Convolutions of a single image take another path, 1e-6 apart. As a pair with itself
            # its embedding does not depend on the batch it came in, so sums can be taken apart.
            # Images so large that each goes alone take that path always.
            pair = frames.repeat(2, 1, 1, 1) if len(frames) == 1 < most else frames
            return model.embed(pair.to(device)).flatten(2)[: len(frames)]

        tiling = self._tiling
        if tiling is None:
            return embed

        def embed_tiles(frames: Tensor) -> Tensor:
            tiles = torch.from_numpy(np.stack([tiling.cut(frame) for frame in frames.numpy()]))
            parts = [embed(part) for part in torch.split(tiles.flatten(0, 1), most)]
            return torch.cat(parts).view(len(frames), *self.row_shape)

        return embed_tiles


def _check_size(config: FitConfig, *, largest_stride: int) -> None:
    step = math.lcm(largest_stride, config.stride * config.share)
    height, width = config.size_hw
    if height % step or width % step:
        nearest = "x".join(str(max(step, round(side / step) * step)) for side in config.size_hw)
        raise UsageError(
            f"size {height}x{width}: both sides must be multiples of {step} for "
            f"{config.backbone} with stride {config.stride} and share {config.share}; try {nearest}"
        )
