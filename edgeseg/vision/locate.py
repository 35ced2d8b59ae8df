"""Find a part in the camera's picture, by the same code in the fit and in the stream.

    picture --Blob--> the piece that differs from the border: centre, axis, direction
    picture --Anchor (anchor.py)--> the place of a rectangle that all parts have

Both work on a shrunken picture. A part is not found where it is less like the good images than they
are like each other, or lies where none of them lay. It is scored all the same, at its place or
where it should be, so that the map shows what is wrong with it.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.vision.places import Places
from edgeseg.vision.pose import Polygon, Pose

Turns = Literal["none", "axis", "full"]  # none: round. axis: both ends alike
Grey = NDArray[np.uint8]
_SIDE = 256  # pixels of the longer side that parts are looked for at
_LEAST, _MOST = 0.002, 0.95  # shares of the picture between which a piece can be a part
_TRUSTED = 4 / 3  # times the limit: less like a part, it was hardly found at its place


@dataclass(frozen=True, kw_only=True)
class Found:
    """The result of looking for a part."""

    pose: Pose | None  # None: nothing there that could be one
    oddness: float  # against the good images; above 1 it is outside their limits
    reason: str = ""  # why it is not found
    look: Pose | None  # where to look: at the part, or where it should be; None: at all there is

    @property
    def ok(self) -> bool:
        """Whether a part was found, at a place where a part may be."""
        return self.pose is not None and self.oddness <= 1.0

    @property
    def placed(self) -> bool:
        """Whether a part lies there, however odd: its oddness is then its defect."""
        return self.pose is not None and self.look == self.pose

    def since(self, usual: Pose) -> "Found":
        """Return the poses relative to a picture whose part lies as usual."""
        pose, look = (None if at is None else at.since(usual) for at in (self.pose, self.look))
        return replace(self, pose=pose, look=look)


def judge_pose(pose: Pose, oddness: float, reason: str, places: Places | None) -> Found:
    """Compare a pose with where good parts lay."""
    if places is None:  # learned before places were
        return Found(pose=pose, oddness=oddness, reason=reason, look=pose)
    away = places.oddness(pose)
    if away > 1.0:
        reason = reason or places.reason(pose)
    trusted = away <= 1.0 and oddness <= _TRUSTED
    look = pose if trusted else places.usual(pose.home_xy)
    return Found(pose=pose, oddness=max(oddness, away), reason=reason, look=look)


def no_pose(reason: str, home_xy: tuple[float, float], places: Places | None) -> Found:
    """Return the result of a search that found nothing."""
    look = None if places is None else places.usual(home_xy)
    return Found(pose=None, oddness=math.inf, reason=reason, look=look)


@dataclass(frozen=True, kw_only=True)
class Piece:
    """The largest piece of a picture that differs from its border, in the camera's pixels."""

    x: float
    y: float
    degrees: float  # of its long axis, anticlockwise, towards its thinner end
    area: float
    length: float  # of the long axis over the short one
    skew: float  # how unlike its ends are
    at_border: bool


@dataclass(frozen=True, kw_only=True)
class Silhouette:
    """The pixels of a shrunken picture that a piece covers."""

    mask_hw: NDArray[np.uint8]  # 1 inside its outline
    scale: float  # what a pixel of it is long in the camera's

    @property
    def piece(self) -> Piece:
        """The piece, by the moments of these pixels."""
        mask_hw = self.mask_hw
        edges = (mask_hw[0], mask_hw[-1], mask_hw[:, 0], mask_hw[:, -1])
        at_border = any(bool(edge.any()) for edge in edges)
        moments = cv2.moments(mask_hw, binaryImage=True)
        return piece_from_moments(moments, scale=self.scale, at_border=at_border)


