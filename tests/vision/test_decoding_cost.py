"""What decoding may take is bounded by what a file says of itself, before it is decoded."""

import struct
import tracemalloc
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgeseg.base.errors import DatasetError
from edgeseg.runtime.capture.image_files import ImageFiles
from edgeseg.vision import images
from edgeseg.vision.images import decode_image, read_image, read_mask, to_8_bit
from edgeseg.vision.picture_size import JPEG, MOST_SCANS, PictureHeader, picture_header
from tests.support.picture_bytes import encode, jpeg_with_exif, png_chunk

GREY = np.full((64, 80), 120, np.uint8)
COLOUR = np.dstack([GREY] * 3)
DEEP = COLOUR.astype(np.uint16) * 257


def progressive(scans: int) -> bytes:
    """A JPEG whose last scan, which refines nothing, is repeated up to so many."""
    ok, encoded = cv2.imencode(".jpg", COLOUR, [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])
    assert ok
    data = encoded.tobytes()
    last = data[data.rfind(b"\xff\xda") : -2]
    return data[:-2] + last * (scans - data.count(b"\xff\xda")) + data[-2:]


def refused(data: bytes, *, max_pixels: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Why, without a look at its pixels."""
    with monkeypatch.context() as patch:
        patch.setattr(images.cv2, "imdecode", lambda *_: pytest.fail("it was decoded"))
        with pytest.raises(DatasetError) as caught:
            decode_image(data, name="bomb", max_pixels=max_pixels)
    return str(caught.value)


@pytest.mark.parametrize(
    ("suffix", "pixels", "bits"),
    [
        (".png", GREY, 8),
        (".png", COLOUR, 8),
        (".png", DEEP, 16),
        (".png", DEEP[..., 0], 16),
        (".png", np.dstack([DEEP, DEEP[..., :1]]), 16),
        (".tif", GREY, 8),
        (".tif", COLOUR, 8),
        (".tif", DEEP, 16),
        (".tif", DEEP[..., 0], 16),
        (".tif", COLOUR.astype(np.float32), 32),
        (".ppm", COLOUR, 8),
        (".ppm", DEEP, 16),
        (".pgm", DEEP[..., 0], 16),
        (".bmp", COLOUR, 8),
        (".jpg", COLOUR, 8),
        (".webp", COLOUR, 8),
        (".jp2", COLOUR, 32),
        (".jp2", DEEP, 32),
    ],
)
def test_the_bits_of_a_channel_are_known_and_count(suffix, pixels, bits, monkeypatch):
    data = encode(suffix, pixels)
    header = picture_header(data)
    assert header == PictureHeader(size_hw=(64, 80), bits=bits)
    assert header.counted_pixels == 64 * 80 * bits // 8
    if bits > 8:
        said = refused(data, max_pixels=header.counted_pixels - 1, monkeypatch=monkeypatch)
        assert said.startswith(
            f"bomb: 64x80 pixels of {bits} bits, which count as {header.counted_pixels}, by its "
            f"header, more than max_pixels={header.counted_pixels - 1}; "
        )


def test_every_cut_of_a_deep_tiff_is_counted_as_deep_or_not_at_all():
    data = encode(".tif", DEEP)
    for end in range(len(data)):
        header = picture_header(data[:end])
        assert header is None or header.bits >= 16, end


def test_deep_pictures_are_converted_in_strips():
    """Three times the 8 bits of the result; it was eight times."""
    deep = np.full((2400, 2000, 3), 65535, np.uint16)
    tracemalloc.start()
    try:
        scaled = to_8_bit(deep, name="deep")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (scaled == 255).all()
    assert peak < 3 * scaled.nbytes


def test_strips_change_no_value(tmp_path: Path, monkeypatch):
    pixels = np.random.default_rng(0).integers(0, 65536, (37, 53, 3)).astype(np.uint16)
    expected = np.round(pixels[..., ::-1] / 257).astype(np.uint8)
    for at_once in (1, 1000, 1 << 20):
        monkeypatch.setattr(images, "_AT_ONCE", at_once)
        for suffix in (".png", ".tif"):
            found = decode_image(encode(suffix, pixels), name=suffix)
            np.testing.assert_array_equal(found, expected)
            assert found.flags.c_contiguous


@pytest.mark.parametrize("scans", [10, 300, 20_000])
def test_the_scans_of_a_jpeg_are_counted(scans):
    data = progressive(scans)
    assert len(data) < 300_000
    assert picture_header(data) == PictureHeader(size_hw=(64, 80), scans=scans)
    thumbnail = jpeg_with_exif(data, b"II*\0" + progressive(100))
    assert picture_header(thumbnail).scans == scans, "those of a thumbnail are not decoded"
    assert picture_header(encode(".jpg", COLOUR)).scans == 1


def test_too_many_scans_are_refused_before_they_are_decoded(monkeypatch):
    pixels = 64 * 80
    assert decode_image(progressive(MOST_SCANS), name="slow", max_pixels=pixels).shape[0] == 64
    said = refused(progressive(MOST_SCANS + 1), max_pixels=pixels, monkeypatch=monkeypatch)
    assert said == (
        f"bomb: 64x80 pixels in {MOST_SCANS + 1} scans, which would take minutes: more than "
        f"{MOST_SCANS} times max_pixels={pixels}; save it again, not progressive"
    )
    assert decode_image(progressive(MOST_SCANS + 1), name="small").shape[0] == 64


def test_more_data_than_pixels_is_not_inflated(monkeypatch):
    """Half a megabyte that would be half a gigabyte, in a picture of 8x8."""
    head = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes(8 * 25) + bytes(1 << 24), 9)
    parts = [(b"IHDR", head), (b"IDAT", body), (b"IEND", b"")]
    data = b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*part) for part in parts)
    assert "has too much data" in refused(data, max_pixels=10**6, monkeypatch=monkeypatch)


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1), (40, 40, 3), (33, 57, 4)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_noise_that_does_not_shrink_is_no_bomb(shape, dtype):
    noise = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, shape).astype(dtype)
    assert decode_image(encode(".png", noise), name="noise").shape[:2] == shape[:2]


def test_every_door_has_the_same_rule(tmp_path: Path):
    """Files of a fit and of predict, masks, and the frames of a stream."""
    path = tmp_path / "deep.png"
    path.write_bytes(encode(".png", DEEP))
    limit = 64 * 80
    for read in (read_image, read_mask):
        with pytest.raises(DatasetError, match="count as 10240"):
            read(path, max_pixels=limit)
    assert ImageFiles([path], max_pixels=limit).read().image_hwc is None
    (tmp_path / "slow.jpg").write_bytes(progressive(30))
    assert ImageFiles([tmp_path / "slow.jpg"], max_pixels=limit).read().image_hwc is None
    assert (tmp_path / "slow.jpg").read_bytes().startswith(JPEG)
