"""Pictures of parts that lie under the camera more than once."""

from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.data.synthetic.scene import SceneGenerator

Picture = NDArray[np.uint8]


def retaken(picture_hwc: Picture, rng: np.random.Generator) -> Picture:
    """The same part a moment later: noise, a pixel of movement, other light."""
    height, width = picture_hwc.shape[:2]
    top, left, bottom, right = rng.integers(0, max(2, height // 96), 4)
    moved = cv2.resize(picture_hwc[top : height - bottom, left : width - right], (width, height))
    lit = 255 * (moved / 255) ** rng.uniform(0.94, 1.06) + rng.normal(0, 3, picture_hwc.shape)
    return np.clip(np.round(lit), 0, 255).astype(np.uint8)


def resting(picture_hwc: Picture, rng: np.random.Generator) -> Picture:
    """The next frame of a part that does not move: noise alone."""
    noisy = picture_hwc + rng.normal(0, 1.5, picture_hwc.shape)
    return np.clip(np.round(noisy), 0, 255).astype(np.uint8)


def pictured(
    parts: int,
    times: int,
    *,
    size: int = 128,
    first: int = 0,
    again: Callable[[Picture, np.random.Generator], Picture] = retaken,
) -> list[Picture]:
    """Parts in a row, each pictured several times."""
    scene, rng = SceneGenerator(size_hw=(size, size)), np.random.default_rng(first)
    return [again(scene.good(first + part), rng) for part in range(parts) for _ in range(times)]
