"""Checks of frames that callers pass in, and of the order of their channels."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError

Channels = Literal["rgb", "bgr"]  # OpenCV captures BGR


def check_frame(frame_hwc: NDArray[np.uint8], channels: str, *, name: str = "frame") -> None:
    """Refuse what is not a picture, and an unknown order of channels."""
    if channels not in ("rgb", "bgr"):
        raise UsageError(f"channels={channels!r}: expected 'rgb', or 'bgr' for OpenCV's captures")
    if not isinstance(frame_hwc, np.ndarray):
        raise UsageError(
            f"{name}: a {type(frame_hwc).__name__}, expected a numpy array of uint8 "
            "(height, width, 3)"
        )
    shape = frame_hwc.shape
    if frame_hwc.dtype == np.uint8 and len(shape) == 3 and shape[2] == 3 and frame_hwc.size:
        return
    hint = "; repeat a grey one: np.dstack([frame] * 3)" if len(shape) == 2 else ""
    raise UsageError(f"{name}: {frame_hwc.dtype} {shape}, expected uint8 (height, width, 3){hint}")
