"""Small pictures and masks, as files of a made-up dataset."""

from pathlib import Path

import cv2
import numpy as np

from edgeseg.data.samples import Sample


def write_picture(path: Path, *, value: int = 100, size_hw: tuple[int, int] = (12, 10)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), np.full((*size_hw, 3), value, np.uint8))
    return path


def write_mask(path: Path, *, marked: bool, size_hw: tuple[int, int] = (12, 10)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.zeros(size_hw, np.uint8)
    pixels[2:4, 3:6] = 255 * marked
    assert cv2.imwrite(str(path), pixels)
    return path


def relative(samples: tuple[Sample, ...], root: Path) -> list[str]:
    return [sample.image.relative_to(root).as_posix() for sample in samples]
