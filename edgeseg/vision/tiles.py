"""Frames in tiles: where tiles lie, how a frame is cut, and how maps of tiles become one map.

The fit and the runtime both use this, so that a frame is cut on the device as it was fitted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Tiling:
    """Tiles of one size over a larger frame."""

    frame_hw: tuple[int, int]
    tile_hw: tuple[int, int]
    overlap_hw: tuple[float, float]  # pixels that a tile shares with the next one, at least

    def __post_init__(self) -> None:
        sides = zip(self.frame_hw, self.tile_hw, self.overlap_hw, strict=True)
        for frame, tile, overlap in sides:
            if frame < tile:
                raise UsageError(
                    f"tiles: a frame of {_text(self.frame_hw)} is smaller than a tile of "
                    f"{_text(self.tile_hw)} (height x width); do without tiles, or make them "
                    "smaller"
                )
            if not 0 <= overlap < tile:
                raise UsageError(
                    f"tiles: an overlap of {overlap:g} pixels, expected 0 or more and less than "
                    f"the tile's {tile}"
                )

    def corners_yx(self) -> list[tuple[int, int]]:
        """Return the upper left corners, row by row, evenly spread up to the border."""
        rows, columns = (
            _starts(*side)
            for side in zip(self.frame_hw, self.tile_hw, self.overlap_hw, strict=True)
        )
        return [(y, x) for y in rows for x in columns]

    def cut(self, frame_hwc: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
        """Return the tiles, as views."""
        height, width = self.tile_hw
        return [frame_hwc[y : y + height, x : x + width] for y, x in self.corners_yx()]

    def blend(
        self, maps: Sequence[NDArray[np.float32]], scores: Sequence[float]
    ) -> tuple[NDArray[np.float32], float]:
        """Blend maps of tiles by weighted means, and take the highest score of a tile."""
        height, width = self.tile_hw
        window_hw, total_hw = _weights(self)
        map_hw = np.zeros(self.frame_hw, np.float32)
        for (y, x), tile_hw in zip(self.corners_yx(), maps, strict=True):
            map_hw[y : y + height, x : x + width] += window_hw * tile_hw
        map_hw /= total_hw
        return map_hw, float(np.max(scores))  # unlike max(): NaN stays NaN


def _starts(frame: int, tile: int, overlap: float) -> list[int]:
    steps = math.ceil((frame - tile) / max(1.0, tile - overlap))
    return [round(step * (frame - tile) / steps) for step in range(steps + 1)] if steps else [0]


@lru_cache(maxsize=4)  # sources of different sizes may share a run
def _weights(tiling: Tiling) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the window (h, w) of one tile, and the sum of all windows over the frame (H, W)."""
    height, width = tiling.tile_hw
    # Pyramids: a tile's border, where its context is cut off, counts least, but never nothing.
    rise_y, rise_x = (
        np.minimum(np.arange(1, size + 1), np.arange(size, 0, -1)).astype(np.float32)
        for size in (height, width)
    )
    window_hw = rise_y[:, None] * rise_x[None, :]
    total_hw = np.zeros(tiling.frame_hw, np.float32)
    for y, x in tiling.corners_yx():
        total_hw[y : y + height, x : x + width] += window_hw
    return window_hw, total_hw


def _text(size_hw: tuple[int, int]) -> str:
    return f"{size_hw[0]}x{size_hw[1]}"
