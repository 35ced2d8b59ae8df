"""The smallest defect that matters: whether the grid can show it, and planted spots that prove it.

settings, camera --what_is_seen--> a sentence before the fit; a defect below a pixel is refused
good images, as the camera gives them --spots_on--> copies with one spot of that size each
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.base.messages import Message, Setting
from edgeseg.base.plain import JsonObject
from edgeseg.config import FitConfig
from edgeseg.data.planted.planting import Planted, plant
from edgeseg.data.samples import Sample, load_batches
from edgeseg.decision.planted_scores import PlantedScores
from edgeseg.vision.ignored import hidden_of, paint_ignored
from edgeseg.vision.images import resize_image

SPOTS = 24  # copies, at most
KINDS = ("stain", "colour")  # blobs, soft and sharp, darker, lighter or of another colour
_STEP = 32  # pixels: inputs that every backbone takes are multiples of it


@dataclass(frozen=True, kw_only=True)
class CellSize:
    """The size of the model's pixels and cells in pixels of the camera."""

    pixel: float  # the longer side of a pixel of the input
    cell: float
    looked_at_hw: tuple[int, int]  # what is resized to the input: the picture or its region

    @classmethod
    def of(cls, config: FitConfig, camera_hw: tuple[int, int]) -> "CellSize":
        """Compute them for a camera, of settings that know where parts lie."""
        looked_at_hw = looked_at(config, camera_hw)
        sides = zip(looked_at_hw, config.image_hw, strict=True)
        pixel = max(shown / side for shown, side in sides)
        return cls(pixel=pixel, cell=pixel * config.stride, looked_at_hw=looked_at_hw)


def looked_at(config: FitConfig, camera_hw: tuple[int, int]) -> tuple[int, int]:
    """Return height and width of what becomes the input, in pixels of the camera."""
    inputs = config.geometry.of_inputs
    if inputs.roi is not None:
        return inputs.roi.h, inputs.roi.w
    return inputs.camera_hw or camera_hw


def what_is_seen(config: FitConfig, camera_hw: tuple[int, int], smallest: int) -> Message:
    """Say whether a defect of so many pixels of the camera covers a cell; refuse one below a pixel.

    The sentence names the region and the input with which it would cover one.
    """
    size = CellSize.of(config, camera_hw)
    advice = _advice(config, size, smallest)
    if smallest < size.pixel:
        raise UsageError(
            Setting("smallest", smallest),
            ": ",
            Message("smallest_lost", n=smallest, n_pixel=size.pixel, advice=advice),
        )
    if smallest < size.cell:
        return Message("smallest_faint", n=smallest, n_cell=size.cell, advice=advice)
    return Message("smallest_seen", n=smallest, n_cells=smallest / size.cell, n_cell=size.cell)


def _advice(config: FitConfig, size: CellSize, smallest: int) -> Message:
    room = [math.floor(side / config.stride * smallest) for side in config.image_hw]
    wanted = [side * config.stride / smallest for side in size.looked_at_hw]
    height, width = (_STEP * math.ceil(side / _STEP) for side in wanted)
    return Message("smallest_advice", region=f"{room[1]}x{room[0]}", size=f"{width}x{height}")


@dataclass(frozen=True, kw_only=True)
class Spot:
    """A good image with a planted spot, as the camera gives it and as the model sees it."""

    place: int  # of the image in its list
    planted: Planted
    input_hwc: NDArray[np.uint8]
    inside: NDArray[np.bool_] | None  # cells that the camera saw; None: all of them


def spots_on(
    samples: Sequence[Sample], places: Sequence[int], *, config: FitConfig, smallest: int
) -> Iterator[Spot]:
    """Yield copies of the images at these places, where a spot of that size is visible."""
    for place in places:
        spot = _spot(samples[place], place, config=config, smallest=smallest)
        if spot is not None:
            yield spot


def _spot(sample: Sample, place: int, *, config: FitConfig, smallest: int) -> Spot | None:
    # The region as the camera sees it: a pixel of the camera is a pixel here.
    geometry = config.geometry
    (first,) = load_batches([sample], size_hw=config.image_hw, geometry=geometry, batch_size=1)
    fine_hw = looked_at(config, first.sizes_hw[0])
    (batch,) = load_batches([sample], size_hw=fine_hw, geometry=geometry, batch_size=1)
    try:
        planted = plant(
            batch.frames[0],
            (),
            kind=KINDS[place % len(KINDS)],
            area=min(smallest**2 / (fine_hw[0] * fine_hw[1]), 1.0),
            rng=np.random.default_rng([config.seed, place, smallest]),
        )
    except DatasetError:  # nothing of that size would be visible there
        return None
    hidden = hidden_of(geometry, fine_hw)
    if hidden is not None and (planted.mask_hw & hidden.pixels_hw).any():
        return None
    return Spot(
        place=place,
        planted=planted,
        input_hwc=paint_ignored(resize_image(planted.image_hwc, config.image_hw), geometry),
        inside=batch.views[0].inside(config.grid_hw),
    )


def smallest_facts(
    smallest: int, config: FitConfig, camera_hw: tuple[int, int], spots: PlantedScores | None
) -> JsonObject:
    """Return what a model's header says of the smallest defect, with the scores of its spots."""
    size = CellSize.of(config, camera_hw)
    scores = () if spots is None else spots.scores
    return {
        "px": smallest,
        "cell_px": round(size.cell, 3),
        "scores": [float(score) for score in scores],
    }


def without_spots(data: JsonObject) -> JsonObject:
    """Return facts of a changed model: spots that an earlier one judged say nothing of it."""
    facts = data.get("smallest")
    return data if facts is None else data | {"smallest": facts | {"scores": []}}
