"""From captured frames to the model's input: region of interest, resizing, overlapping tiles."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.images import resize_image
from edgeseg.contract.prediction import Prediction
from edgeseg.contract.tiles import Tiling
from edgeseg.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Roi:
    """A rectangle of the captured frame, in pixels."""

    x: int
    y: int
    w: int
    h: int

    def __post_init__(self) -> None:
        if self.x < 0 or self.y < 0 or self.w < 1 or self.h < 1:
            raise UsageError(f"roi={self}: expected x,y of 0 or more and w,h of 1 or more")

    @classmethod
    def parse(cls, text: str) -> "Roi":
        """Read `x,y,w,h`."""
        try:
            x, y, w, h = (int(part) for part in text.split(","))
        except ValueError:
            raise UsageError(f"roi={text!r}: expected four integers x,y,w,h") from None
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
    """Resize into a preallocated array, as for the fit; `swap` turns BGR to RGB."""
    height, width = out_hwc.shape[:2]
    image_hwc = resize_image(image_hwc, (height, width))
    # Channels are swapped last, when there are fewest pixels.
    if swap:
        cv2.cvtColor(image_hwc, cv2.COLOR_BGR2RGB, dst=out_hwc)
    else:
        out_hwc[:] = image_hwc


def cut(image_hwc: NDArray[np.uint8], tiling: Tiling) -> list[NDArray[np.uint8]]:
    """The tiles of a frame, which is brought to the size that they are cut from."""
    return tiling.cut(resize_image(image_hwc, tiling.frame_hw))


def blend(parts: list[Prediction], tiling: Tiling) -> Prediction:
    """What the tiles say of their frame; no grid: cells of a tile are no places of the frame."""
    map_hw, score = tiling.blend([part.map_hw for part in parts], [part.score for part in parts])
    return Prediction(map_hw=map_hw, score=score, grid_hw=None)
