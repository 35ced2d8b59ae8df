"""Pictures of maps, as the paper shows them: sampled features, ours, and the ground truth."""

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from edgeseg.bench.paper.experiments import PaperDataset
from edgeseg.data.datasets import Sample, read_sample
from edgeseg.evaluation.panels import TRUTH, heat
from edgeseg.vision.images import write_image

Picture = NDArray[np.uint8]
VALUE_RANGE = (0.0, 10.0)  # the paper clamps its maps so
_SIDE = 192
_MOST = 3


def example_images(samples: tuple[Sample, ...]) -> list[int]:
    """Choose the first image of some kinds of defect."""
    kinds: dict[str, int] = {}
    for index, sample in enumerate(samples):
        if sample.label:
            kinds.setdefault(sample.kind, index)
    return list(kinds.values())[:_MOST]


def draw_examples(source: PaperDataset, maps: dict[str, Tensor], folder: Path) -> Path:
    """Draw one row per image: input, maps clamped to 0..10, and the true outline."""
    rows = []
    for index in example_images(source.dataset.test):
        sample = source.dataset.test[index]
        frame, mask = read_sample(sample, source.size_hw)
        tiles = [frame]
        tiles += [heat(each[index].numpy(), value_range=VALUE_RANGE) for each in maps.values()]
        tiles.append(frame if mask is None else _draw_outline(frame, mask))
        titles = [sample.kind, *(name.replace("_", "-") for name in maps), "ground truth"]
        row = [_add_title(_small(tile), title) for tile, title in zip(tiles, titles, strict=True)]
        rows.append(np.hstack(row))
    target = folder / f"examples-{source.name}.png"
    write_image(target, np.vstack(rows))
    return target


def _small(picture: Picture) -> Picture:
    scale = _SIDE / max(picture.shape[:2])
    size_wh = (round(picture.shape[1] * scale), round(picture.shape[0] * scale))
    resized = cv2.resize(picture, size_wh, interpolation=cv2.INTER_AREA)
    return np.asarray(resized, dtype=np.uint8)


def _draw_outline(frame_hwc: Picture, mask_hw: NDArray[np.bool_]) -> Picture:
    picture: Picture = frame_hwc.copy()
    contours, _ = cv2.findContours(
        mask_hw.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE
    )
    cv2.drawContours(picture, contours, -1, TRUTH, 2)
    return picture


def _add_title(tile: Picture, title: str) -> Picture:
    framed = np.full((tile.shape[0] + 26, tile.shape[1] + 6, 3), 255, np.uint8)
    framed[22:-4, 3:-3] = tile
    cv2.putText(
        framed, title, (4, 15), cv2.FONT_HERSHEY_SIMPLEX, 0.42, (40, 40, 40), 1, cv2.LINE_AA
    )
    return framed
