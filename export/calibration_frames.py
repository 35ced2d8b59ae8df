"""Choose the images that a graph is quantised with and verified on."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.data.part_samples import PartSamples
from edgeseg.data.planted.planting import planted_set
from edgeseg.data.samples import Sample, frames_at_once, load_batches
from edgeseg.data.synthetic.scene import SceneGenerator

# Enough to cover the range of activations; the quantiser looks at each of them once.
CALIBRATION_IMAGES = 64
# Fewer of larger frames: each of them covers the range many times.
CALIBRATION_PIXELS = CALIBRATION_IMAGES * 512 * 512
LEAST_IMAGES = 8
_SYNTHETIC = 8


def calibration_frames(dataset: Dataset, config: FitConfig) -> NDArray[np.uint8]:
    """Return good inputs of a model (N, H, W, 3) to quantise with and to verify on.

    They are spread over the whole dataset. Of a model that was fitted on tiles, the place of the
    tile changes from image to image.
    """
    most = frames_at_once(
        config.size_hw, most=CALIBRATION_IMAGES, least=LEAST_IMAGES, pixels=CALIBRATION_PIXELS
    )
    chosen = _of_variants(dataset.train, most) if config.variants else _spread(dataset.train, most)
    if config.geometry.several is not None:
        chosen = _spread(PartSamples(geometry=config.geometry).of(chosen), most)
    batches = load_batches(chosen, size_hw=config.image_hw, geometry=config.geometry, batch_size=1)
    frames = (batch.frames[0] for batch in batches)
    tiling = config.tiling
    if tiling is None:
        return np.stack(list(frames))
    places = len(tiling.corners_yx())
    each = min(places, -(-most // len(chosen)))
    # Frames are let go one by one: tiles are copied out of them.
    return np.stack(
        [
            tiling.cut(frame)[(number * each + offset) % places].copy()
            for number, frame in enumerate(frames)
            for offset in range(each)
        ]
    )


def _spread(samples: Sequence[Sample], most: int) -> Sequence[Sample]:
    return samples[:: max(1, len(samples) // most)][:most]


def _of_variants(samples: Sequence[Sample], most: int) -> list[Sample]:
    """Choose as many of each variant, in turn: the first ones of them are of all variants, too."""
    members: dict[str | None, list[Sample]] = {}
    for sample in samples:
        members.setdefault(sample.variant, []).append(sample)
    each = [_spread(own, max(1, most // len(members))) for own in members.values()]
    return [sample for turn in zip_longest(*each) for sample in turn if sample is not None]


def synthetic_frames(config: FitConfig) -> NDArray[np.uint8]:
    """Draw pictures of a part that the model does not know, for exports without images."""
    scene = SceneGenerator(size_hw=config.size_hw, seed=config.seed)
    return np.stack([scene.good(index) for index in range(_SYNTHETIC)])


def copies_with_defects(images: NDArray[np.uint8], *, seed: int) -> NDArray[np.uint8]:
    """Copy each image and plant a defect in it; images that would hide a defect are left out."""
    copies = []
    for place in range(len(images)):
        with suppress(DatasetError):
            (planted,) = planted_set(list(images), places=(place,), per_image=1, seed=seed)
            copies.append(planted.image_hwc)
    return np.stack(copies) if copies else images[:0]
