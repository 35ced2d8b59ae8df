"""From the camera's picture to the model's input, and back: one geometry for all who go that way.

    camera's picture --Geometry.view--> View --picture--> the model's input
    the model's input --View.to_frame--> boxes and maps in the camera's pixels

The fit, the evaluation, the export's check and the stream all go through here, so that a part looks
on the device as it was fitted. Without a region and a pose a view is the plain resize, bit for bit.
Coordinates count from the upper left corner of the upper left pixel: its middle is at 0.5, 0.5.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.images import resize_image, resize_mask
from edgeseg.errors import UsageError

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

    @cached_property
    def matrix(self) -> Matrix:
        """From places of the first picture to places of this one."""
        angle = math.radians(self.degrees)
        cos, sin = math.cos(angle), math.sin(angle)
        turn = np.array([[cos, sin], [-sin, cos]])  # y points down
        return np.hstack([turn, (np.array([self.x, self.y]) - turn @ self.home_xy)[:, None]])


@dataclass(frozen=True, kw_only=True)
class View:
    """How one picture of the camera becomes an input of the model."""

    frame_hw: tuple[int, int]  # of the camera's picture
    size_hw: tuple[int, int]  # of the input
    roi: Roi | None = None  # None: the whole picture
    pose: Pose | None = None  # None: parts lie where they lay

    def picture(self, image_hwc: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The input, in one resampling."""
        if self.pose is None:
            return resize_image(self.crop(image_hwc), self.size_hw)
        return self._warped(image_hwc)

    def mask(self, mask_hw: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """A mask of the camera's picture where the input shows it, by the nearest pixel."""
        if self.pose is None:
            roi = self._box
            return resize_mask(mask_hw[roi.y : roi.y + roi.h, roi.x : roi.x + roi.w], self.size_hw)
        warped = cv2.warpAffine(
            mask_hw.astype(np.uint8),
            _of_centres(self.to_frame),
            self.size_hw[::-1],
            flags=cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_CONSTANT,
        )
        return np.asarray(warped != 0, np.bool_)

    def crop(self, image_hwc: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """What people are shown: the region, or the whole picture where parts move in it."""
        return image_hwc if self.roi is None or self.pose is not None else self.roi.crop(image_hwc)

    @property
    def shown_hw(self) -> tuple[int, int]:
        """The size of what `crop` gives."""
        return (
            self.frame_hw if self.roi is None or self.pose is not None else (self.roi.h, self.roi.w)
        )

    @property
    def corner_xy(self) -> tuple[int, int]:
        """Where `crop` begins in the camera's picture."""
        return (0, 0) if self.roi is None or self.pose is not None else (self.roi.x, self.roi.y)

    @cached_property
    def to_frame(self) -> Matrix:
        """From places of the input to places of the camera's picture."""
        roi, (height, width) = self._box, self.size_hw
        scaled = np.array([[roi.w / width, 0.0, roi.x], [0.0, roi.h / height, roi.y]])
        return scaled if self.pose is None else _chained(self.pose.matrix, scaled)

    @property
    def pixel_area(self) -> float:
        """Camera's pixels that one pixel of the input stands for."""
        return self._box.w / self.size_hw[1] * self._box.h / self.size_hw[0]

    def inside(self, grid_hw: tuple[int, int]) -> NDArray[np.bool_] | None:
        """Which cells (h, w) of a grid over the input the camera saw whole; None: all of them."""
        if self.pose is None:
            return None
        (rows, columns), (height, width) = grid_hw, self.size_hw
        y, x = np.mgrid[: rows + 1, : columns + 1]
        corners = np.stack([x * (width / columns), y * (height / rows), np.ones_like(x)], axis=-1)
        at_x, at_y = np.moveaxis(corners @ self.to_frame.T, -1, 0)
        slack = 1e-6 * max(self.frame_hw)
        seen = (at_x >= -slack) & (at_x <= self.frame_hw[1] + slack)
        seen &= (at_y >= -slack) & (at_y <= self.frame_hw[0] + slack)
        cells = seen[:-1, :-1] & seen[1:, :-1] & seen[:-1, 1:] & seen[1:, 1:]
        return None if cells.all() else cells

    def over_frame(
        self, map_hw: NDArray[np.float32], size_hw: tuple[int, int] | None = None
    ) -> NDArray[np.float32]:
        """A map of the input laid over the whole picture of the camera; 0 where nothing looked.

        It keeps the map's own resolution, up to the camera's, unless a size is asked for.
        """
        if self.roi is None and self.pose is None and size_hw is None:
            return map_hw
        height, width = size_hw or self._map_hw
        shrunk = np.diag([width / self.frame_hw[1], height / self.frame_hw[0]])
        matrix = np.hstack([shrunk @ self.to_frame[:, :2], shrunk @ self.to_frame[:, 2:]])
        laid = cv2.warpAffine(
            map_hw,
            _of_centres(matrix),
            (width, height),
            flags=cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_CONSTANT,
        )
        return np.asarray(laid, np.float32)

    @property
    def _map_hw(self) -> tuple[int, int]:
        finer = min(self.size_hw[0] / self._box.h, self.size_hw[1] / self._box.w, 1.0)
        return max(1, round(self.frame_hw[0] * finer)), max(1, round(self.frame_hw[1] * finer))

    @property
    def _box(self) -> Roi:
        return self.roi or Roi(x=0, y=0, w=self.frame_hw[1], h=self.frame_hw[0])

    def _warped(self, image_hwc: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Whole-number area averages first, so that the one interpolation shrinks less than twice.

        Only the part of the picture that the input shows is touched.
        """
        matrix, (height, width) = self.to_frame, self.size_hw
        step = max(1, int(min(self._box.w / width, self._box.h / height)))
        corners = np.array([[0, 0, 1], [width, 0, 1], [0, height, 1], [width, height, 1]])
        low, high = (corners @ matrix.T).min(axis=0), (corners @ matrix.T).max(axis=0)
        # Averages begin at multiples of the step: they do not depend on where the part lies.
        left, right = _span(low[0], high[0], self.frame_hw[1], step)
        top, bottom = _span(low[1], high[1], self.frame_hw[0], step)
        part = image_hwc[top:bottom, left:right]
        if step > 1:
            size_wh = ((right - left) // step, (bottom - top) // step)
            part = np.asarray(cv2.resize(part, size_wh, interpolation=cv2.INTER_AREA), np.uint8)
        local = matrix.copy()
        local[:, 2] -= (left, top)
        local /= step
        warped = cv2.warpAffine(
            part,
            _of_centres(local),
            (width, height),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
        return np.asarray(warped, np.uint8)


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Where a model looks; places are in pixels of the camera that it was fitted with."""

    camera_hw: tuple[int, int] | None = None  # None: not looked at yet, before a fit
    roi: Roi | None = None
    ignore: tuple[Polygon, ...] = ()

    def __post_init__(self) -> None:
        for polygon in self.ignore:
            if len(polygon) < 3 or not np.isfinite(polygon).all():
                raise UsageError(
                    f"ignore: a polygon of {len(polygon)} corners, expected 3 or more, each a "
                    "finite x and y"
                )
        roi, camera_hw = self.roi, self.camera_hw
        if camera_hw is not None and roi is not None and not roi.fits(camera_hw):
            raise UsageError(
                f"roi={roi}: does not lie within pictures of {camera_hw[1]}x{camera_hw[0]}; "
                "expected x+w and y+h within them"
            )

    def seen_by(self, camera_hw: tuple[int, int] | None) -> "Geometry":
        """The same for pictures of this size."""
        return replace(self, camera_hw=camera_hw)

    def check(self, frame_hw: tuple[int, int], *, name: str = "frame") -> None:
        """Refuse a picture in whose pixels the places would be others."""
        if self.camera_hw is not None and frame_hw != self.camera_hw:
            raise UsageError(
                f"{name}: {frame_hw[1]}x{frame_hw[0]}, expected {self.camera_hw[1]}x"
                f"{self.camera_hw[0]} (width x height): the model looks at places in pixels of "
                "that camera; fit again for another one"
            )

    def view(self, frame_hw: tuple[int, int], size_hw: tuple[int, int]) -> View:
        """How pictures of this size become inputs of that one."""
        return View(frame_hw=frame_hw, size_hw=size_hw, roi=self.roi)

    @property
    def words(self) -> str:
        """Where it looks, for people."""
        parts = []
        if self.roi is not None:
            parts.append(f"the region {self.roi}")
        if self.ignore:
            count = len(self.ignore)
            parts.append(f"{count} ignored region{'s' if count > 1 else ''}")
        return " and ".join(parts) or "the whole picture"


PLAIN = Geometry()


def _chained(after: Matrix, before: Matrix) -> Matrix:
    """One map that does both."""
    return np.hstack([after[:, :2] @ before[:, :2], after[:, :2] @ before[:, 2:] + after[:, 2:]])


def _of_centres(matrix: Matrix) -> Matrix:
    """The same map for OpenCV, which counts from the middle of the first pixel."""
    moved: Matrix = matrix.copy()
    moved[:, 2] += matrix[:, :2] @ (0.5, 0.5) - 0.5
    return moved


def _span(low: float, high: float, length: int, step: int) -> tuple[int, int]:
    """First and last pixel (exclusive) around an interval, multiples of a step within a length."""
    whole = max(length // step, 1) * step
    first = min(max(math.floor(low / step - 1) * step, 0), whole - step)
    last = max(min(math.ceil(high / step + 1) * step, whole), first + step)
    return first, min(last, length) if step == 1 else last
