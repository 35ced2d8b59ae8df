"""Find the background that parts lie on, which does not count, by the outlines of the parts.

    silhouettes of good images --by their poses--> all that good parts cover, and a margin
    the rest --background--> polygons to ignore

Dust on a belt would otherwise set the threshold of a part that it has nothing to do with.
"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.vision.ignored import outlines, polygon_mask
from edgeseg.vision.locate import Silhouette
from edgeseg.vision.pose import Polygon, Pose, for_opencv

_MARGIN = 0.05  # of the picture's longer side around all that good parts cover: burrs are defects
# Cells that a region touches do not count, and every cell that a part touches has to: a diagonal.
_CELLS = 1.5
_RARE = 0.01  # share of the good images: what fewer cover is a shadow or an odd one
_SLACK = 2  # pixels of a silhouette that the way to the model's input may blur


def background(
    silhouettes: Sequence[Silhouette], poses: Sequence[Pose], *, cell: float
) -> tuple[Polygon, ...]:
    """Return polygons around what good parts cover, in the picture that places are named in.

    They reach beyond that picture, since others show more of the surroundings. `cell` is the
    longer side of a cell of the model's grid, in pixels of the camera.
    """
    covered_hw = _covered_pixels(silhouettes, poses)
    scale, longest = silhouettes[0].scale, max(silhouettes[0].mask_hw.shape)
    radius = round(max(_MARGIN * longest, _CELLS * cell / scale + _SLACK))
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1,) * 2)
    beyond = max(covered_hw.shape)
    wide = cv2.copyMakeBorder(
        covered_hw.astype(np.uint8), beyond, beyond, beyond, beyond, cv2.BORDER_CONSTANT
    )
    around = cv2.dilate(wide, disc) == 0
    return tuple(
        tuple(((x - beyond) * scale, (y - beyond) * scale) for x, y in polygon)
        for polygon in outlines(around, name="background")
    )


def _covered_pixels(silhouettes: Sequence[Silhouette], poses: Sequence[Pose]) -> NDArray[np.bool_]:
    """Return the pixels that good parts cover, each moved back to where the first lay."""
    height, width = silhouettes[0].mask_hw.shape
    counts = np.zeros((height, width), np.intp)
    for silhouette, pose in zip(silhouettes, poses, strict=True):
        matrix = pose.matrix.copy()
        matrix[:, 2] /= silhouette.scale
        laid_hw = cv2.warpAffine(
            silhouette.mask_hw,
            for_opencv(matrix),
            (width, height),
            flags=cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP,
        )
        counts += laid_hw != 0
    return np.asarray(counts > _RARE * len(poses), np.bool_)


def share_of(polygons: Sequence[Polygon], size_hw: tuple[int, int]) -> float:
    """Return the share of a picture that polygons cover."""
    return float(polygon_mask(tuple(polygons), size_hw).mean())
