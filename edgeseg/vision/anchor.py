"""Find a part by a rectangle that all parts have: where it is now, and how similar it looks.

    picture, small --correlation over shifts and angles--> starts
    starts, larger --ECC on the rectangle alone--> pose and likeness

The rest of the part is never compared: a defect must not move it.
"""

import base64
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.base.messages import Setting
from edgeseg.vision.blobs import asks_for_several
from edgeseg.vision.images import decode_image, encode_png
from edgeseg.vision.locate import Found, Grey, judge_pose, no_pose
from edgeseg.vision.places import Places
from edgeseg.vision.pose import Matrix, Pose, Roi, compose, warp

LOOKING_AROUND = "blob,background=yes"  # of locate=
BLOBS = ("blob", LOOKING_AROUND)
_STEP = 5.0  # degrees between angles that are tried
_FINE = 64  # pixels of a rectangle's longer side where its place is refined
_COARSE = 16  # and of its shorter side where it is searched for
_NEAR = 3  # pixels of that picture that angles in between are tried around the best place
_ROWS = 4  # of the camera's that are read for each row of that picture
_MARGIN = 1 / 4  # of the rectangle: how far it may be from where it was searched for
_FLAT = 0.1  # of the rectangle's contrast: less is nothing to look at
_STARTS = 3  # angles that a rectangle is refined from where the best does not do
_MOST_PIXELS = 1_000_000  # of a picture in a file, whatever its header says
_DOUBT = 2 / 3  # of the limit: less like a part than good ones were
_STEPS = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 30, 1e-4)  # of the refinement


