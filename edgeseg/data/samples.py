"""Samples of a dataset, and batches of them: decoded ahead, in order, bad files counted."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.base.messages import Setting
from edgeseg.vision.geometry import PLAIN, Found, Geometry, View
from edgeseg.vision.ignored import hidden_of, paint_ignored, polygon_mask, read_regions
from edgeseg.vision.images import read_mask, read_mask_stack, read_video_frame, read_with_bits
from edgeseg.vision.picture_size import MAX_PIXELS
from edgeseg.vision.unreadable import unreadable_error

GOOD = "good"
# Pixels that go through a backbone at once: eight images of 512x512. Activations need about 250
# bytes a pixel, so a batch stays near 0.5 GB; a frame that is larger by itself goes alone.
MOST_PIXELS = 8 * 512 * 512


class TooManyUnreadableError(DatasetError):
    """More pictures cannot be read than the options allow."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A picture, its label and kind, and the place of its mask."""

    image: Path
    # A picture, or a .json of outlines; None: it is good, or its label is all that is known of it.
    mask: Path | None = None
    label: int = 0  # 0 good, 1 defective
    kind: str = GOOD
    image_index: int | None = None  # the frame, where `image` is a video
    mask_index: int | None = None  # the frame, where `mask` is a .npy of (T, H, W)
    variant: str | None = None  # of the product, where folders tell it
    part_number: int | None = None  # of the parts in it that are judged, where it shows several

    def __post_init__(self) -> None:
        if self.label not in (0, 1) or (self.label == 0) != (self.kind == GOOD):
            raise DatasetError(
                f"{self.image}: label {self.label} with kind {self.kind!r}, "
                f"expected 0 with {GOOD!r} or 1 with the name of a defect"
            )

    @property
    def is_marked(self) -> bool:
        """Whether it is known which of its pixels are defective: none of a good picture."""
        return self.label == 0 or self.mask is not None

    @property
    def name(self) -> str:
        """The path of the picture, and the number of the frame where it is a video."""
        path = self.image.as_posix()
        return path if self.image_index is None else f"{path}#{self.image_index}"

    @property
    def order(self) -> tuple[str, int]:
        """A sort key that does not depend on the order of the file system."""
        return self.image.as_posix(), self.image_index or 0


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Decoded samples, all of one size."""

    samples: tuple[Sample, ...]
    frames: NDArray[np.uint8]  # (N, H, W, 3) RGB
    # (H, W) each; of a good picture all False, None of a defective one that nobody has marked
    masks: tuple[NDArray[np.bool_] | None, ...]
    sizes_hw: tuple[tuple[int, int], ...]  # of the pictures as they are
    views: tuple[View, ...]  # how each was looked at
    found: tuple[Found | None, ...]  # what came of looking for its part; None: it is not looked for
    used_bits: tuple[int | None, ...]  # of 16 in each file; None: it has 8


def read_sample(
    sample: Sample, size_hw: tuple[int, int], geometry: Geometry = PLAIN
) -> tuple[NDArray[np.uint8], NDArray[np.bool_] | None]:
    """Decode a sample's picture (H, W, 3) and mask (H, W) at the given size.

    The mask is None where a picture is defective and nobody has marked where.
    """
    decoded = _decode(sample, size_hw, geometry)
    return decoded.frame_hwc, decoded.mask_hw


@dataclass(frozen=True, kw_only=True)
class _Decoded:
    sample: Sample
    frame_hwc: NDArray[np.uint8]
    mask_hw: NDArray[np.bool_] | None
    size_hw: tuple[int, int]  # of the picture as it is
    view: View
    found: Found | None
    used_bits: int | None


def _decode(
    sample: Sample,
    size_hw: tuple[int, int],
    geometry: Geometry,
    *,
    max_pixels: int = MAX_PIXELS,
    lenient: bool = True,
) -> _Decoded:
    image_hwc, used_bits = _read(sample, max_pixels=max_pixels)
    height, width = image_hwc.shape[:2]
    try:
        geometry.check((height, width), name=str(sample.image))
    except UsageError as error:
        raise DatasetError(error) from None
    view, found = _look(sample, image_hwc, size_hw, geometry)
    if found is not None and found.pose is None and not lenient:
        raise DatasetError(f"{sample.image}: no part is found in it ({found.reason})")
    mask_hw = _read_mask(sample, view, max_pixels=max_pixels)
    hidden = hidden_of(geometry, size_hw)
    return _Decoded(
        sample=sample,
        frame_hwc=paint_ignored(view.picture(image_hwc), geometry),
        mask_hw=mask_hw if hidden is None or mask_hw is None else mask_hw & ~hidden.pixels_hw,
        size_hw=(height, width),
        view=view,
        found=found,
        used_bits=used_bits,
    )


def _look(
    sample: Sample, image_hwc: NDArray[np.uint8], size_hw: tuple[int, int], geometry: Geometry
) -> tuple[View, Found | None]:
    """Return how a picture, or one of its parts, is looked at."""
    frame_hw = image_hwc.shape[:2]
    several = geometry.several
    if several is not None:
        seen, number = several.find_parts(image_hwc), sample.part_number
        if number is None or number >= len(seen.judged):
            why = [part.found.reason for part in seen.parts] or [seen.lacking]
            raise DatasetError(f"{sample.image}: no part in it can be judged ({why[0]})")
        part = seen.judged[number]
        return geometry.part_view(frame_hw, size_hw, part), part.found
    found = geometry.find(image_hwc)
    return geometry.view(frame_hw, size_hw, None if found is None else found.look), found


def _read_mask(sample: Sample, view: View, *, max_pixels: int) -> NDArray[np.bool_] | None:
    if sample.mask is None:
        return np.zeros(view.size_hw, np.bool_) if sample.is_marked else None
    mask_hw = read_mask_of(sample, view.frame_hw, max_pixels=max_pixels)
    return None if mask_hw is None else view.mask(mask_hw)


def read_mask_of(
    sample: Sample, frame_hw: tuple[int, int], *, max_pixels: int = MAX_PIXELS
) -> NDArray[np.bool_] | None:
    """Read the mask of a picture in its own size; None of a defect that nobody has marked."""
    if sample.mask is None:
        return np.zeros(frame_hw, np.bool_) if sample.is_marked else None
    if sample.mask.suffix == ".json":
        return polygon_mask(read_regions(sample.mask), frame_hw)
    if sample.mask_index is None:
        mask_hw = read_mask(sample.mask, max_pixels=max_pixels)
    else:
        mask_hw = read_mask_stack(sample.mask, sample.mask_index)
    if mask_hw.shape != frame_hw:
        raise DatasetError(
            f"{sample.mask}: mask of {mask_hw.shape[0]}x{mask_hw.shape[1]} for a picture of "
            f"{frame_hw[0]}x{frame_hw[1]} (height x width), expected the same size"
        )
    return mask_hw


def _read(sample: Sample, *, max_pixels: int) -> tuple[NDArray[np.uint8], int | None]:
    if sample.image_index is None:
        return read_with_bits(sample.image, max_pixels=max_pixels)
    return read_video_frame(sample.image, sample.image_index, max_pixels=max_pixels), None


def read_picture(sample: Sample, *, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8]:
    """Read a sample's picture in its own size."""
    return _read(sample, max_pixels=max_pixels)[0]


