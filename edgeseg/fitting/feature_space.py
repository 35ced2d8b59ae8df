"""Settings with the backbone and W that they mean: frames to embeddings, factors to a model."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from edgeseg.artefact.artefact import Artefact
from edgeseg.config import AUTO, FitConfig
from edgeseg.data.samples import frames_at_once
from edgeseg.errors import UsageError
from edgeseg.fitting.memory import (
    check_limit,
    check_memory,
    machine_bytes,
    size_step,
    with_moments,
)
from edgeseg.memory_limit import address_space_left
from edgeseg.model.backbones import backbone_spec
from edgeseg.model.embedding import embedding_matrix, features_of
from edgeseg.model.factors import Factors
from edgeseg.model.feature_extractor import Backbone
from edgeseg.model.reference import ReferenceModel
from edgeseg.model.weights import WeightsOrigin, load_backbone
from edgeseg.model.windows import Windows
from edgeseg.progress import Note

CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class FeatureSpace:
    """All that a fit, an update and a merge of the same settings have in common."""

    config: FitConfig
    backbone: Backbone
    origin: WeightsOrigin
    embedding: Tensor  # W (F, k) float32
    # Inputs (N, H, W, 3) to their embeddings (N, k, P) by another way than this backbone: an
    # exported graph whose rounding is to become part of the moments.
    through: Callable[[Tensor], Tensor] | None = None

    @classmethod
    def load(cls, config: FitConfig, *, weights: str | None, note: Note) -> "FeatureSpace":
        """Find the weights and make W."""
        if config.context == AUTO:
            config = replace(config, context=backbone_spec(config.backbone).context)
        backbone, origin = load_backbone(
            config.backbone, layers=config.layers, weights=weights, seed=config.seed
        )
        largest_stride = max(tap.stride for tap in backbone.taps)
        check_size(config, largest_stride=largest_stride)
        config = with_moments(config)
        check_memory(config, have=machine_bytes(), largest_stride=largest_stride)
        check_limit(config, left=address_space_left(), largest_stride=largest_stride)
        features = features_of(sum(backbone.channels), context=config.context)
        embedding = embedding_matrix(
            config.embedding, features=features, k=config.k, seed=config.seed
        ).to(torch.float32)
        k = embedding.shape[1]
        if config.k > features and config.embedding != "identity":
            note(f"k={config.k} is cut to {features}, all features of {config.backbone}")
        if config.rank > k:
            note(f"rank={config.rank:g} is cut to k={k}: all directions are kept")
        return cls(config=config, backbone=backbone, origin=origin, embedding=embedding)

    @classmethod
    def of(cls, artefact: Artefact) -> "FeatureSpace":
        """That of a fitted model."""
        return cls(
            config=artefact.config,
            backbone=artefact.backbone,
            origin=artefact.origin,
            embedding=artefact.embedding,
        )

    @property
    def windows(self) -> Windows:
        """Which cells each Gaussian covers."""
        return Windows.of(self.config)

    @property
    def k(self) -> int:
        """Features of an embedded cell."""
        return int(self.embedding.shape[1])

    @property
    def tiles(self) -> int:
        """T: inputs of the model that one image makes."""
        tiling = self.config.tiling
        return 1 if tiling is None else len(tiling.corners_yx())

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Of one embedded image: (k, P), or (T, k, P) where it is cut into tiles."""
        shape = self.k, self.windows.cells
        return shape if self.config.tiling is None else (self.tiles, *shape)

    def inputs(self, rows: Tensor) -> Tensor:
        """Embedded images (N, *row_shape) as embedded inputs of the model (N or N T, k, h, w)."""
        return rows.view(-1, self.k, *self.config.grid_hw)

    def model(self, factors: Factors) -> ReferenceModel:
        """The reference forward."""
        return ReferenceModel(
            self.config, backbone=self.backbone, embedding=self.embedding, factors=factors
        )

    def embedder(self, device: torch.device = CPU) -> Callable[[Tensor], Tensor]:
        """A function from images (N, H, W, 3) to embeddings (N, *row_shape) on the device."""
        embed, most = self.through or self._by_backbone(device), self._at_once
        tiling = self.config.tiling
        if tiling is None:
            return embed

        def embed_tiles(frames: Tensor) -> Tensor:
            tiles = torch.from_numpy(np.stack([tiling.cut(frame) for frame in frames.numpy()]))
            parts = [embed(part) for part in torch.split(tiles.flatten(0, 1), most)]
            return torch.cat(parts).view(len(frames), *self.row_shape)

        return embed_tiles

    @property
    def _at_once(self) -> int:
        return frames_at_once(self.config.size_hw, most=8)

    def _by_backbone(self, device: torch.device) -> Callable[[Tensor], Tensor]:
        blank = Factors(
            mean=torch.zeros(self.windows.count, self.k), factor=torch.zeros(1, self.k, 1)
        )
        model, most = self.model(blank).to(device), self._at_once

        def embed(frames: Tensor) -> Tensor:
            # Convolutions of a single image take another path, 1e-6 apart. As a pair with itself
            # its embedding does not depend on the batch it came in, so sums can be taken apart.
            # Images so large that each goes alone take that path always.
            pair = frames.repeat(2, 1, 1, 1) if len(frames) == 1 < most else frames
            return model.embed(pair.to(device)).flatten(2)[: len(frames)]

        return embed


def check_size(config: FitConfig, *, largest_stride: int) -> None:
    """Refuse a size that blocks of cells do not cover exactly."""
    step = size_step(config, largest_stride=largest_stride)
    height, width = config.size_hw
    if height % step or width % step:
        nearest = "x".join(str(max(step, round(side / step) * step)) for side in config.size_hw)
        raise UsageError(
            f"size {height}x{width}: both sides must be multiples of {step} for "
            f"{config.backbone} with stride {config.stride} and share {config.share}; try {nearest}"
        )
