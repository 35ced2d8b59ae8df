import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeseg.base.errors import DatasetError, EdgesegError, UsageError
from edgeseg.vision.images import (
    encode_jpeg,
    encode_png,
    images_in,
    is_image_file,
    read_image,
    read_mask,
    read_mask_stack,
    resize_image,
    resize_mask,
    write_image,
)
from tests.support.picture_bytes import encode, exif, jpeg_with_exif, png_chunk


@pytest.fixture
def picture() -> np.ndarray:
    """A smooth BGR picture, taller than wide, with four different corners."""
    noise = np.random.default_rng(0).integers(0, 255, (96, 64, 3), np.uint8)
    return cv2.GaussianBlur(noise, (0, 0), 3)


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif", ".ppm"])
def test_lossless_pictures_come_back_exactly_as_rgb(tmp_path, picture, suffix):
    path = tmp_path / f"part{suffix}"
    path.write_bytes(encode(suffix, picture))
    np.testing.assert_array_equal(read_image(path), picture[..., ::-1])


def test_jpeg_comes_back_closely(tmp_path, picture):
    path = tmp_path / "part.jpg"
    path.write_bytes(encode(".jpg", picture))
    assert np.abs(read_image(path).astype(int) - picture[..., ::-1]).mean() < 3


def test_path_in_any_alphabet(tmp_path, picture):
    path = tmp_path / "качество 良品 ü.png"
    path.write_bytes(encode(".png", picture))
    np.testing.assert_array_equal(read_image(path), picture[..., ::-1])


def test_grey_is_repeated(tmp_path, picture):
    path = tmp_path / "grey.png"
    path.write_bytes(encode(".png", picture[..., 0]))
    np.testing.assert_array_equal(read_image(path), np.repeat(picture[..., :1], 3, axis=2))


@pytest.mark.parametrize("depth", [8, 16])
def test_grey_with_alpha_keeps_grey(tmp_path, picture, depth):
    grey = picture[..., 0]
    rows = np.dstack([grey, np.zeros_like(grey)]).astype(">u2" if depth == 16 else np.uint8)
    rows = rows * (257 if depth == 16 else 1)
    body = zlib.compress(b"".join(b"\0" + row.astype(rows.dtype).tobytes() for row in rows))
    header = struct.pack(">IIBBBBB", grey.shape[1], grey.shape[0], depth, 4, 0, 0, 0)
    path = tmp_path / "grey_alpha.png"
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + png_chunk(b"IHDR", header)
        + png_chunk(b"IDAT", body)
        + png_chunk(b"IEND", b"")
    )
    np.testing.assert_array_equal(read_image(path), np.repeat(grey[..., None], 3, axis=2))


def test_alpha_is_dropped_not_composited(tmp_path, picture):
    transparent = np.dstack([picture, np.zeros(picture.shape[:2], np.uint8)])
    path = tmp_path / "alpha.png"
    path.write_bytes(encode(".png", transparent))
    np.testing.assert_array_equal(read_image(path), picture[..., ::-1])


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_16_bit_is_scaled_by_the_fixed_rule(tmp_path, suffix):
    every_value = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    path = tmp_path / f"deep{suffix}"
    path.write_bytes(encode(suffix, every_value))
    expected = np.round(every_value / 257).astype(np.uint8)
    np.testing.assert_array_equal(read_image(path)[..., 1], expected)


def test_16_bit_scale_does_not_depend_on_the_rest_of_the_picture(tmp_path):
    dark = np.full((8, 8), 1000, np.uint16)
    glint = dark.copy()
    glint[0, 0] = 65535
    for name, pixels in (("dark.png", dark), ("glint.png", glint)):
        (tmp_path / name).write_bytes(encode(".png", pixels))
    a, b = read_image(tmp_path / "dark.png"), read_image(tmp_path / "glint.png")
    np.testing.assert_array_equal(a[1:], b[1:])


def test_float_pixels_are_refused(tmp_path):
    path = tmp_path / "float.tif"
    path.write_bytes(encode(".tif", np.zeros((8, 8, 3), np.float32)))
    with pytest.raises(DatasetError, match=r"float\.tif: pixels are float32, expected 8 or 16"):
        read_image(path)


