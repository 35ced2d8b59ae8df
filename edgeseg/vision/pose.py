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
        """Whether the whole rectangle lies inside a frame."""
        return self.x + self.w <= size_hw[1] and self.y + self.h <= size_hw[0]

    def crop(self, image_hwc: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The rectangle, as a view."""
        return image_hwc[self.y : self.y + self.h, self.x : self.x + self.w]


@dataclass(frozen=True, kw_only=True)
class Pose:
    """Where a part lies now, against the picture that places are named in."""

    x: float  # where the part's own point `home_xy` is in this picture
    y: float
    degrees: float  # turned so far since, anticlockwise as people see it
    home_xy: tuple[float, float]

    @property
    def shift_xy(self) -> tuple[float, float]:
        """How far the part has moved, in pixels."""
        return self.x - self.home_xy[0], self.y - self.home_xy[1]

    def facts(self) -> dict[str, float]:
        """For events: the part's own point in pixels of the captured frame, and its turn."""
        right, down = self.shift_xy
        values = {"x": self.x, "y": self.y, "degrees": self.degrees, "right": right, "down": down}
        return {name: round(value, 2) for name, value in values.items()}

    def since(self, other: "Pose") -> "Pose":
        """The same against another picture, in which the part lies as `other` says."""
        turned = wrapped(self.degrees - other.degrees)
        return Pose(x=self.x, y=self.y, degrees=turned, home_xy=(other.x, other.y))

    @cached_property
    def matrix(self) -> Matrix:
        """From places of the first picture to places of this one."""
        angle = math.radians(self.degrees)
        cos, sin = math.cos(angle), math.sin(angle)
        turn = np.array([[cos, sin], [-sin, cos]])  # y points down
        return np.hstack([turn, (np.array([self.x, self.y]) - turn @ self.home_xy)[:, None]])


def wrapped(degrees: float) -> float:
    """The same turn between -180 and 180."""
    return (degrees + 180) % 360 - 180


def chained(after: Matrix, before: Matrix) -> Matrix:
    """One map that does both."""
    return np.hstack([after[:, :2] @ before[:, :2], after[:, :2] @ before[:, 2:] + after[:, 2:]])


def of_centres(matrix: Matrix) -> Matrix:
    """The same map for OpenCV, which counts from the middle of the first pixel."""
    moved: Matrix = matrix.copy()
    moved[:, 2] += matrix[:, :2] @ (0.5, 0.5) - 0.5
    return moved


def warped(image: NDArray[np.uint8], matrix: Matrix, size_hw: tuple[int, int]) -> NDArray[np.uint8]:
    """A picture (H, W) or (H, W, 3) as a small one sees it whose places `matrix` maps to its own.

    Whole-number area averages come first, so that the one interpolation shrinks less than twice.
    Only what is seen of the picture is touched.
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
        of_centres(local),
        (width, height),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return np.asarray(small, np.uint8)


def _span(low: float, high: float, length: int, step: int) -> tuple[int, int]:
    """First and last pixel (exclusive) around an interval, multiples of a step within a length."""
    whole = max(length // step, 1) * step
    first = min(max(math.floor(low / step - 1) * step, 0), whole - step)
    last = max(min(math.ceil(high / step + 1) * step, whole), first + step)
    return first, min(last, length) if step == 1 else last
