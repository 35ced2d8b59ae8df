"""Copies of a project's good pictures with a defect drawn in, to try what a version finds.

As a fit makes them, but whole pictures of the camera, for the graph that runs.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError
from edgeseg.fitting.options import FitOptions
from edgeseg.fitting.planting import Plan, copies_of
from edgeseg.teach.project import Project
from edgeseg.vision.geometry import Polygon
from edgeseg.vision.ignored import polygon_mask
from edgeseg.vision.images import images_in, read_image

Image = NDArray[np.uint8]
_SEED = 0


def planted_copies(project: Project, *, ignored: Sequence[Polygon] = ()) -> Iterator[Image]:
    """Where the model looks, and not in places that it is about to ignore.

    None where none can be drawn.
    """
    region = project.settings().region
    frames = _some(project)
    if not frames:
        return
    height, width = frames[0].shape[:2]
    rows, columns = slice(0, height), slice(0, width)
    if region.roi and not region.locate:  # else it goes with the part
        x, y, w, h = (int(part) for part in region.roi.split(","))
        rows, columns = slice(max(0, y), y + h), slice(max(0, x), x + w)
    hidden_hw = polygon_mask(tuple(ignored), (height, width))[rows, columns]
    crops = [np.ascontiguousarray(frame[rows, columns]) for frame in frames]
    per_image = Plan.of(FitOptions.planted, images=len(frames), image_hw=(height, width)).per_image
    try:
        for number, planted in copies_of(crops, per_image=per_image, seed=_SEED):
            if not (planted.mask_hw & hidden_hw).any():
                copy_hwc = frames[number].copy()
                copy_hwc[rows, columns] = planted.image_hwc
                yield copy_hwc
    except DatasetError:
        return  # pictures too small to draw on


def _some(project: Project) -> list[Image]:
    """Good pictures of one size, from all over the folder, as many as get copies."""
    paths = images_in(project.pictures("good"))
    if not paths:
        return []
    first_hwc = read_image(paths[0])
    size_hw = first_hwc.shape[:2]
    plan = Plan.of(FitOptions.planted, images=len(paths), image_hw=(size_hw[0], size_hw[1]))
    step = max(1, len(paths) // plan.images)
    others = (read_image(path) for path in paths[step::step][: plan.images - 1])
    return [first_hwc, *(frame for frame in others if frame.shape[:2] == size_hw)]
