"""Units of work of the paper's experiments: one dataset, one backbone, one variant."""

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from edgeseg.base.errors import DatasetError
from edgeseg.base.progress import Progress, silent
from edgeseg.bench.harness.accuracy import (
    Accuracy,
    accuracy_of,
    fingerprint,
    measure_accuracy,
    open_limited,
)
from edgeseg.bench.harness.units import Result, Unit
from edgeseg.bench.paper.distances_over_k import Variant, distance_grids, eigenvalues
from edgeseg.bench.paper.features import FeatureBank, build_bank
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset, open_dataset, split_holdout
from edgeseg.data.layouts import KOLEKTOR_FOLDS
from edgeseg.fitting.fitting import FitOptions, fit
from edgeseg.model.predictor import torch_predictor
from edgeseg.vision.upsampling import upsampling_operator

PAPER = FitConfig.preset("paper")
EIGEN_THRESHOLD = 1e-4
KOLEKTOR_HW = (704, 256)
MSTC_RIDGE = 0.3  # the value in the authors' code for this dataset


@dataclass(frozen=True, kw_only=True)
class PaperDataset:
    """A dataset at the size the paper used for it."""

    name: str
    dataset: Dataset
    size_hw: tuple[int, int]

    def __post_init__(self) -> None:
        bare = next((sample for sample in self.dataset.test if not sample.is_marked), None)
        if bare is not None:
            raise DatasetError(
                f"{bare.image}: defective, without a mask; the paper measures by pixels, expected "
                f"masks of all defective pictures of {self.name}"
            )

    def settings(self) -> Result:
        """Settings that decide the features, beside the backbone."""
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

    def of(self, source: PaperDataset, backbone: str) -> FeatureBank:
        """Open the bank of a dataset, and make it if it is missing."""
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
        """Delete the features that are open, unless they are to be kept."""
        if self._open is not None and not self._keep:
            shutil.rmtree(self._open[1].folder)
        self._open = None


def unit_name(source: str, backbone: str, label: str) -> str:
    """Name of the unit of an experiment."""
    return f"{source} {backbone} {label}"


def variant_unit(
    banks: Banks, source: PaperDataset, backbone: str, variant: Variant, *, weights_sha256: str
) -> Unit:
    """Make the unit that measures PRO and AUROC of a variant at each of its sizes."""

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
    source: PaperDataset,
    backbone: str,
    variant: Variant,
    *,
    weights_sha256: str,
    every: int,
) -> Unit:
    """Make the unit of the mean eigenvalues of W'CW and their share above 1e-4."""

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
    source: PaperDataset,
    backbone: str,
    *,
    weights_sha256: str,
    draw: Callable[[PaperDataset, dict[str, Tensor]], Path],
) -> Unit:
    """Make the unit that draws maps of sampled features and ours for defective images."""
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
    """Turn grids (N, h, w) into blurred maps (N, H, W), as the model does."""
    rows, columns = (
        torch.from_numpy(upsampling_operator(size, cells, sigma=PAPER.sigma)).to(torch.float32)
        for size, cells in zip(size_hw, grid_nhw.shape[1:], strict=True)
    )
    return torch.matmul(torch.matmul(rows, grid_nhw), columns.t())


def grid_accuracy(bank: FeatureBank, grid_nhw: Tensor) -> Accuracy:
    """Measure PRO and AUROC; an image scores as its highest pixel, as in the paper."""
    maps = to_maps(grid_nhw, bank.size_hw).numpy()
    scores = maps.reshape(len(maps), -1).max(axis=1).astype(np.float64)
    return accuracy_of(maps, bank.masks(), scores.tolist(), bank.labels, name=bank.folder.name)


def kolektor_sources(
    kolektor: Path | None, kolektor2: Path | None, *, limit: int | None
) -> tuple[list[PaperDataset], list[str]]:
    """List the folds and the second dataset that are here, and notes on the rest."""
    sources, notes = [], []
    if kolektor is None:
        notes.append("KolektorSDD is absent: give its folder with --kolektor.")
    else:
        sources += [
            PaperDataset(
                name=f"kolektor-fold{fold + 1}",
                dataset=open_limited(kolektor, limit=limit, fold=fold),
                size_hw=KOLEKTOR_HW,
            )
            for fold in range(KOLEKTOR_FOLDS)
        ]
        notes.append(
            "KolektorSDD: the authors' folds are not part of the dataset; ours go by commutator "
            "number modulo three, so single folds cannot be compared with the published ones."
        )
    if kolektor2 is None:
        notes.append("KolektorSDD2 is absent: give its folder with --kolektor2.")
    else:
        dataset = open_limited(kolektor2, limit=limit)
        sources.append(PaperDataset(name="kolektor2", dataset=dataset, size_hw=KOLEKTOR_HW))
        if len(dataset.test) < 1004:
            notes.append(
                f"KolektorSDD2: {len(dataset.train)} good images to fit on and "
                f"{len(dataset.test)} to test, of the published 2085 and 1004."
            )
    return sources, notes


def mstc_units(mstc: Path | None, *, weights: str | None) -> tuple[list[Unit], list[str]]:
    """Make the units of mSTC by an ordinary fit: its 43 000 test frames are too many to keep."""
    if mstc is None:
        return [], ["mSTC is absent: give its folder with --mstc."]
    source = PaperDataset(name="mstc", dataset=open_dataset(mstc), size_hw=PAPER.size_hw)
    kinds = ("semi_orthogonal", "sampled")
    return [_mstc_unit(source.dataset, kind, weights) for kind in kinds], []


def _mstc_unit(dataset: Dataset, kind: str, weights: str | None) -> Unit:
    config = PAPER.with_options({"embedding": kind, "ridge": MSTC_RIDGE})

    def run() -> Result:
        artefact = fit(dataset, config, FitOptions(weights=weights, keep_moments=False))
        predict = torch_predictor(artefact.model())
        threshold = artefact.calibration.score_threshold
        accuracy = measure_accuracy(predict, dataset, size_hw=config.size_hw, threshold=threshold)
        return accuracy.to_dict()

    return Unit(
        name=unit_name("mstc", "resnet18", kind),
        settings={"data": fingerprint(dataset), "config": config.to_dict(), "weights": weights},
        run=run,
        weight=3000.0,
    )
