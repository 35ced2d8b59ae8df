"""Distances of good frames with a known distribution, and the baseline that belongs to them."""

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.modelfile.metadata import DriftBaseline

GRID = (16, 16)
WINDOW = 64


def baseline() -> DriftBaseline:
    """d^2 of 16 on average, with a deviation of 4 per cell and of 1.6 over a frame."""
    return DriftBaseline(
        d2_mean=((16.0,) * GRID[1],) * GRID[0],
        d2_std=((4.0,) * GRID[1],) * GRID[0],
        frame_mean=16.0,
        frame_std=1.6,
    )


def good_grid(rng: np.random.Generator) -> NDArray[np.float32]:
    """Distances of a good frame: d^2 is gamma distributed with the baseline's moments."""
    return np.sqrt(rng.gamma(16.0, 1.0, GRID)).astype(np.float32)


def textured(rng: np.random.Generator) -> NDArray[np.uint8]:
    """A frame of blocks with noise, another one each time."""
    coarse = rng.integers(40, 160, (24, 32, 3)).astype(np.uint8)
    frame = cv2.resize(coarse, (128, 96), interpolation=cv2.INTER_NEAREST)
    noise = rng.integers(0, 40, frame.shape)
    return (frame + noise).astype(np.uint8)
