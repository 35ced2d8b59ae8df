"""Open data as a user has it: a folder on disk, or images in memory."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError
from edgeseg.base.files import temporary_folder
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.vision.frames import Channels, check_frame
from edgeseg.vision.images import resize_image, write_image

Folder = str | os.PathLike[str]
Data = Folder | Iterable[NDArray[np.uint8]]  # images are uint8 (height, width, 3)


@contextmanager
def open_data(
    data: Data,
    *,
    size_hw: tuple[int, int] | None,
    channels: Channels = "rgb",
    layout: str | None = None,
    fold: int | None = None,
    seed: int = 0,
) -> Iterator[Dataset]:
    """Yield the dataset of a folder, or one made of images for as long as the context lasts.

    Without a size images stay as they are: places are named in their own pixels.
    """
    if isinstance(data, str | os.PathLike):
        yield open_dataset(Path(data), layout=layout, fold=fold, seed=seed)
        return
    # On disk at the model's size, however many they are: the fit looks at images more than once,
    # and an iterable may be a camera.
    with temporary_folder(Path(tempfile.gettempdir()), name="edgeseg") as folder:
        count, resized = 0, False
        for count, image_hwc in enumerate(data, start=1):
            check_frame(image_hwc, channels, name=f"image {count}")
            resized_hwc = image_hwc if size_hw is None else resize_image(image_hwc, size_hw)
            resized = resized or resized_hwc is not image_hwc
            target = folder / f"{count:08}.png"
            write_image(target, resized_hwc if channels == "rgb" else resized_hwc[:, :, ::-1])
            os.utime(target, (0, 0))  # a model tells the age of its images, and these have none
        if count == 0:
            raise DatasetError("no images were given; expected at least one of a good part")
        # The folder's own name is random, and the same images should give the same file.
        dataset = open_dataset(folder, layout="folder")
        yield replace(dataset, name="part", resized=resized)
