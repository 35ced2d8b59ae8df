"""Convert a camera's pixels, by GenICam's number of the format, to a picture of three channels."""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.vision.frames import Channels
from edgeseg.vision.images import to_8_bit


class PixelFormat(NamedTuple):
    """The layout of one pixel in memory."""

    name: str
    bits: int = 8  # that count; above 8 they are the lower ones of two bytes
    colours: int = 1  # values of a pixel
    bayer: int | None = None  # OpenCV's code that fills in the colours
    channels: Channels = "bgr"


# By the code of the standard (PFNC); GenICam names a mosaic by its first two pixels.
_MOSAICS = {
    "GR": cv2.COLOR_BayerGRBG2BGR,
    "RG": cv2.COLOR_BayerRGGB2BGR,
    "GB": cv2.COLOR_BayerGBRG2BGR,
    "BG": cv2.COLOR_BayerBGGR2BGR,
}
FORMATS = {
    0x01080001: PixelFormat("Mono8"),
    0x01100003: PixelFormat("Mono10", bits=10),
    0x01100005: PixelFormat("Mono12", bits=12),
    0x01100025: PixelFormat("Mono14", bits=14),
    0x01100007: PixelFormat("Mono16", bits=16),
    0x02180014: PixelFormat("RGB8", colours=3, channels="rgb"),
    0x02180015: PixelFormat("BGR8", colours=3),
    **{
        first + place: PixelFormat(f"Bayer{mosaic}{bits}", bits=bits, bayer=code)
        for bits, first in ((8, 0x01080008), (10, 0x0110000C), (12, 0x01100010), (16, 0x0110002E))
        for place, (mosaic, code) in enumerate(_MOSAICS.items())
    },
}
NAMES = tuple(item.name for item in FORMATS.values())


def picture(data: bytes, size_hw: tuple[int, int], pixel: PixelFormat) -> NDArray[np.uint8] | None:
    """Convert a frame to (H, W, 3) in a new array; None when bytes are missing."""
    shape = size_hw if pixel.colours == 1 else (*size_hw, pixel.colours)
    count = int(np.prod(shape))
    dtype = np.dtype(np.uint8 if pixel.bits == 8 else "<u2")
    if count == 0 or len(data) < count * dtype.itemsize:
        return None
    values = np.frombuffer(data, dtype, count).reshape(shape)
    pixels = to_8_bit(_over_16_bits(values, pixel.bits), name=f"a frame in {pixel.name}")
    if pixel.bayer is not None:
        return np.asarray(cv2.cvtColor(pixels, pixel.bayer), np.uint8)
    if pixel.colours == 1:
        return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_GRAY2BGR), np.uint8)
    return np.array(pixels)


def _over_16_bits(values: NDArray[np.generic], bits: int) -> NDArray[np.generic]:
    """Stretch to 0..65535, so that the camera's white is the white of a 16-bit picture."""
    if bits in (8, 16):
        return values
    wide = values.astype(np.uint16)
    # The upper bits fill the lower: 0 stays 0, all ones stay all ones, and steps stay even.
    return (wide << (16 - bits)) | (wide >> (2 * bits - 16))
