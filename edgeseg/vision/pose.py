"""Rectangles and poses of a camera's picture, and the one resampling that follows a part.

Coordinates count from the upper left corner of the upper left pixel: its middle is at 0.5, 0.5.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting

Matrix = NDArray[np.float64]  # (2, 3): affine
Polygon = tuple[tuple[float, float], ...]  # corners x, y in pixels of the camera's picture


@dataclass(frozen=True, kw_only=True)
class Roi:
    """A rectangle of the camera's picture, in pixels."""

    x: int
    y: int
    w: int
    h: int

    def __post_init__(self) -> None:
        if self.x < 0 or self.y < 0 or self.w < 1 or self.h < 1:
            raise UsageError(
                Setting("roi", self), ": expected x,y of 0 or more and w,h of 1 or more"
            )

    @classmethod
    def parse(cls, text: str) -> "Roi":
        """Read `x,y,w,h`."""
        try:
            x, y, w, h = (int(part) for part in text.split(","))
        except ValueError:
            raise UsageError(
                Setting("roi", repr(text)), ": expected four integers x,y,w,h"
            ) from None
        return cls(x=x, y=y, w=w, h=h)

    def __str__(self) -> str:
        return f"{self.x},{self.y},{self.w},{self.h}"

    def fits(self, size_hw: tuple[int, int]) -> bool:
        """Return whether the whole rectangle lies inside a frame."""
        return self.x + self.w <= size_hw[1] and self.y + self.h <= size_hw[0]

    def crop(self, image_hwc: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the rectangle of a picture, as a view."""
        return image_hwc[self.y : self.y + self.h, self.x : self.x + self.w]


@dataclass(frozen=True, kw_only=True)
class Pose:
    """The pose of a part, relative to the reference picture in which places are named."""

    x: float  # where the part's own point `home_xy` is in this picture
    y: float
    degrees: float  # turned so far since, anticlockwise as people see it
    home_xy: tuple[float, float]

    @property
    def shift_xy(self) -> tuple[float, float]:
        """How far the part has moved, in pixels."""
        return self.x - self.home_xy[0], self.y - self.home_xy[1]

    def facts(self) -> dict[str, float]:
        """Return the pose for events: the part's own point in pixels of the frame, and its turn."""
        right, down = self.shift_xy
        values = {"x": self.x, "y": self.y, "degrees": self.degrees, "right": right, "down": down}
        return {name: round(value, 2) for name, value in values.items()}

    def since(self, other: "Pose") -> "Pose":
        """Return the pose relative to another picture, in which the part lies as `other` says."""
        turned = wrap_degrees(self.degrees - other.degrees)
        return Pose(x=self.x, y=self.y, degrees=turned, home_xy=(other.x, other.y))

    @cached_property
    def matrix(self) -> Matrix:
        """The matrix from coordinates of the reference picture to those of this one."""
        angle = math.radians(self.degrees)
        cos, sin = math.cos(angle), math.sin(angle)
        turn = np.array([[cos, sin], [-sin, cos]])  # y points down
        return np.hstack([turn, (np.array([self.x, self.y]) - turn @ self.home_xy)[:, None]])


def wrap_degrees(degrees: float) -> float:
    """Bring an angle to between -180 and 180 degrees."""
    return (degrees + 180) % 360 - 180


def compose(after: Matrix, before: Matrix) -> Matrix:
    """Return the matrix that applies `before`, then `after`."""
    return np.hstack([after[:, :2] @ before[:, :2], after[:, :2] @ before[:, 2:] + after[:, 2:]])


def for_opencv(matrix: Matrix) -> Matrix:
    """Return the matrix for OpenCV, which counts from the middle of the first pixel."""
    moved: Matrix = matrix.copy()
    moved[:, 2] += matrix[:, :2] @ (0.5, 0.5) - 0.5
    return moved


def warp(image: NDArray[np.uint8], matrix: Matrix, size_hw: tuple[int, int]) -> NDArray[np.uint8]:
    """Resample a picture (H, W) or (H, W, 3); `matrix` maps places of the result to its places.

    Whole-number area averages come first, so that the one interpolation shrinks less than twice.
    Only the visible part of the picture is read.
    """
    (height, width), frame_hw = size_hw, image.shape[:2]
    step = max(1, int(np.linalg.norm(matrix[:, :2], axis=0).min() + 1e-9))
    corners = np.array([[0, 0, 1], [width, 0, 1], [0, height, 1], [width, height, 1]]) @ matrix.T
    low, high = corners.min(axis=0), corners.max(axis=0)
    # Averages begin at multiples of the step: they do not depend on where the part lies.
    left, right = _span(low[0], high[0], frame_hw[1], step)
    top, bottom = _span(low[1], high[1], frame_hw[0], step)
    part = image[top:bottom, left:right]
    if step > 1:
        size_wh = ((right - left) // step, (bottom - top) // step)
        part = np.asarray(cv2.resize(part, size_wh, interpolation=cv2.INTER_AREA), np.uint8)
    local: Matrix = matrix.copy()
    local[:, 2] -= (left, top)
    local /= step
    small = cv2.warpAffine(
        part,
        for_opencv(local),
        (width, height),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return np.asarray(small, np.uint8)


def _span(low: float, high: float, length: int, step: int) -> tuple[int, int]:
    """Return first and last pixel (exclusive) around an interval, as multiples of a step."""
    whole = max(length // step, 1) * step
    first = min(max(math.floor(low / step - 1) * step, 0), whole - step)
    last = max(min(math.ceil(high / step + 1) * step, whole), first + step)
    return first, min(last, length) if step == 1 else last