def test_exif_turns_picture_and_mask_alike(tmp_path, picture):
    mask = np.zeros(picture.shape[:2], np.uint8)
    mask[:10, :20] = 255
    turned = png_chunk(b"eXIf", exif(6))
    plain, mask_file = encode(".png", picture), encode(".png", mask)
    (tmp_path / "a.png").write_bytes(plain[:33] + turned + plain[33:])
    (tmp_path / "m.png").write_bytes(mask_file[:33] + turned + mask_file[33:])
    (tmp_path / "j.jpg").write_bytes(jpeg_with_exif(encode(".jpg", picture), exif(6)))
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), np.rot90(picture, -1)[..., ::-1])
    np.testing.assert_array_equal(read_mask(tmp_path / "m.png"), np.rot90(mask, -1) > 0)
    assert read_image(tmp_path / "j.jpg").shape == (64, 96, 3)


@pytest.mark.parametrize("value", [1, 255])
def test_mask_is_whatever_is_not_black(tmp_path, value):
    mask = np.zeros((20, 30), bool)
    mask[3:7, 4:9] = True
    path = tmp_path / "mask.png"
    path.write_bytes(encode(".png", mask.astype(np.uint8) * value))
    np.testing.assert_array_equal(read_mask(path), mask)


def test_faint_blue_and_16_bit_masks_count(tmp_path):
    blue = np.zeros((6, 6, 3), np.uint8)
    blue[2, 2, 0] = 1  # a grey conversion would round this to black
    deep = np.zeros((6, 6), np.uint16)
    deep[2, 2] = 1
    for name, pixels in (("blue.png", blue), ("deep.png", deep)):
        (tmp_path / name).write_bytes(encode(".png", pixels))
        assert read_mask(tmp_path / name).sum() == 1


def test_jpeg_mask_ignores_ringing(tmp_path):
    mask = np.zeros((32, 32), np.uint8)
    mask[8:24, 8:24] = 255
    path = tmp_path / "mask.jpg"
    path.write_bytes(encode(".jpg", mask))
    np.testing.assert_array_equal(read_mask(path), mask > 0)


def test_mask_stack_by_index(tmp_path):
    stack = np.zeros((3, 4, 5), np.uint8)
    stack[1, 2, 3] = 1
    path = tmp_path / "01_0014.npy"
    np.save(path, stack)
    np.testing.assert_array_equal(read_mask_stack(path, 1), stack[1] > 0)
    with pytest.raises(DatasetError, match=r"no mask for frame 3 .*\(3, 4, 5\)"):
        read_mask_stack(path, 3)
    path.write_bytes(path.read_bytes()[:140])
    with pytest.raises(DatasetError, match=r"01_0014\.npy: not a readable \.npy array"):
        read_mask_stack(path, 0)


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp", ".tif", ".webp", ".ppm"])
@pytest.mark.parametrize("keep", [0.02, 0.5, 0.9, 0.99])
def test_truncated_files_are_refused_by_name(tmp_path, capfd, picture, suffix, keep):
    data = encode(suffix, picture)
    path = tmp_path / f"cut{suffix}"
    path.write_bytes(data[: int(len(data) * keep)])
    for read in (read_image, read_mask):
        with pytest.raises(DatasetError, match=rf"cut\{suffix}: .*(truncated|damaged|decoded)"):
            read(path)
    assert capfd.readouterr().err == ""


def test_truncated_jpeg_with_a_whole_thumbnail_is_refused(tmp_path, picture):
    thumbnail = encode(".jpg", picture[:16, :16])
    data = jpeg_with_exif(encode(".jpg", picture), exif(1) + thumbnail)
    path = tmp_path / "cut.jpg"
    path.write_bytes(data)
    read_image(path)
    path.write_bytes(data[:-2])
    with pytest.raises(DatasetError, match="truncated JPEG"):
        read_image(path)


def test_jpeg_padded_after_its_end_is_accepted(tmp_path, picture):
    path = tmp_path / "padded.jpg"
    path.write_bytes(encode(".jpg", picture) + bytes(512))
    assert read_image(path).shape == picture.shape


