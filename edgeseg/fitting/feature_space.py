"""The feature space of a fit: settings, and what embeds frames (a backbone and W, or a graph)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.memory_limit import address_space_left
from edgeseg.base.progress import Note
from edgeseg.config import FitConfig
from edgeseg.data.samples import frames_at_once
from edgeseg.fitting.memory import check_limit, check_memory, machine_bytes, size_step, with_moments
from edgeseg.model.artefact import Artefact
from edgeseg.model.backbone_weights import BackboneWeights
from edgeseg.model.backbones import backbone_spec, embedded_features
from edgeseg.model.factors import Factors
from edgeseg.model.gaussian_head import GaussianHead
from edgeseg.model.known_directions import KnownDirections
from edgeseg.model.map_layers import with_backbone_choices
from edgeseg.model.predictor import Embedder
from edgeseg.model.weights_origin import WeightsOrigin
from edgeseg.model.windows import Windows


@dataclass(frozen=True, kw_only=True)
class FeatureSpace:
    """What a fit, an update and a merge with the same settings have in common."""

    config: FitConfig
    weights: BackboneWeights
    origin: WeightsOrigin
    embedding: NDArray[np.float32]  # W (F, k)
    # Another way to embeddings than this backbone: a graph whose rounding is to become part of
    # the moments, or the only way there is, where torch is not installed.
    through: Embedder | None = None
    known: KnownDirections | None = None  # of defects; a part of every distance

    @classmethod
    def load(cls, config: FitConfig, *, weights: str | None, note: Note) -> "FeatureSpace":
        """Find the weights and make W."""
        from edgeseg.model.embedding import fit_embedding  # these load torch
        from edgeseg.model.weights import load_backbone

        config = with_backbone_choices(config)
        backbone, origin = load_backbone(
            config.backbone, layers=config.layers, weights=weights, seed=config.seed
        )
        config = check_settings(config)
        features = embedded_features(config)
        embedding = fit_embedding(config)
        k = embedding.shape[1]
        if config.k > features and config.embedding != "identity":
            note(f"k={config.k} is cut to {features}, all features of {config.backbone}")
        if config.rank > k:
            note(f"rank={config.rank:g} is cut to k={k}: all directions are kept")
        return cls(
            config=config,
            weights=BackboneWeights.of(config, origin, backbone),
            origin=origin,
            embedding=embedding.float().numpy(),
        )

    @classmethod
    def of(cls, artefact: Artefact, *, through: Embedder | None = None) -> "FeatureSpace":
        """Return the space of a fitted model."""
        return cls(
            config=artefact.config,
            weights=artefact.weights,
            origin=artefact.origin,
            embedding=artefact.embedding,
            through=through,
            known=None if artefact.known is None else artefact.known.learned,
        )

    @property
    def windows(self) -> Windows:
        """The cells that each Gaussian covers."""
        return Windows.of(self.config)

    @property
    def k(self) -> int:
        """The number of features of an embedded cell."""
        return int(self.embedding.shape[1])

    @property
    def tiles(self) -> int:
        """T: the number of inputs of the model that one image makes."""
        tiling = self.config.tiling
        return 1 if tiling is None else len(tiling.corners_yx())

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of one embedded image: (k, P), or (T, k, P) where it is cut into tiles."""
        shape = self.k, self.windows.cells
        return shape if self.config.tiling is None else (self.tiles, *shape)

    def inputs(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Reshape embedded images (N, *row_shape) to embedded inputs (N or N T, k, h, w)."""
        return rows.reshape(-1, self.k, *self.config.grid_hw)

    def head(self, factors: Factors) -> GaussianHead:
        """Return the head that judges embedded inputs."""
        return GaussianHead(self.config, factors)

    def embedder(self, device: str = "cpu") -> Embedder:
        """Return a function from images (N, H, W, 3) to embeddings (N, *row_shape)."""
        embed, most = self.input_embedder(device), self._at_once
        tiling = self.config.tiling
        if tiling is None:
            return embed

        def embed_tiles(frames: NDArray[np.uint8]) -> NDArray[np.float32]:
            tiles = np.concatenate([np.stack(tiling.cut(frame)) for frame in frames])
            parts = [embed(tiles[first : first + most]) for first in range(0, len(tiles), most)]
            return np.concatenate(parts).reshape(len(frames), *self.row_shape)

        return embed_tiles

    def input_embedder(self, device: str = "cpu") -> Embedder:
        """Return a function from inputs of the model (N, H, W, 3) to embeddings (N, k, P)."""
        return self.through or self._by_backbone(device)

    def to_cpu(self) -> None:
        """Move the backbone back from the device that it embedded on."""
        if self.through is None:
            self.weights.backbone.to("cpu")

    @property
    def _at_once(self) -> int:
        return frames_at_once(self.config.size_hw, most=8)

    def _by_backbone(self, device: str) -> Embedder:
        import torch

        from edgeseg.fitting.parallel.torchrun import choose_device
        from edgeseg.model.reference import ReferenceModel

        device = choose_device() if device == "auto" else device
        blank = Factors(
            mean=np.zeros((self.windows.count, self.k), np.float32),
            factor=np.zeros((1, self.k, 1), np.float32),
        )
        model = ReferenceModel(
            self.config, backbone=self.weights.backbone, embedding=self.embedding, factors=blank
        ).to(device)
        most = self._at_once

        @torch.no_grad()
        def embed(frames: NDArray[np.uint8]) -> NDArray[np.float32]:
            # Convolutions of a single image take another path, 1e-6 apart. As a pair with itself
            # its embedding does not depend on the batch it came in, so sums can be taken apart.
            # Images so large that each goes alone take that path always.
            inputs = torch.from_numpy(frames)
            pair = inputs.repeat(2, 1, 1, 1) if len(inputs) == 1 < most else inputs
            rows: NDArray[np.float32] = model.embed(pair.to(device)).flatten(2).cpu().numpy()
            return rows[: len(frames)]

        return embed


def largest_stride(config: FitConfig) -> int:
    """Return the largest stride of the layers in use."""
    return max(tap.stride for tap in backbone_spec(config.backbone).chosen_taps(config.layers))


def check_settings(config: FitConfig) -> FitConfig:
    """Check that settings fit each other and memory, and return them with their kind of moments."""
    stride = largest_stride(config)
    check_size(config, largest_stride=stride)
    config = with_moments(config)
    check_memory(config, have=machine_bytes(), largest_stride=stride)
    check_limit(config, left=address_space_left(), largest_stride=stride)
    return config


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
