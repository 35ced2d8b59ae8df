"""Open data as a user has it: a folder on disk, or images in memory."""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.base.files import temporary_folder
from edgeseg.base.messages import Setting
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.data.known_defects import UNNAMED_KIND, read_kind_order, read_known_defects
from edgeseg.data.samples import Sample
from edgeseg.vision.frames import Channels, Picture, each_picture, frame_of
from edgeseg.vision.images import resize_image, write_image

Folder = str | os.PathLike[str]
Data = Folder | Iterable[Picture]
# Known defects: a folder of folders by kind, pictures of one kind, or {kind: pictures}.
KnownData = Folder | Iterable[Picture] | Mapping[str, Iterable[Picture]]


@contextmanager
def open_data(
    data: Data,
    *,
    size_hw: tuple[int, int] | None,
    channels: Channels = "rgb",
    layout: str | None = None,
    fold: int | None = None,
    seed: int = 0,
    variants: bool = False,
) -> Iterator[Dataset]:
    """Yield the dataset of a folder, or one made of images for as long as the context lasts.

    Without a size images stay as they are: places are named in their own pixels.
    """
    if isinstance(data, str | os.PathLike):
        yield open_dataset(Path(data), layout=layout, fold=fold, seed=seed, variants=variants)
        return
    if isinstance(data, np.ndarray) and data.ndim == 3 and data.shape[2] in (1, 3, 4):
        raise UsageError(f"one picture {data.shape}, expected several: a list, or (N, ...)")
    if variants:
        raise UsageError(
            Setting("variants", True),
            ": folders name the variants, and images in memory have none; give a folder",
        )
    # On disk at the model's size, however many they are: the fit looks at images more than once,
    # and an iterable may be a camera.
    with temporary_folder(Path(tempfile.gettempdir()), name="edgeseg") as folder:
        count, resized = 0, False
        for count, picture in enumerate(each_picture(data), start=1):
            image_hwc, order = frame_of(picture, channels, name=f"image {count}")
            resized_hwc = image_hwc if size_hw is None else resize_image(image_hwc, size_hw)
            resized = resized or resized_hwc is not image_hwc
            target = folder / f"{count:08}.png"
            write_image(target, resized_hwc if order == "rgb" else resized_hwc[:, :, ::-1])
            os.utime(target, (0, 0))  # a model tells the age of its images, and these have none
        if count == 0:
            raise DatasetError("no images were given; expected at least one of a good part")
        # The folder's own name is random, and the same images should give the same file.
        dataset = open_dataset(folder, layout="folder")
        yield replace(dataset, name="part", resized=resized)


def kind_order(known: KnownData) -> tuple[str, ...]:
    """Read the kinds whose numbers stay, where known defects are a folder that names them."""
    return read_kind_order(Path(known)) if isinstance(known, str | os.PathLike) else ()


@contextmanager
def open_known(
    known: KnownData | None, *, size_hw: tuple[int, int] | None, channels: Channels = "rgb"
) -> Iterator[tuple[Sample, ...]]:
    """Yield samples of known defects, some of them made of arrays for as long as the context lasts.

    Without a size arrays stay as they are.
    """
    if known is None or isinstance(known, str | os.PathLike):
        yield () if known is None else read_known_defects(Path(known))
        return
    kinds = known if isinstance(known, Mapping) else {UNNAMED_KIND: known}
    samples: list[Sample] = []
    with temporary_folder(Path(tempfile.gettempdir()), name="edgeseg") as folder:
        for kind, pictures in kinds.items():
            for picture in each_picture(pictures):
                path = Path(picture) if isinstance(picture, str | os.PathLike) else None
                if path is None:
                    name = f"known defect {len(samples) + 1}"
                    image_hwc, order = frame_of(picture, channels, name=name)
                    image_hwc = image_hwc if size_hw is None else resize_image(image_hwc, size_hw)
                    path = folder / f"{len(samples):08}.png"
                    write_image(path, image_hwc if order == "rgb" else image_hwc[:, :, ::-1])
                samples.append(Sample(image=path, label=1, kind=kind))
        if not samples:
            raise DatasetError("no known defects were given; expected at least one, or none")
        yield tuple(samples)
