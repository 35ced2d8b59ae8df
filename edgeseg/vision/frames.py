"""Pictures that callers pass in: files, or arrays of 8 and 16 bits, grey and in colour."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.vision.images import pictures_below, read_image, to_8_bit

Channels = Literal["rgb", "bgr"]  # OpenCV captures BGR
# A file, or an array of uint8 or uint16: (height, width), or (height, width, 1, 3 or 4).
Picture = str | os.PathLike[str] | NDArray[Any]
PictureT = TypeVar("PictureT", bound=Picture)
_EXPECTED = "8 or 16 bits, grey (height, width) or in colour (height, width, 3)"


def frame_of(
    picture: Picture, channels: Channels, *, name: str = "frame"
) -> tuple[NDArray[np.uint8], Channels]:
    """Return a picture as a frame (H, W, 3) of 8 bits, and the order of its channels.

    An array becomes what a file of it would be read as: 16 bits are scaled by one rule for all
    pictures, grey is repeated, and a fourth channel is dropped.
    """
    if channels not in ("rgb", "bgr"):
        raise UsageError(f"channels={channels!r}: expected 'rgb', or 'bgr' for OpenCV's captures")
    if isinstance(picture, str | os.PathLike):
        return read_image(Path(picture)), "rgb"
    if not isinstance(picture, np.ndarray):
        hint = "; cv2.imread gives None for a file that it cannot read" * (picture is None)
        raise UsageError(
            f"{name}: a {type(picture).__name__}, expected a path, or a numpy array of "
            f"{_EXPECTED}{hint}"
        )
    return _frame(picture, name), channels


def _frame(array: NDArray[Any], name: str) -> NDArray[np.uint8]:
    shape, layers = array.shape, array.shape[2] if array.ndim == 3 else 1
    known = array.ndim in (2, 3) and layers in (1, 3, 4) and array.size
    if not known or array.dtype not in (np.uint8, np.uint16):
        raise UsageError(f"{name}: {array.dtype} {shape}, expected {_EXPECTED}")
    frame = to_8_bit(array, name=name)
    if layers == 1:
        return np.repeat(frame.reshape(*shape[:2], 1), 3, axis=2)
    return frame if layers == 3 else np.ascontiguousarray(frame[:, :, :3])


def each_picture(given: Any) -> Iterator[Picture]:
    """Yield the pictures of a list, a folder, or a list with folders in it, by name."""
    for one in [given] if isinstance(given, str | os.PathLike) else given:
        if isinstance(one, str | os.PathLike) and Path(one).is_dir():
            below = pictures_below(Path(one))
            if not below:
                raise UsageError(f"{one}: no pictures in this folder or below it")
            yield from below
        else:
            yield one
