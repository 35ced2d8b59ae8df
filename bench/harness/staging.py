"""A copy of a dataset that every candidate reads: same pixels, same size, MVTec AD's layout."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgeseg.base.files import write_text
from edgeseg.bench.harness.accuracy import fingerprint
from edgeseg.data.datasets import Dataset, read_sample
from edgeseg.vision.images import write_image


@dataclass(frozen=True, kw_only=True)
class StagedDataset:
    """The folder of the copy, and its test images in the order of the results."""

    root: Path
    test_images: tuple[Path, ...]
    labels: tuple[int, ...]


def stage(
    dataset: Dataset, root: Path, *, size_hw: tuple[int, int], train: int | None = None
) -> StagedDataset:
    """Write PNGs at `size_hw`; `train` images to fit on, over again from the first if need be."""
    count = len(dataset.train) if train is None else train
    kinds = [sample.kind for sample in dataset.test]
    places = [kinds[:index].count(kind) for index, kind in enumerate(kinds)]
    images = tuple(
        root / "test" / kind / f"{place:04}.png" for kind, place in zip(kinds, places, strict=True)
    )
    staged = StagedDataset(
        root=root, test_images=images, labels=tuple(sample.label for sample in dataset.test)
    )
    marker, stamp = root / "staged.txt", f"{fingerprint(dataset)} {size_hw} {count}\n"
    if marker.is_file() and marker.read_text(encoding="utf-8") == stamp:
        return staged
    for index in range(count):
        frame, _ = read_sample(dataset.train[index % len(dataset.train)], size_hw)
        write_image(root / "train" / "good" / f"{index:04}.png", frame)
    for sample, target in zip(dataset.test, images, strict=True):
        frame, mask = read_sample(sample, size_hw)
        write_image(target, frame)
        if sample.label and mask is not None:
            name = f"{target.stem}_mask.png"
            write_image(root / "ground_truth" / sample.kind / name, mask.astype(np.uint8) * 255)
    write_text(marker, stamp)  # last: it says that the rest is whole
    return staged
