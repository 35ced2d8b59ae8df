"""The size of a picture by its header: what the decoder finds, and bombs that are never decoded."""

import struct
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgeseg.base.errors import DatasetError
from edgeseg.data.samples import Sample, load_batches
from edgeseg.vision.arrays import open_array
from edgeseg.vision.images import IMAGE_SUFFIXES, decode_image, read_image, read_mask_stack
from edgeseg.vision.picture_size import MAX_PIXELS, picture_size
from tests.support.clips import write_clip
from tests.support.commands import fail, succeed
from tests.support.picture_bytes import encode, png_chunk

PIXELS = np.random.default_rng(0).integers(0, 255, (37, 53, 3), np.uint8)
SIDE = 60_000


def jpeg_bomb() -> bytes:
    """333 bytes that ask for 3.6 billion pixels."""
    data = bytearray(encode(".jpg", np.full((16, 16), 128, np.uint8)))
    at = data.find(b"\xff\xc0") + 5
    data[at : at + 4] = struct.pack(">HH", SIDE, SIDE)
    return bytes(data)


def png_bomb() -> bytes:
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + png_chunk(b"IDAT", b"") + png_chunk(b"IEND", b"")


def bmp_bomb() -> bytes:
    data = bytearray(encode(".bmp", PIXELS))
    data[18:26] = struct.pack("<ii", SIDE, -SIDE)
    return bytes(data)


def tiff_bomb(order: str = "<", tag: int = 256) -> bytes:
    """With a side, or with a tile, of so many pixels."""
    small = {256: 16, 257: SIDE, 322: 16, 323: SIDE} | {tag: SIDE}
    entries = [struct.pack(f"{order}HHII", key, 4, 1, small[key]) for key in sorted(small)]
    start = b"II*\0" if order == "<" else b"MM\0*"
    body = struct.pack(f"{order}H", len(entries)) + b"".join(entries)
    return start + struct.pack(f"{order}I", 8) + body + bytes(4)


def big_tiff_bomb() -> bytes:
    entries = [struct.pack("<HHQQ", key, 4, 1, SIDE) for key in (256, 257)]
    return b"II+\0" + struct.pack("<HHQQ", 8, 0, 16, 2) + b"".join(entries)


def webp_bomb() -> bytes:
    side = (SIDE - 1).to_bytes(3, "little")
    return b"RIFF" + bytes(4) + b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + side + side


BOMBS = {
    "jpg": jpeg_bomb(),
    "png": png_bomb(),
    "bmp": bmp_bomb(),
    "tif": tiff_bomb(),
    "tif, other order": tiff_bomb(">"),
    "tif, tiles": tiff_bomb(tag=322),
    "tif, big": big_tiff_bomb(),
    "webp": webp_bomb(),
    "ppm": b"P6\n# a comment\n%d %d\n255\n" % (SIDE, SIDE),
    "pgm": b"P5 %d %d 255\n" % (SIDE, SIDE),
}


@pytest.mark.parametrize("suffix", sorted(IMAGE_SUFFIXES))
def test_the_size_is_what_the_decoder_finds(suffix):
    pixels = PIXELS[:, :, 0] if suffix == ".pgm" else PIXELS
    data = encode(suffix, pixels)
    assert picture_size(data) == (37, 53)
    assert decode_image(data, name=suffix).shape == (37, 53, 3)


@pytest.mark.parametrize("quality", [50, 101])
def test_lossless_webp_has_another_header(quality):
    ok, data = cv2.imencode(".webp", PIXELS, [cv2.IMWRITE_WEBP_QUALITY, quality])
    assert ok
    assert picture_size(data.tobytes()) == (37, 53)


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_by_its_header(name):
    data = BOMBS[name]
    assert len(data) < 7000
    height, width = picture_size(data)
    assert height * width > MAX_PIXELS
    started = time.process_time()
    with pytest.raises(DatasetError) as caught:
        decode_image(data, name="bomb")
    assert str(caught.value) == (
        f"bomb: {height}x{width} pixels by its header, more than max_pixels={MAX_PIXELS}; if it "
        "is a real picture, allow so many"
    )
    assert time.process_time() - started < 1.0, "nothing was decoded"


