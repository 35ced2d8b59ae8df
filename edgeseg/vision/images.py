"""Pictures and masks: the one way to decode, to resize and to write them.

    file --read_image--> RGB uint8 (H, W, 3) --resize_image--> the model's input

The fit and the stream both go this way, so that a part looks on the device as it was fitted.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, EdgesegError, UsageError
from edgeseg.base.files import atomic_path
from edgeseg.base.messages import Message, Setting
from edgeseg.vision.arrays import open_array
from edgeseg.vision.opencv_log import quiet_opencv
from edgeseg.vision.picture_size import (
    JPEG,
    MAX_PIXELS,
    MOST_SCANS,
    PNG,
    PictureHeader,
    foreign_kind,
    most_png_data,
    picture_header,
)

IMAGE_SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".pgm", ".ppm", ".jp2"}
)
# Pictures as phones take them, which are not decoded: to skip them would be to fit on fewer
# pictures than somebody has put there.
_FOREIGN_SUFFIXES = frozenset({".heic", ".heif", ".avif"})

_QUALITY = 95  # of a JPEG that is written to a file
_AT_ONCE = 1 << 20  # values that are converted together


def is_image_file(path: PurePath) -> bool:
    """Return whether a name promises a picture: a known suffix, and not hidden."""
    return has_image_suffix(path) and not path.name.startswith(".")


def has_image_suffix(path: PurePath) -> bool:
    """Return whether a name ends like that of a picture, be it one that can be read or not."""
    return path.suffix.lower() in IMAGE_SUFFIXES | _FOREIGN_SUFFIXES


def images_in(folder: Path) -> list[Path]:
    """Return the pictures directly in a folder, sorted by name."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if is_image_file(path) and path.is_file())


def pictures_below(folder: Path) -> list[Path]:
    """Return the pictures in a folder, at any depth, sorted; what is hidden is ignored."""
    return sorted(
        path
        for path in folder.rglob("*.*")
        if is_image_file(path)
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and path.is_file()
    )


def read_image(path: Path, *, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8]:
    """Decode a picture to RGB (H, W, 3), upright, whatever its depth and channels."""
    return decode_image(_read_bytes(path), name=path, max_pixels=max_pixels)


def decode_image(
    data: bytes, *, name: Path | str, max_pixels: int = MAX_PIXELS
) -> NDArray[np.uint8]:
    """Decode the bytes of a file to RGB (H, W, 3), as `read_image` does."""
    return _decode_rgb(data, name=name, max_pixels=max_pixels)[0]


def read_with_bits(
    path: Path, *, max_pixels: int = MAX_PIXELS
) -> tuple[NDArray[np.uint8], int | None]:
    """Read a picture and how many of its 16 bits it uses; None where it has 8 bits."""
    return _decode_rgb(_read_bytes(path), name=path, max_pixels=max_pixels)


def _decode_rgb(
    data: bytes, *, name: Path | str, max_pixels: int
) -> tuple[NDArray[np.uint8], int | None]:
    raw = _decode_bgr(name, data, max_pixels=max_pixels)
    used_bits = int(raw.max()).bit_length() if raw.dtype == np.uint16 else None
    picture_hwc = to_8_bit(raw, name=name)
    for rows in _strips(picture_hwc):  # in its place: a second one would double what it takes
        picture_hwc[rows] = cv2.cvtColor(picture_hwc[rows], cv2.COLOR_BGR2RGB)
    return picture_hwc, used_bits


def read_mask(path: Path, *, max_pixels: int = MAX_PIXELS) -> NDArray[np.bool_]:
    """Decode a mask to (H, W): every pixel that is not black is a defect."""
    data = _read_bytes(path)
    pixels = _decode_bgr(path, data, max_pixels=max_pixels)
    # JPEG rings around edges, so black is not quite black there; lossless masks may hold 0 and 1.
    black = 127 if data.startswith(JPEG) else 0
    brightest = np.maximum(np.maximum(pixels[..., 0], pixels[..., 1]), pixels[..., 2])
    return np.asarray(brightest > black, dtype=np.bool_)


def read_mask_stack(path: Path, index: int) -> NDArray[np.bool_]:
    """Read one frame's mask (H, W) out of a video's .npy of shape (T, H, W)."""
    masks_thw = open_array(path)
    if masks_thw.ndim != 3 or not 0 <= index < len(masks_thw):
        raise DatasetError(
            f"{path}: no mask for frame {index} in an array of shape {masks_thw.shape}, "
            "expected (frames, height, width)"
        )
    return np.asarray(masks_thw[index] != 0, dtype=np.bool_)


