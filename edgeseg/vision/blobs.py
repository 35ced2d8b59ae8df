"""Find every part of a picture that shows several, to be cut out and judged one by one.

    picture --pieces_in--> all pieces that differ from the border
    pieces --Blobs.find_parts--> where each part lies, or why a piece cannot be judged

A piece that is not one whole part (parts that touch, a part that the border cuts) is never judged.
Other parts beside the one that is cut out are covered with the colour of the background.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.vision.locate import Blob, Found, Piece, piece_from_moments, stand_out
from edgeseg.vision.pose import Matrix, Polygon, Pose, for_opencv

SEVERAL = "blobs"  # of locate=
EXPECTED = f"{SEVERAL} or {SEVERAL},count=8"
Line = NDArray[Any]  # (n, 1, 2): points of a contour
_SIDE = 768  # pixels of the longer side that parts are looked for at: each is small
_CRUMB = 0.1  # of the usual area: a smaller piece is dirt on what parts lie on
_SPECK = 12  # pixels of the shrunken picture: nothing smaller has an axis
_MIXED = 2  # pixels of the shrunken picture around a part that show it and the background
_TRUSTED = 4 / 3  # times the limit: less like a part, it was hardly one whole part


def asks_for_several(locate: str) -> bool:
    """Return whether pictures with several parts were asked for."""
    return locate.partition(",")[0] == SEVERAL


def parse_several(text: str) -> int | None:
    """Read `blobs` or `blobs,count=8`; return the number of parts, where it is told."""
    match = re.fullmatch(rf"{SEVERAL}(,count=([1-9]\d{{0,3}}))?", text)
    if match is None:
        raise UsageError(Setting("locate", repr(text)), f": expected {EXPECTED}")
    return None if match[2] is None else int(match[2])


@dataclass(frozen=True, kw_only=True, eq=False)
class Window:
    """Some pixels of a shrunken picture, around a piece."""

    mask_hw: NDArray[np.uint8]  # 1 where they are set
    corner_xy: tuple[int, int]  # of the window, in the shrunken picture
    scale: float  # what a pixel of it is long in the camera's

    def seen_by(self, to_frame: Matrix, size_hw: tuple[int, int]) -> NDArray[np.bool_]:
        """Return them in an input whose places `to_frame` maps to the camera's picture."""
        matrix = to_frame / self.scale
        matrix[:, 2] -= self.corner_xy
        seen = cv2.warpAffine(
            self.mask_hw,
            for_opencv(matrix),
            size_hw[::-1],
            flags=cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP,
        )
        return np.asarray(seen != 0, np.bool_)


@dataclass(frozen=True, kw_only=True, eq=False)
class Cover:
    """What is painted over beside a part that is cut out: the parts around it."""

    others: Window
    colour: NDArray[np.uint8]  # of the background, in the channels of the picture

    def paint(self, input_hwc: NDArray[np.uint8], to_frame: Matrix) -> NDArray[np.uint8]:
        """Paint over the other parts, in place."""
        input_hwc[self.others.seen_by(to_frame, input_hwc.shape[:2])] = self.colour
        return input_hwc


@dataclass(frozen=True, kw_only=True, eq=False)
class Pieces:
    """All pieces of a picture, without crumbs."""

    labels_hw: NDArray[np.int32]  # number of the piece from 1, in the shrunken picture
    scale: float
    colour: NDArray[np.uint8]
    pieces: tuple[Piece, ...]
    boxes: tuple[tuple[int, int, int, int], ...]  # x, y, w, h in the shrunken picture

    def window(self, number: int, *, reach: float = 0.0) -> tuple[NDArray[np.int32], int, int]:
        """Return the labels around a piece, as far as `reach` in the camera's pixels."""
        (x, y, w, h), more = self.boxes[number], round(reach / self.scale)
        left, top = max(0, x - more), max(0, y - more)
        return self.labels_hw[top : y + h + more, left : x + w + more], left, top

    def outline(self, number: int) -> Window:
        """Return the pixels of one piece."""
        labels, left, top = self.window(number)
        own = (labels == number + 1).astype(np.uint8)
        return Window(mask_hw=own, corner_xy=(left, top), scale=self.scale)

    def cover(self, number: int, *, reach: float) -> Cover | None:
        """Return what covers the other pieces within reach; None where there are none."""
        labels, left, top = self.window(number, reach=reach)
        own = labels == number + 1
        others = (labels != 0) & ~own
        if not others.any():
            return None
        wide = cv2.dilate(others.astype(np.uint8), np.ones((2 * _MIXED + 1,) * 2, np.uint8))
        wide[own] = 0
        window = Window(mask_hw=np.asarray(wide, np.uint8), corner_xy=(left, top), scale=self.scale)
        return Cover(others=window, colour=self.colour)


