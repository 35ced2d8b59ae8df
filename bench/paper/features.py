"""Feature maps of one dataset on disk: one pass through the backbone serves every experiment.

Embedding, grid, covariance and rank are all linear algebra on these maps, so a table of many
settings costs one forward pass per image and not one per image and setting.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from edgeseg.base.errors import UsageError
from edgeseg.base.files import write_json
from edgeseg.base.progress import Progress, silent
from edgeseg.bench.harness.accuracy import fingerprint
from edgeseg.data.datasets import Dataset, Sample, load_batches
from edgeseg.model.backbones import Tap
from edgeseg.model.feature_extractor import Backbone
from edgeseg.model.reference import Preprocess
from edgeseg.model.weights import load_backbone

_BATCH = 16


@dataclass(frozen=True, kw_only=True)
class FeatureBank:
    """Maps (N, C, H / s, W / s) of every tap for training and test images, as memory maps."""

    folder: Path
    taps: tuple[Tap, ...]
    size_hw: tuple[int, int]
    labels: tuple[int, ...]

    def maps(self, split: str, tap: int) -> NDArray[np.float32]:
        """Open the maps of all images of a split at one tap."""
        array: NDArray[np.float32] = np.load(self.folder / f"{split}-{tap}.npy", mmap_mode="r")
        return array

    def masks(self) -> NDArray[np.bool_]:
        """Open the ground truth (N, H, W) of the test images."""
        array: NDArray[np.bool_] = np.load(self.folder / "masks.npy", mmap_mode="r")
        return array

    @property
    def features(self) -> int:
        """Number of features, the paper's F."""
        return sum(tap.channels for tap in self.taps)

    def count(self, split: str) -> int:
        """Number of images of a split."""
        return len(self.maps(split, 0))


@torch.no_grad()
def build_bank(
    folder: Path,
    dataset: Dataset,
    *,
    train: Sequence[Sample],
    backbone: str,
    size_hw: tuple[int, int],
    weights: str | None = None,
    progress: Progress = silent,
) -> FeatureBank:
    """Compute the maps, or open them if they are there already with the same settings."""
    network, origin = load_backbone(backbone, layers=(1, 2, 3), weights=weights)
    settings = {
        "backbone": backbone,
        "weights": origin.sha256,
        "size_hw": list(size_hw),
        "data": fingerprint(dataset),
        "train": [sample.image.name for sample in train],
    }
    bank = FeatureBank(
        folder=folder,
        taps=network.taps,
        size_hw=size_hw,
        labels=tuple(sample.label for sample in dataset.test),
    )
    if _settings(folder) == settings:
        return bank
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bank.json").unlink(missing_ok=True)
    for split, samples in (("train", tuple(train)), ("test", dataset.test)):
        label = f"Features of {dataset.name}, {split}"
        _fill(bank, network, split, samples, progress=progress, label=label)
    write_json(folder / "bank.json", settings)  # last: it says that the rest is whole
    return bank


def _fill(
    bank: FeatureBank,
    network: Backbone,
    split: str,
    samples: Sequence[Sample],
    *,
    progress: Progress,
    label: str,
) -> None:
    """Run all images of a split through the network and write their maps and masks."""
    (height, width), count = bank.size_hw, len(samples)
    preprocess = Preprocess(mean=network.spec.mean, std=network.spec.std, width=width)
    arrays = []
    for number, tap in enumerate(bank.taps):
        shape = (count, tap.channels, height // tap.stride, width // tap.stride)
        arrays.append(_create(bank.folder / f"{split}-{number}.npy", shape, np.float32))
    masks = None
    if split == "test":
        masks = _create(bank.folder / "masks.npy", (count, height, width), np.bool_)
    batches = load_batches(samples, size_hw=bank.size_hw, batch_size=_BATCH)
    place = 0
    for batch in progress(batches, length=-(-count // _BATCH), label=label):
        stop = place + len(batch.samples)
        maps = network(preprocess(torch.from_numpy(batch.frames)))
        for array, feature_map in zip(arrays, maps, strict=True):
            array[place:stop] = feature_map.numpy()
        if masks is not None:
            masks[place:stop] = batch.masks
        place = stop
    for array in arrays if masks is None else [*arrays, masks]:
        array.flush()


def _create(path: Path, shape: tuple[int, ...], dtype: Any) -> Any:
    return np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)


def _settings(folder: Path) -> dict[str, Any] | None:
    try:
        settings: dict[str, Any] = json.loads((folder / "bank.json").read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return None
    return settings


class Projector:
    """W'x on whole rows of the grid, from maps at their own resolution.

    It computes what GridEmbedding does, a few rows at a time: resizing is a matrix per
    axis, so a row of the grid needs only the rows of a map that its matrix touches.
    """

    def __init__(
        self, bank: FeatureBank, weight: Tensor, *, stride: int, interpolation: str
    ) -> None:
        if weight.shape[0] != bank.features:
            raise UsageError(
                f"an embedding of {weight.shape[0]} features for maps of {bank.features}"
            )
        self._bank = bank
        self.size = int(weight.shape[1])  # k
        self.grid_hw = (bank.size_hw[0] // stride, bank.size_hw[1] // stride)
        channels = [tap.channels for tap in bank.taps]
        self._parts = torch.split(weight.to(torch.float32), channels)  # (C, k) each
        self._rows, self._columns = (
            [
                resize_matrix(bank.size_hw[axis] // tap.stride, cells, interpolation)
                for tap in bank.taps
            ]
            for axis, cells in enumerate(self.grid_hw)
        )

    def rows(self, split: str, start: int, stop: int) -> Tensor:
        """Compute embeddings (P', N, k) in float64 of the cells in rows start to stop."""
        total: Tensor | None = None
        for number, part in enumerate(self._parts):
            if not bool(part.any()):  # a layer that the embedding leaves out
                continue
            rows = self._rows[number][start:stop]  # (R, h)
            used = torch.nonzero(rows.any(dim=0)).flatten()
            first, last = int(used[0]), int(used[-1]) + 1
            native = np.array(self._bank.maps(split, number)[:, :, first:last])  # off the disk
            projected = torch.einsum("nchw,ck->hwnk", torch.from_numpy(native), part)
            added = _apply(rows[:, first:last], projected)  # (R, w, N, k)
            added = _apply(self._columns[number], added.transpose(0, 1))  # (c, R, N, k)
            total = added if total is None else total.add_(added)
        if total is None:
            raise UsageError("an embedding of zeros: expected at least one feature")
        return total.transpose(0, 1).flatten(0, 1).to(torch.float64)


def _apply(matrix: Tensor, values: Tensor) -> Tensor:
    """Apply a matrix along the first axis; one that only picks rows is not multiplied."""
    picked = matrix.argmax(dim=1)
    if bool((matrix.sum(dim=1) == 1).all()) and bool((matrix.count_nonzero(dim=1) == 1).all()):
        return values[picked]
    product: Tensor = torch.tensordot(matrix, values, dims=1)
    return product


def resize_matrix(size: int, cells: int, interpolation: str) -> Tensor:
    """Make the matrix (cells, size) that resizes one axis of a map to the grid."""
    identity = torch.eye(size)[:, None]  # (size, 1, size): one signal per unit vector
    if cells < size:
        return functional.avg_pool1d(identity, size // cells)[:, 0].t().contiguous()
    if cells == size:
        return identity[:, 0]
    if interpolation == "nearest":
        resized = functional.interpolate(identity, size=cells, mode="nearest")
    else:
        resized = functional.interpolate(identity, size=cells, mode="linear", align_corners=False)
    return resized[:, 0].t().contiguous()