def sample_size(sample: Sample, *, max_pixels: int = MAX_PIXELS) -> tuple[int, int]:
    """Return height and width of a sample's picture."""
    height, width = read_picture(sample, max_pixels=max_pixels).shape[:2]
    return height, width


def named_with_others(
    error: DatasetError, samples: Sequence[Sample], *, max_pixels: int
) -> DatasetError:
    """Return an error that names every picture that cannot be read, where `error` is about one."""
    faults = []
    for sample in samples:
        try:
            read_picture(sample, max_pixels=max_pixels)
        except DatasetError as fault:
            faults.append(fault)
    return error if len(faults) < 2 else unreadable_error(faults, of=len(samples))


def frames_at_once(
    size_hw: tuple[int, int], *, most: int, least: int = 1, pixels: int = MOST_PIXELS
) -> int:
    """Return how many frames to process together: `most`, or fewer where they are large."""
    return max(least, min(most, pixels // (size_hw[0] * size_hw[1])))


def load_batches(
    samples: Sequence[Sample],
    *,
    size_hw: tuple[int, int],
    geometry: Geometry = PLAIN,
    batch_size: int,
    max_bad: int = 0,
    on_bad: Callable[[Path, str], None] | None = None,
    lenient: bool = True,
    workers: int = 2,
    max_pixels: int = MAX_PIXELS,
) -> Iterator[Batch]:
    """Yield batches in the order of the samples; skip up to `max_bad` unreadable ones.

    A picture without a part counts as unreadable, unless `lenient`: then it is used as it is.
    """
    if batch_size < 1 or workers < 1 or max_bad < 0:
        raise UsageError(
            f"batch size {batch_size}, {workers} workers, {max_bad} bad files allowed: "
            "expected at least 1, 1 and 0"
        )
    decode = partial(
        _decode, size_hw=size_hw, geometry=geometry, max_pixels=max_pixels, lenient=lenient
    )
    return _batches(
        _good_ones(samples, decode, max_bad=max_bad, on_bad=on_bad, workers=workers), batch_size
    )


Decode = Callable[[Sample], _Decoded]


def _batches(pictures: Iterator[_Decoded], batch_size: int) -> Iterator[Batch]:
    while group := list(islice(pictures, batch_size)):
        yield Batch(
            samples=tuple(decoded.sample for decoded in group),
            frames=np.stack([decoded.frame_hwc for decoded in group]),
            masks=tuple(decoded.mask_hw for decoded in group),
            sizes_hw=tuple(decoded.size_hw for decoded in group),
            views=tuple(decoded.view for decoded in group),
            found=tuple(decoded.found for decoded in group),
            used_bits=tuple(decoded.used_bits for decoded in group),
        )


def _good_ones(
    samples: Sequence[Sample],
    decode: Decode,
    *,
    max_bad: int,
    on_bad: Callable[[Path, str], None] | None,
    workers: int,
) -> Iterator[_Decoded]:
    faults: list[DatasetError] = []
    for sample, future in _decode_ahead(samples, decode, workers):
        try:
            decoded = future.result()
        except DatasetError as error:
            faults.append(error)
            if len(faults) <= max_bad and on_bad is not None:
                on_bad(sample.image, str(error))
        else:
            if len(faults) <= max_bad:  # else the rest is read to name all that cannot be
                yield decoded
    if len(faults) > max_bad:
        raise TooManyUnreadableError(*_too_many(faults, of=len(samples), max_bad=max_bad).args)
    if samples and len(faults) == len(samples):
        raise unreadable_error(faults, of=len(samples))


def _decode_ahead(
    samples: Sequence[Sample], decode: Decode, workers: int
) -> Iterator[tuple[Sample, Future[_Decoded]]]:
    """Decode in threads (OpenCV frees the interpreter lock), at most four per worker ahead."""
    pending: deque[tuple[Sample, Future[_Decoded]]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="decode")
    try:
        for sample in samples:
            pending.append((sample, pool.submit(decode, sample)))
            if len(pending) > 4 * workers:
                yield pending.popleft()
        while pending:
            yield pending.popleft()
    finally:
        # A caller that stops early should not wait for pictures that nobody will see.
        pool.shutdown(wait=True, cancel_futures=True)


def _too_many(faults: list[DatasetError], *, of: int, max_bad: int) -> DatasetError:
    them = "it" if len(faults) == 1 else "them"
    allow = Setting("max_bad", len(faults))
    advice = ["; repair or remove ", them, ", or skip such files with ", allow]
    if max_bad:
        advice = ["; more than ", Setting("max_bad", max_bad), *advice]
    return unreadable_error(faults, of=of, advice=advice)
