"""Units of work of the paper's experiments: one dataset, one backbone, one variant."""

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from edgeseg.bench.harness.accuracy import Accuracy, accuracy_of, fingerprint
from edgeseg.bench.harness.units import Result, Unit
from edgeseg.bench.paper.distances_over_k import Variant, distance_grids, eigenvalues
from edgeseg.bench.paper.features import FeatureBank, build_bank
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset, split_holdout
from edgeseg.errors import WeightsError
from edgeseg.model.reference import upsampling_operator
from edgeseg.model.weights import load_backbone
from edgeseg.progress import Progress, silent

PAPER = FitConfig.preset("paper")
EIGEN_THRESHOLD = 1e-4
SQUARE = (256, 256)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A dataset at the size the paper used for it."""

    name: str
    dataset: Dataset
    size_hw: tuple[int, int] = SQUARE

    def settings(self) -> Result:
        """What decides the features, beside the backbone."""
        return {
            "data": fingerprint(self.dataset),
            "size_hw": list(self.size_hw),
            "holdout": PAPER.holdout,
        }


class Banks:
    """Features of the dataset at hand; those of the one before are deleted, they are large."""

    def __init__(
        self, folder: Path, *, keep: bool = False, weights: str | None, progress: Progress = silent
    ) -> None:
        self._folder, self._keep = folder, keep
        self._weights, self._progress = weights, progress
        self._open: tuple[str, FeatureBank] | None = None

    def of(self, source: Source, backbone: str) -> FeatureBank:
        """The bank of a dataset, made if it is not there."""
        text = f"{source.name} {backbone} {source.size_hw} {fingerprint(source.dataset)}"
        key = f"{source.name}-{backbone}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        if self._open is not None and self._open[0] == key:
            return self._open[1]
        self.close()
        # The split is the one of `edgeseg fit --preset paper`; only W changes with a seed.
        train, _ = split_holdout(source.dataset.train, fraction=PAPER.holdout, seed=PAPER.seed)
        bank = build_bank(
            self._folder / key,
            source.dataset,
            train=train,
            backbone=backbone,
            size_hw=source.size_hw,
            weights=self._weights,
            progress=self._progress,
        )
        self._open = (key, bank)
        return bank

    def close(self) -> None:
        """Delete what is open."""
        if self._open is not None and not self._keep:
            shutil.rmtree(self._open[1].folder)
        self._open = None


def available(backbone: str, *, weights: str | None) -> str | None:
    """The hash of a backbone's weights, or None if there are none here."""
    try:
        _, origin = load_backbone(backbone, layers=(1, 2, 3), weights=weights)
    except WeightsError:
        return None
    return origin.sha256


def left_out(backbone: str) -> str:
    """The sentence about a backbone that could not be measured."""
    return (
        f"{backbone} is left out: no weights for it here; put {backbone}.pth into the folder "
        "given with --weights-folder."
    )


def unit_name(source: str, backbone: str, label: str) -> str:
    """How a result is found again."""
    return f"{source} {backbone} {label}"


def variant_unit(
    banks: Banks, source: Source, backbone: str, variant: Variant, *, weights_sha256: str
) -> Unit:
    """PRO and AUROC of a variant at each of its sizes."""

    def run() -> Result:
        bank = banks.of(source, backbone)
        grids = distance_grids(bank, variant)
        return {size: grid_accuracy(bank, grid).to_dict() for size, grid in grids.items()}

    return Unit(
        name=unit_name(source.name, backbone, variant.label),
        settings=source.settings()
        | {"backbone": backbone, "weights": weights_sha256, "variant": variant.to_dict()},
        run=run,
        weight=variant.cost * source.size_hw[0] * source.size_hw[1] / 65536,
    )


def eigen_unit(
    banks: Banks,
    source: Source,
    backbone: str,
    variant: Variant,
    *,
    weights_sha256: str,
    every: int,
) -> Unit:
    """Mean eigenvalues of W'CW over the grid and the share above 1e-4."""

    def run() -> Result:
        mean, share = eigenvalues(
            banks.of(source, backbone), variant, threshold=EIGEN_THRESHOLD, every=every
        )
        return {"eigenvalues": mean.tolist(), "share": share}

    return Unit(
        name=unit_name(source.name, backbone, f"eigenvalues {variant.label}"),
        settings=source.settings()
        | {"weights": weights_sha256, "variant": variant.to_dict(), "every": every},
        run=run,
        weight=8.0,
    )


def picture_unit(
    banks: Banks,
    source: Source,
    backbone: str,
    *,
    weights_sha256: str,
    draw: Callable[[Source, dict[str, Tensor]], Path],
) -> Unit:
    """Maps of sampled features and of ours, drawn for some defective images."""
    variants = {
        kind: Variant(embedding=kind, sizes=(PAPER.k,)) for kind in ("sampled", "semi_orthogonal")
    }

    def run() -> Result:
        bank = banks.of(source, backbone)
        maps = {
            kind: to_maps(next(iter(distance_grids(bank, variant).values())), bank.size_hw)
            for kind, variant in variants.items()
        }
        return {"file": draw(source, maps).name}

    return Unit(
        name=unit_name(source.name, backbone, "pictures"),
        settings=source.settings() | {"weights": weights_sha256},
        run=run,
        weight=15.0,
    )


def to_maps(grid_nhw: Tensor, size_hw: tuple[int, int]) -> Tensor:
    """Grids (N, h, w) to blurred maps (N, H, W), as the model does it."""
    rows, columns = (
        upsampling_operator(size, cells, sigma=PAPER.sigma).to(torch.float32)
        for size, cells in zip(size_hw, grid_nhw.shape[1:], strict=True)
    )
    return torch.matmul(torch.matmul(rows, grid_nhw), columns.t())


def grid_accuracy(bank: FeatureBank, grid_nhw: Tensor) -> Accuracy:
    """PRO and AUROC of the test images; an image scores as its highest pixel, as in the paper."""
    maps = to_maps(grid_nhw, bank.size_hw).numpy()
    scores = maps.reshape(len(maps), -1).max(axis=1).astype(np.float64)
    return accuracy_of(maps, bank.masks(), scores.tolist(), bank.labels, name=bank.folder.name)
