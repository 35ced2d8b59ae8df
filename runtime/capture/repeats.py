"""Detect a picture that repeats the one before: a sensor has noise, so it is no new exposure."""

import numpy as np
from numpy.typing import NDArray

_STEP = 97  # bytes between those that are looked at first; no divisor of a usual row


class Repeats:
    """The last picture of a source, kept also while the source is lost."""

    def __init__(self) -> None:
        self._last_hwc: NDArray[np.uint8] | None = None

    def is_repeat(self, image_hwc: NDArray[np.uint8]) -> bool:
        """Whether this picture equals the one before; for most pictures a few bytes decide."""
        last_hwc, self._last_hwc = self._last_hwc, image_hwc
        if last_hwc is None or last_hwc.shape != image_hwc.shape:
            return False
        if not np.array_equal(_some(last_hwc), _some(image_hwc)):
            return False
        return np.array_equal(last_hwc, image_hwc)


def _some(image_hwc: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return image_hwc.reshape(-1)[::_STEP]
