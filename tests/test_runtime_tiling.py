"""Region of interest, resizing and tiles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeseg.errors import RuntimeFailure, UsageError
from edgeseg.images import resize_image
from edgeseg.prediction import Prediction
from edgeseg.runtime.tiling import Roi, Tiling, fit_into

tilings = st.builds(
    lambda tile_h, tile_w, more_h, more_w, overlap: Tiling(
        frame_hw=(tile_h + more_h, tile_w + more_w), tile_hw=(tile_h, tile_w), overlap=overlap
    ),
    st.integers(1, 24),
    st.integers(1, 24),
    st.integers(0, 80),
    st.integers(0, 80),
    st.floats(0, 0.9),
)


def predict(piece_hw: np.ndarray, score: float = 0.0) -> Prediction:
    return Prediction(map_hw=piece_hw.astype(np.float32), score=score)


@given(tilings)
def test_tiles_cover_the_frame_and_stay_inside(tiling: Tiling) -> None:
    covered = np.zeros(tiling.frame_hw, int)
    (height, width), (tile_h, tile_w) = tiling.frame_hw, tiling.tile_hw
    for y, x in tiling.corners_yx():
        assert 0 <= y <= height - tile_h
        assert 0 <= x <= width - tile_w
        covered[y : y + tile_h, x : x + tile_w] += 1
    assert covered.min() >= 1


@given(tilings)
def test_blending_the_pieces_of_a_map_gives_the_map(tiling: Tiling) -> None:
    rng = np.random.default_rng(0)
    whole_hw = rng.random(tiling.frame_hw).astype(np.float32)
    image_hwc = np.repeat(whole_hw[:, :, None], 3, axis=2)
    pieces = tiling.cut(image_hwc)  # type: ignore[arg-type]
    blended = tiling.blend([predict(piece[:, :, 0]) for piece in pieces])
    assert blended.map_hw.shape == tiling.frame_hw
    np.testing.assert_allclose(blended.map_hw, whole_hw, rtol=1e-5)


@given(tilings.filter(lambda tiling: tiling.overlap > 0.3))
def test_a_blend_stays_between_its_tiles(tiling: Tiling) -> None:
    count = len(tiling.corners_yx())
    parts = [predict(np.full(tiling.tile_hw, value)) for value in range(count)]
    blended = tiling.blend(parts)
    assert blended.map_hw.min() >= -1e-4
    assert blended.map_hw.max() <= count - 1 + 1e-3


def test_overlap_is_at_least_what_was_asked_for() -> None:
    tiling = Tiling(frame_hw=(2160, 3840), tile_hw=(256, 256), overlap=0.25)
    columns = sorted({x for _, x in tiling.corners_yx()})
    assert max(np.diff(columns)) <= 192
    assert columns[0] == 0
    assert columns[-1] == 3840 - 256


def test_the_score_is_that_of_the_worst_tile_and_nan_is_not_hidden() -> None:
    tiling = Tiling(frame_hw=(8, 16), tile_hw=(8, 8), overlap=0.0)
    zeros = np.zeros((8, 8))
    assert tiling.blend([predict(zeros, 3.0), predict(zeros, 5.0)]).score == 5.0
    assert np.isnan(tiling.blend([predict(zeros, np.nan), predict(zeros, 5.0)]).score)
    assert tiling.blend([predict(zeros), predict(zeros)]).grid_hw is None


def test_one_tile_is_the_frame() -> None:
    tiling = Tiling(frame_hw=(8, 8), tile_hw=(8, 8), overlap=0.5)
    assert tiling.corners_yx() == [(0, 0)]


def test_a_frame_smaller_than_the_model_cannot_be_tiled() -> None:
    with pytest.raises(RuntimeFailure) as error:
        Tiling(frame_hw=(100, 300), tile_hw=(256, 256), overlap=0.25)
    assert str(error.value) == (
        "--tile: a frame of 300x100 is smaller than the model's input of 256x256; leave --tile out"
    )


@pytest.mark.parametrize("size_hw", [(31, 47), (64, 64), (2160, 3840), (10, 100), (1, 1)])
@pytest.mark.parametrize("swap", [False, True])
def test_resizing_is_that_of_the_fit(size_hw: tuple[int, int], swap: bool) -> None:
    rng = np.random.default_rng(0)
    image = rng.integers(0, 255, (*size_hw, 3), dtype=np.uint8)
    out = np.empty((64, 64, 3), np.uint8)
    fit_into(image, out, swap=swap)
    expected = resize_image(image, (64, 64))
    assert np.array_equal(out, expected[:, :, ::-1] if swap else expected)


def test_a_cropped_view_is_resized_like_its_copy() -> None:
    rng = np.random.default_rng(0)
    image = rng.integers(0, 255, (100, 120, 3), dtype=np.uint8)
    roi = Roi.parse("7,11,80,60")
    crop = roi.crop(image)
    assert crop.shape == (60, 80, 3)
    assert np.shares_memory(crop, image)
    found, expected = np.empty((32, 48, 3), np.uint8), np.empty((32, 48, 3), np.uint8)
    fit_into(crop, found, swap=True)
    fit_into(crop.copy(), expected, swap=True)
    assert np.array_equal(found, expected)


def test_roi_fits_exactly_or_not_at_all() -> None:
    roi = Roi.parse("7,11,80,60")
    assert str(roi) == "7,11,80,60"
    assert roi.fits((71, 87))
    assert not roi.fits((70, 87))
    assert not roi.fits((71, 86))


@pytest.mark.parametrize("text", ["1,2,3", "a,b,c,d", "1,2,3,4,5", "1.5,0,3,3", ""])
def test_a_roi_that_is_not_four_integers(text: str) -> None:
    with pytest.raises(UsageError, match="expected four integers x,y,w,h"):
        Roi.parse(text)


@pytest.mark.parametrize("text", ["-1,0,3,3", "0,0,0,3"])
def test_a_roi_outside_of_any_frame(text: str) -> None:
    with pytest.raises(UsageError, match="expected x,y of 0 or more and w,h of 1 or more"):
        Roi.parse(text)