def test_png_with_a_flipped_bit_is_refused(tmp_path, picture):
    data = bytearray(encode(".png", picture))
    data[len(data) // 2] ^= 1
    path = tmp_path / "bit.png"
    path.write_bytes(data)
    with pytest.raises(DatasetError, match=r"bit\.png: truncated or damaged PNG"):
        read_image(path)


def test_files_that_are_no_pictures(tmp_path):
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(DatasetError, match=r"empty\.png: the file is empty \(0 bytes\)"):
        read_image(tmp_path / "empty.png")
    with pytest.raises(DatasetError, match=r"text\.png: not a picture"):
        read_image(tmp_path / "text.png")
    with pytest.raises(DatasetError, match=r"folder\.png: cannot be read \(Is a directory\)"):
        read_image(tmp_path / "folder.png")
    with pytest.raises(DatasetError, match=r"absent\.png: cannot be read \(No such file"):
        read_mask(tmp_path / "absent.png")


@given(height=st.integers(1, 40), width=st.integers(1, 40), value=st.integers(0, 255))
def test_resizing_a_flat_picture_keeps_it_flat(height, width, value):
    flat = np.full((17, 23, 3), value, np.uint8)
    resized = resize_image(flat, (height, width))
    assert resized.shape == (height, width, 3)
    assert (resized == value).all()


def test_shrinking_by_a_whole_factor_is_the_mean_of_blocks():
    image = np.random.default_rng(1).integers(0, 256, (12, 8, 3), np.uint8)
    blocks = image.reshape(4, 3, 4, 2, 3).mean(axis=(1, 3))
    assert np.abs(resize_image(image, (4, 4)) - blocks).max() <= 0.5


@pytest.mark.parametrize(
    ("size_hw", "interpolation"),
    [((24, 16), cv2.INTER_LINEAR), ((6, 16), cv2.INTER_AREA), ((24, 5), cv2.INTER_AREA)],
)
def test_interpolation_follows_the_axes(size_hw, interpolation):
    image = np.random.default_rng(2).integers(0, 256, (12, 8, 3), np.uint8)
    expected = cv2.resize(image, size_hw[::-1], interpolation=interpolation)
    np.testing.assert_array_equal(resize_image(image, size_hw), expected)


@given(height=st.integers(1, 60), width=st.integers(1, 60))
def test_mask_takes_the_nearest_centre(height, width):
    mask = np.random.default_rng(3).random((19, 31)) < 0.4
    rows = ((np.arange(height) + 0.5) * 19 / height).astype(int)
    columns = ((np.arange(width) + 0.5) * 31 / width).astype(int)
    np.testing.assert_array_equal(resize_mask(mask, (height, width)), mask[np.ix_(rows, columns)])
    assert resize_mask(mask, (19, 31)) is mask


def test_masks_enlarged_by_whole_factors_repeat_pixels():
    mask = np.random.default_rng(4).random((5, 7)) < 0.5
    np.testing.assert_array_equal(resize_mask(mask, (15, 21)), mask.repeat(3, 0).repeat(3, 1))


def test_sizes_below_one_are_refused():
    with pytest.raises(UsageError, match="image size 0x5"):
        resize_image(np.zeros((4, 4, 3), np.uint8), (0, 5))


def test_hidden_and_foreign_names_are_no_images():
    assert is_image_file(Path("a/PART.JPG"))
    assert not is_image_file(Path("a/._part.jpg"))
    assert not is_image_file(Path("a/part.json"))


def test_pictures_of_a_folder_are_sorted_files(tmp_path):
    for name in ("b.png", "A.JPG", ".c.png", "notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "folder.png").mkdir()
    assert [path.name for path in images_in(tmp_path)] == ["A.JPG", "b.png"]
    assert images_in(tmp_path / "absent") == []


@pytest.mark.parametrize("shape", [(31, 47, 3), (31, 47)])
def test_png_is_without_loss(tmp_path, shape):
    picture = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    write_image(tmp_path / "new" / "a.png", picture)
    (tmp_path / "b.png").write_bytes(encode_png(picture[::2, ::2]))
    expected = picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
    np.testing.assert_array_equal(read_image(tmp_path / "new" / "a.png"), expected)
    np.testing.assert_array_equal(read_image(tmp_path / "b.png"), expected[::2, ::2])


def test_jpeg_keeps_the_order_of_channels(tmp_path, picture):
    rgb = picture[..., ::-1]
    write_image(tmp_path / "a.JPG", rgb)
    (tmp_path / "b.jpg").write_bytes(encode_jpeg(rgb, quality=60))
    assert (tmp_path / "b.jpg").stat().st_size < (tmp_path / "a.JPG").stat().st_size
    for name in ("a.JPG", "b.jpg"):
        assert np.abs(read_image(tmp_path / name).astype(int) - rgb).mean() < 4


def test_a_picture_is_whole_or_absent(tmp_path, picture, monkeypatch):
    target = tmp_path / "a.png"
    write_image(target, picture)
    before = target.read_bytes()

    def full(path: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(EdgesegError, match=r"a\.png: cannot be written \(No space left on"):
        write_image(target, picture[:8])
    assert target.read_bytes() == before
    assert list(tmp_path.iterdir()) == [target]


def test_a_format_that_is_not_written(tmp_path, picture):
    with pytest.raises(UsageError, match=r"a\.gif: expected a name ending in \.png or \.jpg"):
        write_image(tmp_path / "a.gif", picture)
