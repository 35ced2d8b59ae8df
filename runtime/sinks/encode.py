"""RGB pictures as the bytes of a file."""

import cv2
import numpy as np
from numpy.typing import NDArray


def encode_jpeg(picture_hwc: NDArray[np.uint8], *, quality: int) -> bytes:
    """For people and pages."""
    return _encode(".jpg", picture_hwc, [cv2.IMWRITE_JPEG_QUALITY, quality])


def encode_png(picture_hwc: NDArray[np.uint8]) -> bytes:
    """Without loss, for fitting again; level 1 is far faster than the default, hardly larger."""
    return _encode(".png", picture_hwc, [cv2.IMWRITE_PNG_COMPRESSION, 1])


def _encode(suffix: str, picture_hwc: NDArray[np.uint8], options: list[int]) -> bytes:
    bgr = cv2.cvtColor(np.ascontiguousarray(picture_hwc), cv2.COLOR_RGB2BGR)
    done, data = cv2.imencode(suffix, bgr, options)
    if not done:
        raise ValueError(f"a picture of shape {picture_hwc.shape} could not be encoded")
    return data.tobytes()
