"""Datasets whose images are moved on purpose, and the ways to meet that."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from edgeseg.config import AUTO, FitConfig
from edgeseg.contract.geometry import PLAIN, Geometry
from edgeseg.contract.images import read_image, read_mask, write_image
from edgeseg.data.datasets import Dataset, Sample
from edgeseg.fitting.locator.following import drawn, moved

# How each category is found, in shares of the picture: a mark for those that do not stand out.
# Chosen on good images: with the transistor's body alone they are less alike than as they lie,
# since it moves against its board.
ANCHORS = {
    "cable": (0.12, 0.12, 0.76, 0.76),
    "transistor": (0.15, 0.1, 0.7, 0.85),
    "bracket_brown": (0.25, 0.25, 0.5, 0.5),
    "toothbrush": (0.3, 0.2, 0.4, 0.6),
    "grid": (0.25, 0.25, 0.5, 0.5),
}
Jitter = tuple[int, int]  # pixels and degrees, each way


def jittered(dataset: Dataset, folder: Path, *, shift: float, turn: float, seed: int) -> Dataset:
    """The dataset with every image in another pose, its masks with it; nothing moved: as it is."""
    if not shift and not turn:
        return dataset
    rng = np.random.default_rng(seed)

    def copied(sample: Sample, number: int) -> Sample:
        image = read_image(sample.image)
        pose = drawn(rng, image.shape[:2], shift, turn)
        target = folder / f"{number:05}.png"
        write_image(target, moved(image, pose))
        if sample.mask is None:
            return replace(sample, image=target)
        mask = read_mask(sample.mask).astype(np.uint8) * 255
        mask_target = folder / f"{number:05}_mask.png"
        write_image(mask_target, moved(mask, pose, nearest=True))
        return replace(sample, image=target, mask=mask_target)

    train = tuple(copied(sample, number) for number, sample in enumerate(dataset.train))
    test = tuple(copied(sample, len(train) + n) for n, sample in enumerate(dataset.test))
    return replace(dataset, train=train, test=test)


def views(category: str, size_hw: tuple[int, int]) -> Iterator[tuple[str, Geometry]]:
    """How pictures are looked at: as they are, and located."""
    height, width = size_hw
    yield "as it is", PLAIN
    yield "blob", Geometry(locate="blob")
    if category in ANCHORS:
        x, y, w, h = ANCHORS[category]
        box = f"{round(x * width)},{round(y * height)},{round(w * width)},{round(h * height)}"
        yield "anchor", Geometry(locate=f"anchor:{box},angles=10")


def ways(view: str, config: FitConfig, *, pools: bool) -> dict[str, FitConfig]:
    """What is compared in one view: these share the features of all images."""
    if view != "as it is":
        return {view: config}
    if pools:
        fixed = {f"pool {pool}": replace(config, pool=pool) for pool in (1, 3, 5)}
        return fixed | {"pool auto": replace(config, pool=AUTO)}
    return {"none": config, "pool auto": replace(config, pool=AUTO)}