def read_video_frame(path: Path, index: int, *, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8]:
    """Decode one frame of a video file to RGB (H, W, 3)."""
    capture = cv2.VideoCapture(str(path))
    try:
        sides = (cv2.CAP_PROP_FRAME_HEIGHT, cv2.CAP_PROP_FRAME_WIDTH)
        height, width = (int(max(0.0, capture.get(side))) for side in sides)
        check_pixels((height, width), name=path, max_pixels=max_pixels)
        capture.set(cv2.CAP_PROP_POS_FRAMES, index)
        ok, bgr = capture.read()
    finally:
        capture.release()
    if not ok:
        raise DatasetError(f"{path}: frame {index} cannot be decoded; extract the frames as images")
    return np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), dtype=np.uint8)


def to_8_bit(pixels: NDArray[Any], *, name: Path | str) -> NDArray[np.uint8]:
    """Convert pixels of 8 or 16 bits to 8 bits, from files and cameras alike."""
    if pixels.dtype == np.uint8:
        return pixels.astype(np.uint8, copy=False)
    if pixels.dtype == np.uint16:
        # 65535 = 255 * 257. The same rule for every picture: stretching each to its own minimum
        # and maximum would let one glint darken the whole part and hide drift of the lighting.
        scaled = np.empty(pixels.shape, np.uint8)
        for rows in _strips(pixels):
            scaled[rows] = (pixels[rows].astype(np.uint32) + 128) // 257
        return scaled
    raise DatasetError(f"{name}: pixels are {pixels.dtype}, expected 8 or 16 bits a channel")


def _strips(pixels: NDArray[Any]) -> Iterator[slice]:
    """Yield a few rows at a time, so that temporary copies are small beside the picture."""
    rows = max(1, _AT_ONCE // max(1, pixels[:1].size))
    for start in range(0, len(pixels), rows):
        yield slice(start, start + rows)


def resize_image(image_hwc: NDArray[np.uint8], size_hw: tuple[int, int]) -> NDArray[np.uint8]:
    """Resize a picture: area averaging if any axis shrinks, bilinear otherwise."""
    height, width = _check_size(size_hw)
    if image_hwc.shape[:2] == (height, width):
        return image_hwc
    shrinks = height < image_hwc.shape[0] or width < image_hwc.shape[1]
    interpolation = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    resized = cv2.resize(image_hwc, (width, height), interpolation=interpolation)
    return np.asarray(resized, dtype=np.uint8)


def resize_mask(mask_hw: NDArray[np.bool_], size_hw: tuple[int, int]) -> NDArray[np.bool_]:
    """Resize a mask by the nearest pixel, so it stays binary."""
    height, width = _check_size(size_hw)
    if mask_hw.shape == (height, width):
        return mask_hw
    # EXACT samples pixel centres; plain INTER_NEAREST is shifted by up to half a pixel.
    pixels = cv2.resize(
        mask_hw.astype(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST_EXACT
    )
    return np.asarray(pixels != 0, dtype=np.bool_)


def encode_png(picture: NDArray[np.uint8]) -> bytes:
    """Encode a picture, RGB (H, W, 3) or grey (H, W), without loss."""
    # Level 1 takes half as long again as OpenCV's default and a third less room.
    return _encode(".png", picture, [cv2.IMWRITE_PNG_COMPRESSION, 1])


def encode_jpeg(picture: NDArray[np.uint8], *, quality: int) -> bytes:
    """Encode a picture, RGB (H, W, 3) or grey (H, W), for people and pages."""
    return _encode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, quality])


def write_image(target: Path, picture: NDArray[np.uint8]) -> None:
    """Write a picture in one step, as PNG or JPEG by the name of the file."""
    suffix = target.suffix.lower()
    if suffix not in (".png", ".jpg", ".jpeg"):
        raise UsageError(f"{target}: expected a name ending in .png or .jpg")
    data = encode_png(picture) if suffix == ".png" else encode_jpeg(picture, quality=_QUALITY)
    try:
        with atomic_path(target, durable=False) as temporary:
            temporary.write_bytes(data)
    except OSError as error:
        raise EdgesegError(
            f"{target}: cannot be written ({error.strerror or error}); "
            "look at the path, its permissions and the disk"
        ) from None