@dataclass(frozen=True, kw_only=True)
class Anchor:
    """A rectangle that all parts have, searched for over shifts and some angles."""

    kind: Literal["anchor"] = "anchor"
    box: Roi  # in the picture that places are named in
    angles: tuple[float, ...]  # that are tried, in degrees
    reach: float  # how far it is searched for, in pixels of the camera each way
    pictures: tuple[str, ...]  # PNG, base64: the rectangle turned by each angle, small; then larger
    limit: float  # of 1 - correlation
    places: Places | None = None  # where good parts lay; None: not looked at

    def __post_init__(self) -> None:
        if len(self.pictures) != len(self.angles) + 1:
            raise UsageError(
                f"anchor: {len(self.pictures)} pictures of {len(self.angles)} angles, expected one "
                "of each and a larger one"
            )
        if not 0 <= self.limit <= 2:
            raise UsageError(f"anchor: limit {self.limit}, expected 0 to 2 of 1 - correlation")
        _ = self._templates  # a damaged one is refused now, and not at the first frame

    @property
    def home_xy(self) -> tuple[float, float]:
        """The middle of the rectangle."""
        return self.box.x + self.box.w / 2, self.box.y + self.box.h / 2

    @cached_property
    def _templates(self) -> list[Grey]:
        *small, larger = self.pictures
        fine = _read_png(larger, fine_hw(self.box))
        return [*(_read_png(text, coarse_hw(self.box)) for text in small), fine]

    def find(self, image_hwc: NDArray[np.uint8]) -> Found:
        """Look for the rectangle: everywhere within reach, then exactly where it is."""
        match = self.match(image_hwc)
        if match is None:
            return no_pose("its rectangle is out of reach", self.home_xy, self.places)
        pose, likeness = match
        oddness = (1 - likeness) / max(self.limit, 1e-9)
        reason = f"its rectangle is like that of the good images by {likeness:.2f} only"
        return judge_pose(pose, oddness, "" if oddness <= 1 else reason, self.places)

    def match(self, image_hwc: NDArray[np.uint8]) -> tuple[Pose, float] | None:
        """Return the best pose of the rectangle and its likeness; None where it does not fit in."""
        starts = self._search(image_hwc)
        if not starts:
            return None
        pose, likeness = self._refine(image_hwc, starts[0])
        out = self.places is not None and self.places.oddness(pose) > 1.0
        if out or 1 - likeness > _DOUBT * self.limit:
            # The small picture may have misled: other angles, and where it usually is.
            usual = [] if self.places is None else [self.places.usual(self.home_xy)]
            for start in [*usual, *starts[1:_STARTS]]:
                other, as_like = self._refine(image_hwc, start)
                if as_like > likeness:
                    pose, likeness = other, as_like
        return pose, likeness

    def _search(self, image_hwc: NDArray[np.uint8]) -> list[Pose]:
        """Return the best shift of every angle, to a pixel of the small picture, the best first."""
        (x, y), (height, width) = self.home_xy, image_hwc.shape[:2]
        step = coarse_step(self.box)
        half_w, half_h = self.reach + self.box.w / 2, self.reach + self.box.h / 2
        left, top = (max(0, int(value)) // step * step for value in (x - half_w, y - half_h))
        right, bottom = min(width, math.ceil(x + half_w)), min(height, math.ceil(y + half_h))
        if left >= right or top >= bottom:
            return []
        window = _shrink_green(image_hwc[top:bottom, left:right], step)
        found: list[tuple[float, int, int, float]] = []  # likeness, place in the window, angle
        # Every second angle everywhere, and those between them where the best of these was.
        for number in sorted(range(len(self.angles)), key=lambda each: each % 2):
            template = self._templates[number]
            rows, columns = template.shape
            if rows > window.shape[0] or columns > window.shape[1]:
                return []
            near_x, near_y = (
                (max(0, at - _NEAR) for at in max(found)[1:3]) if number % 2 else (0, 0)
            )
            part = window
            if number % 2:
                part = window[near_y:, near_x:][: rows + 2 * _NEAR, : columns + 2 * _NEAR]
            likeness = cv2.matchTemplate(part, template, cv2.TM_CCOEFF_NORMED)
            _, highest, _, (at_x, at_y) = cv2.minMaxLoc(likeness)
            found.append((highest, near_x + at_x, near_y + at_y, self.angles[number]))
        return [
            Pose(
                x=left + (at_x + columns / 2) * step,
                y=top + (at_y + rows / 2) * step,
                degrees=angle,
                home_xy=self.home_xy,
            )
            for _, at_x, at_y, angle in sorted(found, reverse=True)
        ]

    def _refine(self, image_hwc: NDArray[np.uint8], pose: Pose) -> tuple[Pose, float]:
        """Refine a pose by ECC on the rectangle alone; keep it where ECC does not converge."""
        template, factor = self._templates[-1], max(self.box.w, self.box.h) / _FINE
        height, width = template.shape
        margin = round(_MARGIN * max(height, width))
        size_hw = (height + 2 * margin, width + 2 * margin)
        around = _around(self.home_xy, size_hw, factor)
        patch = _warp_green(image_hwc, compose(pose.matrix, around), size_hw)
        if patch.std() < _FLAT * template.std():
            return pose, 0.0  # of a flat picture OpenCV says that it is like any other
        start = np.array([[1, 0, margin], [0, 1, margin]], np.float32)
        try:
            likeness, moved = cv2.findTransformECC(
                template, patch, start, cv2.MOTION_EUCLIDEAN, _STEPS, _everywhere(patch), 5
            )
        except cv2.error:  # it did not converge
            likeness, moved = _likeness(template, patch[margin:-margin, margin:-margin]), start
        # From the rectangle as it was to where the patch shows it, in pixels of the camera.
        middle = moved[:, :2] @ ((width - 1) / 2, (height - 1) / 2) + moved[:, 2]
        off = middle - ((size_hw[1] - 1) / 2, (size_hw[0] - 1) / 2)
        home = np.array(self.home_xy) + factor * off
        x, y = pose.matrix[:, :2] @ home + pose.matrix[:, 2]
        turned = pose.degrees - math.degrees(math.atan2(moved[1, 0], moved[0, 0]))
        return Pose(x=float(x), y=float(y), degrees=turned, home_xy=self.home_xy), float(likeness)


def coarse_step(box: Roi) -> int:
    """Return how many pixels become one for the search; from four on, a multiple of four."""
    step = max(1, min(box.w, box.h) // _COARSE)
    return step if step < _ROWS else math.ceil(step / _ROWS) * _ROWS


def coarse_hw(box: Roi) -> tuple[int, int]:
    """Return the size of a rectangle's picture for the search."""
    step = coarse_step(box)
    return max(1, box.h // step), max(1, box.w // step)


def fine_hw(box: Roi) -> tuple[int, int]:
    """Return the size of a rectangle's picture for the refinement."""
    factor = max(box.w, box.h) / _FINE
    return max(1, round(box.h / factor)), max(1, round(box.w / factor))


def anchor_pictures(
    image_hwc: NDArray[np.uint8], box: Roi, angles: tuple[float, ...]
) -> tuple[str, ...]:
    """Cut the rectangle out of a good image: small and turned by each angle, then larger."""
    home = (box.x + box.w / 2, box.y + box.h / 2)
    step, fine = coarse_step(box), max(box.w, box.h) / _FINE
    small_hw, larger_hw = coarse_hw(box), fine_hw(box)
    pictures = []
    for angle in angles:
        # A part that turns one way shows in its rectangle what lay the other way before.
        back = Pose(x=home[0], y=home[1], degrees=-angle, home_xy=home)
        matrix = compose(back.matrix, _around(home, small_hw, step))
        pictures.append(_warp_green(image_hwc, matrix, small_hw))
    pictures.append(_warp_green(image_hwc, _around(home, larger_hw, fine), larger_hw))
    return tuple(_png(picture) for picture in pictures)


def _around(middle_xy: tuple[float, float], size_hw: tuple[int, int], scale: float) -> Matrix:
    """Return the matrix from a small picture to the camera's, both with the same middle."""
    height, width = size_hw
    return np.array(
        [
            [scale, 0.0, middle_xy[0] - scale * width / 2],
            [0.0, scale, middle_xy[1] - scale * height / 2],
        ]
    )


def _shrink_green(image_hwc: NDArray[np.uint8], step: int) -> Grey:
    """Shrink the green channel, which BGR and RGB have in common, to pixels of step x step.

    Only some rows of each step are read, from end to end: a copy of every few pixels would take
    longer than all the rest.
    """
    height, width = max(1, image_hwc.shape[0] // step), max(1, image_hwc.shape[1] // step)
    skip = max(1, step // _ROWS)
    rows = image_hwc[skip // 2 : height * step : skip, : width * step]
    green = cv2.extractChannel(rows, 1)
    small = cv2.resize(green, (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.uint8)


def _everywhere(picture: Grey) -> Grey:
    return np.full(picture.shape, 255, np.uint8)


def _warp_green(image_hwc: NDArray[np.uint8], matrix: Matrix, size_hw: tuple[int, int]) -> Grey:
    """Resample the green channel for a small picture; of large pictures every few pixels do."""
    skip = max(1, int(np.linalg.norm(matrix[:, :2], axis=0).min()) // 4)
    if skip == 1:
        return warp(image_hwc[..., 1], matrix, size_hw)
    first = skip // 2
    sparse = np.ascontiguousarray(image_hwc[first::skip, first::skip, 1])
    local: Matrix = matrix / skip
    local[:, 2] = (matrix[:, 2] - first - 0.5) / skip + 0.5
    return warp(sparse, local, size_hw)


def _likeness(first: Grey, second: Grey) -> float:
    return float(cv2.matchTemplate(first, second, cv2.TM_CCOEFF_NORMED)[0, 0])


def _png(picture: Grey) -> str:
    return base64.b64encode(encode_png(picture)).decode()


def _read_png(text: str, size_hw: tuple[int, int]) -> Grey:
    try:
        data = base64.b64decode(text, validate=True)
        picture = decode_image(data, name="picture", max_pixels=_MOST_PIXELS)[..., 1]
    except (ValueError, DatasetError) as error:  # not base64, or not a picture
        raise UsageError("anchor: ", error, "; fit the model again") from None
    if picture.shape != size_hw:
        raise UsageError(
            f"anchor: a picture of {picture.shape[0]}x{picture.shape[1]}, expected {size_hw[0]}x"
            f"{size_hw[1]} of its rectangle; fit the model again"
        )
    return np.ascontiguousarray(picture)


def check_locate(text: str) -> None:
    """Refuse an unknown value of `locate`, and several parts: projects judge one in a picture."""
    if asks_for_several(text):
        raise UsageError(
            Setting("locate", text),
            ": a project judges one part in a picture; fit several with `edgeseg fit`",
        )
    if text not in ("", *BLOBS):
        parse_anchor(text)


def parse_anchor(text: str) -> tuple[Roi, tuple[float, ...]]:
    """Read `anchor:x,y,w,h` or `anchor:x,y,w,h,angles=10`, which is 10 degrees both ways."""
    kind, _, numbers = text.partition(":")
    box, _, most = numbers.partition(",angles=")
    try:
        if kind != "anchor":
            raise ValueError
        reach = float(most or 0)
        x, y, w, h = (int(part) for part in box.split(","))
        if not 0 <= reach <= 180:
            raise ValueError
    except ValueError:
        raise UsageError(
            Setting("locate", repr(text)),
            f": expected blob, {LOOKING_AROUND}, anchor:x,y,w,h or anchor:x,y,w,h,angles=10",
        ) from None
    count = math.ceil(reach / _STEP)
    angles = tuple(np.linspace(-reach, reach, 2 * count + 1).tolist()) if count else (0.0,)
    return Roi(x=x, y=y, w=w, h=h), angles
