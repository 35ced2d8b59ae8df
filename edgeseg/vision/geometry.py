"""The one mapping between the camera's picture and the model's input, in both directions.

    camera's picture --Geometry.view--> View --picture--> the model's input
    the model's input --View.to_frame--> boxes and maps in the camera's pixels

The fit, the evaluation, the export's check and the stream all use it, so that a part looks on the
device as it was fitted. Without a region and a pose a view is the plain resize, bit for bit.
Coordinates count from the upper left corner of the upper left pixel: its middle is at 0.5, 0.5.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.vision.anchor import Anchor
from edgeseg.vision.blobs import Blobs, Cover, PartFound
from edgeseg.vision.images import resize_image, resize_mask
from edgeseg.vision.locate import Blob, Found
from edgeseg.vision.places import Places
from edgeseg.vision.pose import Matrix, Polygon, Pose, Roi, compose, for_opencv, warp

__all__ = [
    "PLAIN",
    "Found",
    "Geometry",
    "Polygon",
    "Pose",
    "Roi",
    "View",
]


@dataclass(frozen=True, kw_only=True)
class View:
    """The mapping of one camera picture to an input of the model."""

    frame_hw: tuple[int, int]  # of the camera's picture
    size_hw: tuple[int, int]  # of the input
    roi: Roi | None = None  # None: the whole picture
    pose: Pose | None = None  # None: parts lie where they lay
    cover: Cover | None = None  # other parts, which are painted over

    def picture(self, image_hwc: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Resample a picture to the input, in one step."""
        if self.pose is None:
            return resize_image(self.crop(image_hwc), self.size_hw)
        input_hwc = warp(image_hwc, self.to_frame, self.size_hw)
        return input_hwc if self.cover is None else self.cover.paint(input_hwc, self.to_frame)

    def mask(self, mask_hw: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Resample a mask of the camera's picture to the input, by the nearest pixel."""
        if self.pose is None:
            roi = self._box
            return resize_mask(mask_hw[roi.y : roi.y + roi.h, roi.x : roi.x + roi.w], self.size_hw)
        warped = cv2.warpAffine(
            mask_hw.astype(np.uint8),
            for_opencv(self.to_frame),
            self.size_hw[::-1],
            flags=cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_CONSTANT,
        )
        return np.asarray(warped != 0, np.bool_)

    def crop(self, image_hwc: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return what people are shown: the region, or the whole picture where parts move in it."""
        return image_hwc if self.roi is None or self.pose is not None else self.roi.crop(image_hwc)

    @property
    def shown_hw(self) -> tuple[int, int]:
        """The size of what `crop` gives."""
        return (
            self.frame_hw if self.roi is None or self.pose is not None else (self.roi.h, self.roi.w)
        )

    @property
    def corner_xy(self) -> tuple[int, int]:
        """The upper left corner of `crop` in the camera's picture."""
        return (0, 0) if self.roi is None or self.pose is not None else (self.roi.x, self.roi.y)

    @cached_property
    def to_frame(self) -> Matrix:
        """The matrix from coordinates of the input to those of the camera's picture."""
        roi, (height, width) = self._box, self.size_hw
        scaled = np.array([[roi.w / width, 0.0, roi.x], [0.0, roi.h / height, roi.y]])
        return scaled if self.pose is None else compose(self.pose.matrix, scaled)

    @property
    def pixel_area(self) -> float:
        """How many of the camera's pixels one pixel of the input stands for."""
        return self._box.w / self.size_hw[1] * self._box.h / self.size_hw[0]

    def inside(self, grid_hw: tuple[int, int]) -> NDArray[np.bool_] | None:
        """Return the cells (h, w) of a grid that the camera saw completely; None: all of them."""
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

    def over_frame(self, map_hw: NDArray[np.float32]) -> NDArray[np.float32]:
        """Lay a map of the input over the whole picture of the camera; 0 outside of the input.

        It keeps the map's own resolution, up to the camera's.
        """
        if self.roi is None and self.pose is None:
            return map_hw
        height, width = self._map_hw
        shrunk = np.diag([width / self.frame_hw[1], height / self.frame_hw[0]])
        matrix = np.hstack([shrunk @ self.to_frame[:, :2], shrunk @ self.to_frame[:, 2:]])
        laid = cv2.warpAffine(
            map_hw,
            for_opencv(matrix),
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


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """The region a model looks at, in pixels of the camera that it was fitted with."""

    camera_hw: tuple[int, int] | None = None  # None: not looked at yet, before a fit
    roi: Roi | None = None
    ignore: tuple[Polygon, ...] = ()  # known at the fit: painted in every input, and not counted
    # Named after the fit, which saw what lies there: not counted, and inputs stay as they are.
    uncounted: tuple[Polygon, ...] = ()
    locate: str = ""  # how parts are found: blob, blobs or anchor:x,y,w,h; empty: they lie alike
    locator: Blobs | Blob | Anchor | None = None  # what a fit has learned of that

    def __post_init__(self) -> None:
        for name in ("ignore", "uncounted"):
            for polygon in getattr(self, name):
                if len(polygon) < 3 or not np.isfinite(polygon).all():
                    raise UsageError(
                        f"{name}: a polygon of {len(polygon)} corners, expected 3 or more, each a "
                        "finite x and y"
                    )
        roi, camera_hw = self.roi, self.camera_hw
        if camera_hw is not None and roi is not None and not roi.fits(camera_hw):
            raise UsageError(
                Setting("roi", roi),
                f": does not lie within pictures of {camera_hw[1]}x{camera_hw[0]}; expected "
                "x+w and y+h within them",
            )

    def for_camera(self, camera_hw: tuple[int, int] | None) -> "Geometry":
        """Return the geometry for a camera with pictures of this size."""
        return replace(self, camera_hw=camera_hw)

    def check(self, frame_hw: tuple[int, int], *, name: str = "frame") -> None:
        """Refuse a picture of another size, in which the coordinates would mean other places."""
        if self.camera_hw is not None and frame_hw != self.camera_hw:
            raise UsageError(
                f"{name}: {frame_hw[1]}x{frame_hw[0]}, expected {self.camera_hw[1]}x"
                f"{self.camera_hw[0]} (width x height): the model looks at places in pixels of "
                "that camera; fit again for another one"
            )

    def find(self, image_hwc: NDArray[np.uint8]) -> Found | None:
        """Find the part in a picture, RGB or BGR; None where all parts lie alike."""
        if self.locator is None:
            return None
        if isinstance(self.locator, Blobs):
            raise UsageError(
                Setting("locate", self.locate),
                ": the model judges several parts in a picture, and this looks at one; use "
                "predict, eval or stream, or a model with ",
                Setting("locate", "blob"),
            )
        found, usual = self.locator.find(image_hwc), self.usual
        return found if usual is None else found.since(usual)

    @property
    def several(self) -> Blobs | None:
        """The locator of a model that judges several parts in a picture; None of all others."""
        return self.locator if isinstance(self.locator, Blobs) else None

    @property
    def of_inputs(self) -> "Geometry":
        """The geometry of the picture that an input shows: of several parts, each cut out."""
        several = self.several
        if several is None:
            return self
        return Geometry(camera_hw=(several.side, several.side), ignore=several.background)

    def part_view(
        self, frame_hw: tuple[int, int], size_hw: tuple[int, int], part: PartFound
    ) -> View:
        """Return the mapping of one of several parts, cut out and turned upright, to an input."""
        side = 1 if self.several is None else self.several.side
        roi = Roi(x=0, y=0, w=side, h=side)
        pose, cover = part.found.look, part.cover
        return View(frame_hw=frame_hw, size_hw=size_hw, roi=roi, pose=pose, cover=cover)

    @property
    def usual(self) -> Pose | None:
        """The pose of the part in inputs: where it usually lies, so that little of it is cut off.

        None where inputs show the reference picture as it is, for example with a region.
        """
        locator = self.locator
        if locator is None or isinstance(locator, Blobs) or self.roi is not None:
            return None
        return None if locator.places is None else locator.places.usual(locator.home_xy)

    @property
    def regions(self) -> tuple[Polygon, ...]:
        """The regions that people named, before the fit and after it."""
        return self.ignore + self.uncounted

    @property
    def painted(self) -> tuple[Polygon, ...]:
        """The regions painted over in inputs: those the fit knew, and the learned background."""
        learned = self.locator.background if isinstance(self.locator, Blob) else ()
        return self.ignore + learned

    @property
    def left_out(self) -> tuple[Polygon, ...]:
        """All regions that do not count, painted over or not."""
        return self.painted + self.uncounted

    @property
    def places(self) -> Places | None:
        """The places of good parts, in the terms of `find`; None where parts are not followed."""
        places = None if self.locator is None else self.locator.places
        return places if places is None or self.usual is None else replace(places, degrees=0.0)

    def view(
        self, frame_hw: tuple[int, int], size_hw: tuple[int, int], pose: Pose | None = None
    ) -> View:
        """Return the mapping of a picture of this size to an input of that size."""
        return View(frame_hw=frame_hw, size_hw=size_hw, roi=self.roi, pose=pose)

    @property
    def words(self) -> str:
        """A description of where the model looks, for people."""
        parts = []
        if self.roi is not None:
            parts.append(f"the region {self.roi}")
        if self.regions:
            count = len(self.regions)
            parts.append(f"{count} ignored region{'s' if count > 1 else ''}")
        if self.locate:
            parts.append(f"parts found by {self.locate}")
        return " and ".join(parts) or "the whole picture"


PLAIN = Geometry()
