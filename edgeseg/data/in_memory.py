"""Data as people have it: a folder on disk, or images in memory."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.config import FitConfig
from edgeseg.contract.images import resize_image
from edgeseg.contract.prediction import Channels, check_frame
from edgeseg.data.datasets import Dataset, load_batches, open_dataset
from edgeseg.data.samples import frames_at_once
from edgeseg.errors import DatasetError
from edgeseg.evaluation.gallery import write_picture

Folder = str | os.PathLike[str]
Data = Folder | Iterable[NDArray[np.uint8]]  # images are uint8 (height, width, 3)

# Enough to cover the range of activations; the quantiser looks at each of them once.
CALIBRATION_IMAGES = 64
# Fewer of larger frames: each of them covers the range many times.
CALIBRATION_PIXELS = CALIBRATION_IMAGES * 512 * 512
LEAST_IMAGES = 8


@contextmanager
def open_data(
    data: Data,
    *,
    size_hw: tuple[int, int],
    channels: Channels = "rgb",
    layout: str | None = None,
    fold: int | None = None,
    seed: int = 0,
) -> Iterator[Dataset]:
    """The dataset of a folder, or one made of images for as long as the context lasts."""
    if isinstance(data, str | os.PathLike):
        yield open_dataset(Path(data), layout=layout, fold=fold, seed=seed)
        return
    # On disk at the model's size, however many they are: the fit looks at images more than once,
    # and an iterable may be a camera.
    with tempfile.TemporaryDirectory(prefix="edgeseg-") as folder:
        count = 0
        for count, image_hwc in enumerate(data, start=1):
            check_frame(image_hwc, channels, name=f"image {count}")
            resized_hwc = resize_image(image_hwc, size_hw)
            target = Path(folder) / f"{count:08}.png"
            write_picture(target, resized_hwc if channels == "rgb" else resized_hwc[:, :, ::-1])
            os.utime(target, (0, 0))  # a model tells the age of its images, and these have none
        if count == 0:
            raise DatasetError("no images were given; expected at least one of a good part")
        # The folder's own name is random, and the same images should give the same file.
        yield replace(open_dataset(Path(folder), layout="folder"), name="part")


def calibration_frames(dataset: Dataset, config: FitConfig) -> NDArray[np.uint8]:
    """Good inputs of a model (N, H, W, 3) to quantise with and to verify on.

    From all over the dataset; where a model was fitted on tiles, of all their places in turn.
    """
    most = frames_at_once(
        config.size_hw, most=CALIBRATION_IMAGES, least=LEAST_IMAGES, pixels=CALIBRATION_PIXELS
    )
    samples = dataset.train
    chosen = samples[:: max(1, len(samples) // most)][:most]
    batches = load_batches(chosen, size_hw=config.image_hw, batch_size=1)
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