@pytest.mark.parametrize("suffix", sorted(IMAGE_SUFFIXES))
def test_every_cut_is_a_size_or_none(suffix):
    data = encode(suffix, PIXELS[:, :, 0] if suffix == ".pgm" else PIXELS)
    for end in range(min(200, len(data))):
        assert picture_size(data[:end]) in (None, (37, 53)), end


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"GIF89a" + bytes(20), "odd: a GIF picture, which cannot be read here"),
        (b"\x59\xa6\x6a\x95" + bytes(40), "not a picture, or a truncated or damaged one"),
        (b"P7\n", "not a picture, or a truncated or damaged one"),
    ],
)
def test_what_has_no_rule_is_not_decoded(data, words):
    with pytest.raises(DatasetError, match=words):
        decode_image(data, name="odd")


def test_the_limit_is_an_option(tmp_path: Path):
    path = tmp_path / "large.png"
    path.write_bytes(encode(".png", PIXELS))
    assert read_image(path, max_pixels=37 * 53).shape == (37, 53, 3)
    with pytest.raises(
        DatasetError, match=r"37x53 pixels by its header, more than max_pixels=1960"
    ):
        read_image(path, max_pixels=37 * 53 - 1)


def test_and_of_a_video_in_a_fit(tmp_path: Path):
    size_hw, path = (48, 64), tmp_path / "clip.avi"
    write_clip(path, size_hw=size_hw, frames=3)

    def frames(max_pixels: int):
        samples = [Sample(image=path, image_index=2)]
        return list(load_batches(samples, size_hw=size_hw, batch_size=1, max_pixels=max_pixels))

    assert frames(48 * 64)[0].frames.shape == (1, 48, 64, 3)
    with pytest.raises(DatasetError, match=r"48x64 pixels by its header, more than max_pixels=307"):
        frames(48 * 64 - 1)


def test_commands_say_the_option(artefact_copy: Path, plate: Path, tmp_path: Path):
    (tmp_path / "bomb.jpg").write_bytes(BOMBS["jpg"])
    good = sorted((plate / "test/good").glob("*.png"))[0]
    said = succeed("predict", artefact_copy, good, tmp_path / "bomb.jpg", "-q").stdout
    assert f"bomb.jpg: invalid ({SIDE}x{SIDE} pixels by its header, more than " in said
    (tmp_path / "good").mkdir()
    (tmp_path / "good/bomb.jpg").write_bytes(BOMBS["jpg"])
    fit = ("fit", tmp_path / "good", "--out", tmp_path / "m.edgeseg", "--weights", "random")
    said = fail(*fit, "--backbone", "mobilenet_v3_small", code=1)
    assert f"more than --max-pixels {MAX_PIXELS}; " in said


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,",
        b"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
        b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }",
        b"{'descr': '|b1', 'fortran_order': False, 'shape': (999999999999, 99999, 99999), }",
        b"{'descr': '|b1', 'fortran_order': False, 'shape': (-1, 2, 3), }",
        b"\x00\xff((((((",
        b"(" * 9000,
    ],
)
def test_masks_of_damaged_headers_are_one_sentence(tmp_path: Path, header: bytes):
    path = tmp_path / "m.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(100))
    with pytest.raises(DatasetError, match=r"not a readable \.npy array"):
        read_mask_stack(path, 0)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_are_what_numpy_reads(tmp_path: Path, dtype, order):
    array = np.asarray(PIXELS % 2, dtype=dtype, order=order)
    np.save(tmp_path / "m.npy", array)
    found = open_array(tmp_path / "m.npy")
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)
    np.save(tmp_path / "m.npy", np.empty((0, 3), dtype))
    assert open_array(tmp_path / "m.npy").shape == (0, 3)