def pieces_in(image_hwc: NDArray[np.uint8], *, least: float) -> Pieces:
    """Find all pieces of at least so many of the camera's pixels, from top to bottom."""
    seen = stand_out(image_hwc, side=_SIDE)
    lines, _ = cv2.findContours(seen.mask_hw, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    labels_hw = np.zeros(seen.mask_hw.shape, np.int32)
    pieces: list[Piece] = []
    boxes: list[tuple[int, int, int, int]] = []
    smallest = max(least / seen.scale**2, _SPECK)
    for line, box in sorted(
        ((line, _box_of(line)) for line in lines), key=lambda each: each[1][1::-1]
    ):
        if box[2] * box[3] < smallest:
            continue
        piece = _piece_in(line, box, seen.mask_hw.shape[:2], seen.scale)
        if piece.area < smallest * seen.scale**2:
            continue
        pieces.append(piece)
        boxes.append(box)
        cv2.drawContours(labels_hw, [line], -1, len(pieces), cv2.FILLED)
    return Pieces(
        labels_hw=labels_hw,
        scale=seen.scale,
        colour=seen.colour,
        pieces=tuple(pieces),
        boxes=tuple(boxes),
    )


def _box_of(line: Line) -> tuple[int, int, int, int]:
    x, y, w, h = cv2.boundingRect(line)
    return int(x), int(y), int(w), int(h)


def _piece_in(
    line: Line, box: tuple[int, int, int, int], size_hw: tuple[int, int], scale: float
) -> Piece:
    """Return the piece inside a contour, as that of a silhouette is found."""
    x, y, w, h = box
    mask_hw = np.zeros((h, w), np.uint8)
    cv2.drawContours(mask_hw, [line], -1, 1, cv2.FILLED, offset=(-x, -y))
    moments = cv2.moments(mask_hw, binaryImage=True)
    moments["m10"] += x * moments["m00"]
    moments["m01"] += y * moments["m00"]
    at_border = x == 0 or y == 0 or x + w == size_hw[1] or y + h == size_hw[0]
    return piece_from_moments(moments, scale=scale, at_border=at_border)


@dataclass(frozen=True, kw_only=True, eq=False)
class PartFound:
    """One piece of a picture: a part that can be judged, or why it cannot."""

    found: Found  # its `look` is where it is cut out; None: it is not judged
    box_xywh: tuple[int, int, int, int]  # around it, in the camera's pixels
    cover: Cover | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class PartsFound:
    """All parts of a picture."""

    parts: tuple[PartFound, ...]
    lacking: str = ""  # why their number alone forbids a verdict of good

    @property
    def judged(self) -> tuple[PartFound, ...]:
        """Those that are cut out and judged."""
        return tuple(part for part in self.parts if part.found.look is not None)


@dataclass(frozen=True, kw_only=True)
class Blobs:
    """A locator for pictures with several parts that stand out from the background."""

    kind: Literal["blobs"] = "blobs"
    outline: Blob  # of one part, upright in the square that is cut out
    side: int  # of that square, in pixels of the camera
    background: tuple[Polygon, ...]  # what parts never cover of it
    count: int | None = None  # parts that every picture has to show; None: any number but none

    def __post_init__(self) -> None:
        if self.side < 1 or (self.count is not None and self.count < 1):
            raise UsageError(
                f"blobs: a square of {self.side} pixels and {self.count} parts, expected at least "
                "1; fit the model again"
            )

    places = None  # parts may lie anywhere

    @property
    def least_area(self) -> float:
        """The area from which a piece is a part: what is smaller is dirt beside the parts."""
        return _CRUMB * self.outline.area

    def find_parts(self, image_hwc: NDArray[np.uint8]) -> PartsFound:
        """Find all parts of a picture, RGB or BGR."""
        seen = pieces_in(image_hwc, least=self.least_area)
        parts = tuple(self._parts_of(seen, image_hwc.shape[:2]))
        lacking = ""
        if not parts:
            lacking = "no part stands out from the background"
        elif self.count is not None and len(parts) != self.count:
            lacking = f"parts are {len(parts)}, expected {self.count}"
        return PartsFound(parts=parts, lacking=lacking)

    def _parts_of(self, seen: Pieces, frame_hw: tuple[int, int]) -> Iterator[PartFound]:
        for number, piece in enumerate(seen.pieces):
            found = self.judge_piece(piece)
            cover = None if found.look is None else seen.cover(number, reach=self.side)
            yield PartFound(
                found=found,
                box_xywh=_in_camera(seen.boxes[number], seen.scale, frame_hw),
                cover=cover,
            )

    def judge_piece(self, piece: Piece) -> Found:
        """Return whether a piece is one whole part."""
        home_xy = self.outline.home_xy
        pose = Pose(x=piece.x, y=piece.y, degrees=self.outline.turn(piece), home_xy=home_xy)
        oddness = self.outline.deviation(piece) / max(self.outline.limit, 1e-9)
        reason = ""
        if oddness > 1.0:
            reason = f"a piece of {piece.area / self.outline.area:.2f} times the usual area"
            if piece.area > self.outline.area:
                reason += "; parts that touch or overlap are one piece: spread them"
        if piece.at_border:
            oddness, reason = np.inf, "it reaches beyond the picture"
        look = pose if oddness <= _TRUSTED else None
        return Found(pose=pose, oddness=float(oddness), reason=reason, look=look)


def _in_camera(
    box: tuple[int, int, int, int], scale: float, frame_hw: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Return a box of the shrunken picture in pixels of the camera, outwards."""
    x, y, w, h = box
    left, top = int(x * scale), int(y * scale)
    right = min(frame_hw[1], int(np.ceil((x + w) * scale)))
    bottom = min(frame_hw[0], int(np.ceil((y + h) * scale)))
    return left, top, right - left, bottom - top