def silhouette_of(image_hwc: NDArray[np.uint8]) -> Silhouette | None:
    """Threshold a picture and take the largest component; None where nothing stands out."""
    seen = stand_out(image_hwc, side=_SIDE)
    lines, _ = cv2.findContours(seen.mask_hw, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    if not lines:
        return None
    # Filled: a scratch in the colour of the table does not move the part.
    filled = np.zeros(seen.mask_hw.shape, np.uint8)
    cv2.drawContours(filled, [max(lines, key=cv2.contourArea)], -1, 1, cv2.FILLED)
    if not _LEAST * filled.size <= np.count_nonzero(filled) <= _MOST * filled.size:
        return None
    return Silhouette(mask_hw=filled, scale=seen.scale)


@dataclass(frozen=True, kw_only=True)
class StandOut:
    """The pixels of a shrunken picture that differ from its border."""

    mask_hw: NDArray[np.uint8]  # 255 where they do
    scale: float  # what a pixel of it is long in the camera's
    colour: NDArray[np.uint8]  # (3,): the usual one of the border


def stand_out(image_hwc: NDArray[np.uint8], *, side: int) -> StandOut:
    """Shrink a picture to a longer side, and threshold its difference from its border."""
    small_hwc, scale = _shrink(image_hwc, side)
    border = np.concatenate(
        [small_hwc[0], small_hwc[-1], small_hwc[:, 0], small_hwc[:, -1]]
    )  # (n, 3)
    colour = np.median(border, axis=0).astype(np.uint8)
    unlike = cv2.absdiff(small_hwc, np.broadcast_to(colour, small_hwc.shape))
    unlike = cv2.max(cv2.max(unlike[..., 0], unlike[..., 1]), unlike[..., 2])
    _, mask = cv2.threshold(unlike, 0, 255, cv2.THRESH_BINARY | cv2.THRESH_OTSU)
    return StandOut(mask_hw=np.asarray(mask, np.uint8), scale=scale, colour=colour)


def piece_of(image_hwc: NDArray[np.uint8]) -> Piece | None:
    """Return the piece that stands out from the border, or None."""
    silhouette = silhouette_of(image_hwc)
    return None if silhouette is None else silhouette.piece


def piece_from_moments(moments: dict[str, float], *, scale: float, at_border: bool) -> Piece:
    count = moments["m00"]
    xx, xy, yy = (moments[name] / count for name in ("mu20", "mu11", "mu02"))
    angle = 0.5 * math.atan2(2 * xy, xx - yy)
    half = math.hypot((xx - yy) / 2, xy)
    long, short = (xx + yy) / 2 + half, max((xx + yy) / 2 - half, 1e-9)
    cos, sin = math.cos(angle), math.sin(angle)
    third = cos**3 * moments["mu30"] + 3 * cos * cos * sin * moments["mu21"]
    third += 3 * cos * sin * sin * moments["mu12"] + sin**3 * moments["mu03"]
    skew = third / count / long**1.5
    if skew < 0:
        angle += math.pi
    # Moments count from middles of pixels, and y points down.
    return Piece(
        x=(moments["m10"] / count + 0.5) * scale,
        y=(moments["m01"] / count + 0.5) * scale,
        degrees=-math.degrees(angle) % 360,
        area=count * scale**2,
        length=math.sqrt(long / short),
        skew=abs(skew),
        at_border=at_border,
    )


def _shrink(image_hwc: NDArray[np.uint8], side: int) -> tuple[NDArray[np.uint8], float]:
    """Return a small picture, and the length of its pixels in pixels of the camera.

    Pixels are sampled, not averaged, which would take longer than all the rest: an outline of
    hundreds of pixels averages by itself.
    """
    height, width = image_hwc.shape[:2]
    scale = max(1.0, max(height, width) / side)
    size_wh = (max(1, round(width / scale)), max(1, round(height / scale)))
    small = cv2.resize(image_hwc, size_wh, interpolation=cv2.INTER_LINEAR)
    return np.asarray(small, np.uint8), scale


@dataclass(frozen=True, kw_only=True)
class Blob:
    """A locator for parts that stand out from the background, anywhere and at any angle."""

    kind: Literal["blob"] = "blob"
    home_xy: tuple[float, float]  # centre of the part in the picture that places are named in
    degrees: float  # of its axis there
    turns: Turns  # what of its angle can be told
    area: float  # median of the good images, in pixels of the camera
    length: float
    area_spread: float  # of the logarithm
    length_spread: float
    limit: float  # of the larger of both deviations, in spreads
    free: bool  # whether no good part reaches the border of its picture
    places: Places | None = None  # where good parts lay; None: not looked at
    background: tuple[Polygon, ...] = ()  # what they never cover; nothing: it counts too

    def __post_init__(self) -> None:
        for name in ("area", "length", "area_spread", "length_spread"):
            if not getattr(self, name) > 0:
                raise UsageError(
                    f"blob: {name} {getattr(self, name)}, expected more than 0; fit the model again"
                )

    def find(self, image_hwc: NDArray[np.uint8]) -> Found:
        """Find the part."""
        piece = piece_of(image_hwc)
        if piece is None:
            return no_pose("nothing stands out from the border", self.home_xy, self.places)
        pose = Pose(x=piece.x, y=piece.y, degrees=self.turn(piece), home_xy=self.home_xy)
        deviation = self.deviation(piece)
        reason = ""
        if deviation > self.limit:
            reason = f"a piece of {piece.area / self.area:.2f} times the usual area"
        if self.free and piece.at_border:
            deviation, reason = math.inf, "it reaches beyond the picture"
        return judge_pose(pose, deviation / max(self.limit, 1e-9), reason, self.places)

    def turn(self, piece: Piece) -> float:
        """Return how far a piece is turned, in degrees between -180 and 180."""
        turned = (piece.degrees - self.degrees + 180) % 360 - 180
        if self.turns == "axis":
            turned = (turned + 90) % 180 - 90
        return 0.0 if self.turns == "none" else turned

    def deviation(self, piece: Piece) -> float:
        """Return how unlike the good parts a piece is, in their spreads."""
        return max(
            abs(math.log(piece.area / self.area)) / self.area_spread,
            abs(math.log(piece.length / self.length)) / self.length_spread,
        )
