"""Check a locator on good images that are moved on purpose."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.vision.anchor import Anchor
from edgeseg.vision.blobs import Blobs
from edgeseg.vision.geometry import PLAIN, Geometry, Pose
from edgeseg.vision.locate import Blob
from edgeseg.vision.pose import for_opencv

MOVED_AND_FOUND = 40  # good images
COMPARED = 16  # of them with each other, all in memory
_SHIFT, _TURN = 0.04, 5.0  # share of the shorter side, degrees
_OFF = 0.02  # of the longer side: at more the part is not what is followed
_SMALL = 128  # pixels of a side that images are compared at
_SEED = 15


def draw_pose(
    rng: np.random.Generator, size_hw: tuple[int, int], shift: float, turn: float
) -> Pose:
    """Draw a pose within so many pixels and degrees, about the middle of the picture."""
    x, y, degrees = rng.uniform(-1, 1, 3) * (shift, shift, turn)
    home = (size_hw[1] / 2, size_hw[0] / 2)
    return Pose(x=home[0] + x, y=home[1] + y, degrees=degrees, home_xy=home)


def move_part(
    picture: NDArray[np.uint8], pose: Pose, *, nearest: bool = False
) -> NDArray[np.uint8]:
    """Move the part of a picture to a pose; beyond its border the picture is extended."""
    height, width = picture.shape[:2]
    how = cv2.INTER_NEAREST if nearest else cv2.INTER_CUBIC
    border = cv2.BORDER_CONSTANT if nearest else cv2.BORDER_REPLICATE
    matrix = for_opencv(pose.matrix)
    done = cv2.warpAffine(picture, matrix, (width, height), flags=how, borderMode=border)
    return np.asarray(done, np.uint8)


def follow_error(geometry: Geometry, image_hwc: NDArray[np.uint8], planted: Pose) -> float | None:
    """Return how far a corner lands from where a known move puts it; None: part not found."""
    height, width = image_hwc.shape[:2]
    locator = geometry.locator  # where good parts lay, and whether a border cuts them, is not asked
    if isinstance(locator, Blob):
        locator = replace(locator, free=False)
    if locator is not None and not isinstance(locator, Blobs):
        geometry = replace(geometry, locator=replace(locator, places=None))
    before, after = geometry.find(image_hwc), geometry.find(move_part(image_hwc, planted))
    if before is None or after is None or before.pose is None or after.pose is None:
        return None
    if not (before.ok and after.ok):
        return None
    home = np.array([[0, 0, 1], [width, 0, 1], [0, height, 1], [width, height, 1.0]])
    at_rest = np.hstack([home @ before.pose.matrix.T, np.ones((4, 1))])
    offset = home @ after.pose.matrix.T - at_rest @ planted.matrix.T
    return float(np.hypot(*offset.T).max())


def follow_errors(geometry: Geometry, images: Iterable[NDArray[np.uint8]]) -> Iterator[float]:
    """Yield the errors of moves that every locator should follow; infinite for a lost part."""
    rng = np.random.default_rng(_SEED)
    for image_hwc in images:
        height, width = image_hwc.shape[:2]
        turn = _turn(geometry.locator)
        planted = draw_pose(rng, (height, width), _SHIFT * min(height, width), turn)
        error = follow_error(geometry, image_hwc, planted)
        yield math.inf if error is None else error


def follows(error: float, size_hw: tuple[int, int]) -> bool:
    """Return whether an error is small enough for the same places to be compared."""
    return error <= _OFF * max(size_hw)


def scatter_located(geometry: Geometry, images: Sequence[NDArray[np.uint8]]) -> float:
    """Return how much good images differ when parts are followed, relative to when not."""
    looks = [geometry.find(image) for image in images]
    located = [None if found is None else found.look for found in looks]
    return _scatter(images, located) / max(_scatter(images, [None] * len(images)), 1e-9)


def _scatter(images: Sequence[NDArray[np.uint8]], poses: Sequence[Pose | None]) -> float:
    size_hw = (_SMALL, _SMALL)
    inputs = [
        PLAIN.view(image.shape[:2], size_hw, pose).picture(image)
        for image, pose in zip(images, poses, strict=True)
    ]
    return float(np.stack(inputs).astype(np.float32).std(axis=0).mean())


def _turn(locator: Blob | Anchor | Blobs | None) -> float:
    if isinstance(locator, Blob):
        return 0.0 if locator.turns == "none" else _TURN
    return min(_TURN, max(locator.angles)) if isinstance(locator, Anchor) else 0.0
