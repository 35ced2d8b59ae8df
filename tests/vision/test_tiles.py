"""Tiles: they cover the frame, and blending what was cut gives it back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeseg.base.errors import UsageError
from edgeseg.vision.tiles import Tiling

tilings = st.builds(
    lambda tile_h, tile_w, more_h, more_w, share: Tiling(
        frame_hw=(tile_h + more_h, tile_w + more_w),
        tile_hw=(tile_h, tile_w),
        overlap_hw=(tile_h * share, tile_w * share),
    ),
    st.integers(1, 24),
    st.integers(1, 24),
    st.integers(0, 80),
    st.integers(0, 80),
    st.floats(0, 0.9),
)


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
    blended, _ = tiling.blend([piece[:, :, 0] for piece in pieces], [0.0] * len(pieces))
    assert blended.shape == tiling.frame_hw
    np.testing.assert_allclose(blended, whole_hw, rtol=1e-5)


@given(tilings.filter(lambda tiling: tiling.overlap_hw[0] > 0.3 * tiling.tile_hw[0]))
def test_a_blend_stays_between_its_tiles(tiling: Tiling) -> None:
    count = len(tiling.corners_yx())
    parts = [np.full(tiling.tile_hw, value, np.float32) for value in range(count)]
    blended, _ = tiling.blend(parts, [0.0] * count)
    assert blended.min() >= -1e-4
    assert blended.max() <= count - 1 + 1e-3


def test_overlap_is_at_least_what_was_asked_for() -> None:
    tiling = Tiling(frame_hw=(2160, 3840), tile_hw=(256, 256), overlap_hw=(64, 64))
    columns = sorted({x for _, x in tiling.corners_yx()})
    assert max(np.diff(columns)) <= 192
    assert columns[0] == 0
    assert columns[-1] == 3840 - 256


def test_the_score_is_that_of_the_worst_tile_and_nan_is_not_hidden() -> None:
    tiling = Tiling(frame_hw=(8, 16), tile_hw=(8, 8), overlap_hw=(0, 0))
    zeros = [np.zeros((8, 8), np.float32)] * 2
    assert tiling.blend(zeros, [3.0, 5.0])[1] == 5.0
    assert np.isnan(tiling.blend(zeros, [np.nan, 5.0])[1])


def test_one_tile_is_the_frame() -> None:
    tiling = Tiling(frame_hw=(8, 8), tile_hw=(8, 8), overlap_hw=(4, 4))
    assert tiling.corners_yx() == [(0, 0)]


def test_a_4k_frame_in_tiles_of_512() -> None:
    corners = Tiling(frame_hw=(2160, 3840), tile_hw=(512, 512), overlap_hw=(64, 64)).corners_yx()
    assert len(corners) == 5 * 9
    assert sorted({y for y, _ in corners}) == [0, 412, 824, 1236, 1648]


@pytest.mark.parametrize(
    ("tile_hw", "overlap", "sentence"),
    [
        (
            (256, 256),
            64,
            "tiles: a frame of 100x300 is smaller than a tile of 256x256 (height x width); "
            "do without tiles, or make them smaller",
        ),
        (
            (64, 64),
            64,
            "tiles: an overlap of 64 pixels, expected 0 or more and less than the tile's 64",
        ),
        (
            (64, 64),
            -1,
            "tiles: an overlap of -1 pixels, expected 0 or more and less than the tile's 64",
        ),
    ],
)
def test_tiles_that_cannot_be_cut(tile_hw: tuple[int, int], overlap: int, sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        Tiling(frame_hw=(100, 300), tile_hw=tile_hw, overlap_hw=(overlap, overlap))
    assert str(error.value) == sentence