def _encode(suffix: str, picture: NDArray[np.uint8], options: list[int]) -> bytes:
    pixels = np.ascontiguousarray(picture)
    bgr = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR) if pixels.ndim == 3 else pixels
    done, data = cv2.imencode(suffix, bgr, options)
    if not done:
        raise ValueError(f"a picture of shape {picture.shape} could not be encoded")
    return data.tobytes()


def _check_size(size_hw: tuple[int, int]) -> tuple[int, int]:
    height, width = size_hw
    if height < 1 or width < 1:
        raise UsageError(f"image size {height}x{width}: expected a height and width of at least 1")
    return height, width


def _read_bytes(path: Path) -> bytes:
    # Python opens the file, not OpenCV: names in any alphabet work on every platform.
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror or error})") from None
    if not data:
        raise DatasetError(f"{path}: the file is empty (0 bytes)")
    return data


def check_pixels(size_hw: tuple[int, int], *, name: Path | str, max_pixels: int) -> None:
    """Refuse a picture with more than `max_pixels`, before it is decoded."""
    check_header(PictureHeader(size_hw=size_hw), name=name, max_pixels=max_pixels)


def check_header(header: PictureHeader, *, name: Path | str, max_pixels: int) -> None:
    """Refuse a file by its header: too many pixels, counting their bits, or too many scans."""
    height, width = header.size_hw
    if header.counted_pixels > max_pixels:
        deep = header.counted_pixels > height * width
        what = f" of {header.bits} bits, which count as {header.counted_pixels}," if deep else ""
        raise DatasetError(
            f"{name}: {height}x{width} pixels{what} by its header, more than ",
            Setting("max_pixels", max_pixels),
            "; if it is a real picture, allow so many",
        )
    if header.scanned_pixels > MOST_SCANS * max_pixels:
        raise DatasetError(
            f"{name}: {height}x{width} pixels in {header.scans} scans, which would take "
            f"minutes: more than {MOST_SCANS} times ",
            Setting("max_pixels", max_pixels),
            "; save it again, not progressive",
        )


def _decode_bgr(path: Path | str, data: bytes, *, max_pixels: int) -> NDArray[Any]:
    """Decode to BGR (H, W, 3) in the file's own depth."""
    header = picture_header(data)
    if header is not None:
        check_header(header, name=path, max_pixels=max_pixels)
    # Checked here because decoders differ: some fill the missing half of a picture with grey.
    if data.startswith(JPEG) and not _jpeg_is_whole(data):
        raise DatasetError(f"{path}: truncated JPEG (no end-of-image marker); copy it again")
    if data.startswith(PNG) and not _png_is_whole(data):
        raise DatasetError(
            f"{path}: truncated or damaged PNG (a chunk is cut, fails its CRC or has too much data)"
        )
    if header is None:
        raise _not_read(path, data)
    # COLOR, unlike UNCHANGED, turns the picture upright by its EXIF tag and repeats grey thrice.
    # It also drops alpha: compositing would need a background colour that no camera will show.
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH
    with quiet_opencv:
        try:
            pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        except (cv2.error, MemoryError) as error:
            reason = getattr(error, "err", "not enough memory")
            raise DatasetError(f"{path}: cannot be decoded ({reason})") from None
    if pixels is None:
        raise _not_read(path, data)
    return pixels


def _not_read(path: Path | str, data: bytes) -> DatasetError:
    kind = foreign_kind(data)
    if kind is None:
        return DatasetError(Message("picture_damaged", name=str(path)))
    return DatasetError(Message("picture_foreign", name=str(path), kind=kind))


def _jpeg_is_whole(data: bytes) -> bool:
    """Find the end marker after the first scan; an EXIF thumbnail before it has its own."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xDA:  # start of scan: from here on FF D9 can only be the end of the image
            return data.find(b"\xff\xd9", at) >= 0
        at += 1 if marker == 0xFF else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return False


def _png_is_whole(data: bytes) -> bool:
    """Check all chunks, and that there is no more data than pixels: a decoder would inflate it."""
    at, left = len(PNG), most_png_data(data)
    while at + 12 <= len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data) or zlib.crc32(data[at + 4 : end - 4]) != int.from_bytes(
            data[end - 4 : end], "big"
        ):
            return False
        kind = data[at + 4 : at + 8]
        left -= end - at if kind == b"IDAT" else 0
        if kind == b"IEND" or left < 0:
            return left >= 0
        at = end
    return False
