"""From captured frames to the model's input: region of interest, resizing, overlapping tiles."""

import math
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.errors import RuntimeFailure, UsageError
from edgeseg.prediction import Prediction


@dataclass(frozen=True, kw_only=True)
class Roi:
    """A rectangle of the captured frame, in pixels."""

    x: int
    y: int
    w: int
    h: int

    def __post_init__(self) -> None:
        if self.x < 0 or self.y < 0 or self.w < 1 or self.h < 1:
            raise UsageError(f"--roi {self}: expected x,y of 0 or more and w,h of 1 or more")

    @classmethod
    def parse(cls, text: str) -> "Roi":
        """Read `x,y,w,h`."""
        try:
            x, y, w, h = (int(part) for part in text.split(","))
        except ValueError:
            raise UsageError(f"--roi {text!r}: expected four integers x,y,w,h") from None
        return cls(x=x, y=y, w=w, h=h)

    def __str__(self) -> str:
        return f"{self.x},{self.y},{self.w},{self.h}"

    def fits(self, size_hw: tuple[int, int]) -> bool:
        """Whether the whole rectangle lies inside a frame."""
        return self.x + self.w <= size_hw[1] and self.y + self.h <= size_hw[0]

    def crop(self, image_hwc: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The rectangle, as a view."""
        return image_hwc[self.y : self.y + self.h, self.x : self.x + self.w]


def fit_into(image_hwc: NDArray[np.uint8], out_hwc: NDArray[np.uint8], *, swap: bool) -> None:
    """Resize into a preallocated array, the way the model was fitted; `swap` turns BGR to RGB."""
    height, width = out_hwc.shape[:2]
    if image_hwc.shape[:2] != (height, width):
        shrinks = height < image_hwc.shape[0] or width < image_hwc.shape[1]
        interpolation = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
        image_hwc = np.asarray(
            cv2.resize(image_hwc, (width, height), interpolation=interpolation), np.uint8
        )
    # Channels are swapped last, when there are fewest pixels.
    if swap:
        cv2.cvtColor(image_hwc, cv2.COLOR_BGR2RGB, dst=out_hwc)
    else:
        out_hwc[:] = image_hwc


@dataclass(frozen=True, kw_only=True)
class Tiling:
    """Tiles of the model's input size over a larger frame."""

    frame_hw: tuple[int, int]
    tile_hw: tuple[int, int]
    overlap: float  # at least this share of a tile is shared with the next one

    def __post_init__(self) -> None:
        if not 0 <= self.overlap < 1:
            raise UsageError(f"--tile-overlap {self.overlap}: expected a share from 0 to below 1")
        if any(frame < tile for frame, tile in zip(self.frame_hw, self.tile_hw, strict=True)):
            raise RuntimeFailure(
                f"--tile: a frame of {self.frame_hw[1]}x{self.frame_hw[0]} is smaller than the "
                f"model's input of {self.tile_hw[1]}x{self.tile_hw[0]}; leave --tile out"
            )

    def corners_yx(self) -> list[tuple[int, int]]:
        """Upper left corners, row by row, evenly spread, the last tile flush with the border."""
        rows, columns = (
            _starts(frame, tile, self.overlap)
            for frame, tile in zip(self.frame_hw, self.tile_hw, strict=True)
        )
        return [(y, x) for y in rows for x in columns]

    def cut(self, image_hwc: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
        """The tiles, as views."""
        height, width = self.tile_hw
        return [image_hwc[y : y + height, x : x + width] for y, x in self.corners_yx()]

    def blend(self, parts: list[Prediction]) -> Prediction:
        """One map of the frame: weighted means where tiles overlap; the highest tile's score."""
        height, width = self.tile_hw
        window_hw, total_hw = _weights(self)
        map_hw = np.zeros(self.frame_hw, np.float32)
        for (y, x), part in zip(self.corners_yx(), parts, strict=True):
            map_hw[y : y + height, x : x + width] += window_hw * part.map_hw
        map_hw /= total_hw
        score = float(np.max([part.score for part in parts]))  # unlike max(): NaN stays NaN
        # No grid: cells of a tile say nothing about the places the model was fitted on.
        return Prediction(map_hw=map_hw, score=score, grid_hw=None)


def _starts(frame: int, tile: int, overlap: float) -> list[int]:
    stride = max(1.0, tile * (1.0 - overlap))
    steps = math.ceil((frame - tile) / stride)
    return [round(step * (frame - tile) / steps) for step in range(steps + 1)] if steps else [0]


@lru_cache(maxsize=4)  # sources of different sizes may share a run
def _weights(tiling: Tiling) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The window (h, w) of one tile, and the sum of all windows over the frame (H, W)."""
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
