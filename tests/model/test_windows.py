"""Windows of cells: which they cover, and their moments with and without those of the cells."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.model.factors import expected_d2, make_factors
from edgeseg.model.moments import Moments
from edgeseg.model.windows import Windows
from tests.support.moment_rows import assert_same, moments_of_rows, rows

GRID_HW = (12, 24)  # shared by 1 to 4 cells each way


def embeddings(count: int, *, k: int = 5, grid_hw: tuple[int, int] = GRID_HW) -> NDArray[Any]:
    # Far from zero: sums that are not centred would lose their digits.
    rng = np.random.default_rng(count)
    return (100 + rng.normal(size=(count, k, *grid_hw))).astype(np.float32)


def flat(x_nkhw: NDArray[Any]) -> NDArray[Any]:
    """Cells in one axis: (N, k, P)."""
    return x_nkhw.reshape(*x_nkhw.shape[:2], -1)


def whole_windows(
    *, grid_hw: tuple[int, int] = GRID_HW, share: int = 2, pool: int = 3, covariance: str = "local"
) -> Windows:
    """Moments are kept of windows, not of cells."""
    return Windows(grid_hw=grid_hw, share=share, pool=pool, moments="blocks", covariance=covariance)


def moments_of(windows: Windows, *batches: NDArray[Any]) -> Moments:
    moments = windows.new_moments(batches[0].shape[1])
    for batch in batches:
        windows.add_(moments, batch, images=len(batch))
    return moments


def assert_close(found: Moments, wanted: Moments) -> None:
    for name in ("count", "mean", "scatter"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(wanted, name), rtol=1e-9, atol=1e-11
        )


@pytest.mark.parametrize("share", [1, 2, 3])
@pytest.mark.parametrize("pool", [1, 3])
def test_who_uses_which_gaussian(share: int, pool: int) -> None:
    windows = Windows(grid_hw=(6, 12), share=share, pool=pool)
    assert windows.cells == 72
    assert windows.count == 72 // share**2
    assert windows.are_cells == (share == pool == 1)
    block_of_cell = windows.block_of_cell()
    own = windows.cells_of_block()
    cells, exists = windows.cells_of_window()
    for y in range(6):
        for x in range(12):
            cell, block = y * 12 + x, y // share * (12 // share) + x // share
            assert block_of_cell[cell] == block
            assert cell in own[block]
    assert sorted(own.flatten().tolist()) == list(range(72))
    reach = pool // 2
    for block in range(windows.count):
        top, left = divmod(int(own[block, 0]), 12)
        around = {
            y * 12 + x
            for y in range(max(0, top - reach), min(6, top + share + reach))
            for x in range(max(0, left - reach), min(12, left + share + reach))
        }
        assert set(cells[block][exists[block]].tolist()) == around


def test_how_many_moments_and_covariances() -> None:
    of_cells = Windows(grid_hw=(6, 12), share=2, pool=3)
    assert (of_cells.kept, of_cells.covariances) == (72, 18)
    assert np.array_equal(of_cells.block_of_kept(), of_cells.block_of_cell())
    of_windows = whole_windows(grid_hw=(6, 12), covariance="global")
    assert (of_windows.kept, of_windows.covariances) == (18, 1)
    assert np.array_equal(of_windows.block_of_kept(), np.arange(18))


@pytest.mark.parametrize("share", [1, 2, 3])
def test_values_of_blocks_and_cells(share: int) -> None:
    windows = Windows(grid_hw=(6, 12), share=share)
    values = np.random.default_rng(0).normal(size=(windows.count, 4))
    assert np.array_equal(windows.per_cell(values), values[windows.block_of_cell()])


@pytest.mark.parametrize("share", [1, 2, 3])
def test_rows_by_block_and_back_on_the_grid(share: int) -> None:
    windows = Windows(grid_hw=(6, 12), share=share)
    x = np.random.default_rng(0).normal(size=(5, 72, 4))
    by_block = windows.by_block(x)
    assert by_block.shape == (windows.count, 5 * share**2, 4)
    for block, own in enumerate(windows.cells_of_block()):
        rows_of_block = x[:, own].reshape(-1, 4)
        assert np.array_equal(np.sort(by_block[block], axis=0), np.sort(rows_of_block, axis=0))
    back = windows.to_grid(by_block[..., 0], images=5)
    assert np.array_equal(back, x[..., 0].reshape(5, 6, 12))


@pytest.mark.parametrize("share", [1, 2])
@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize("grid_hw", [(2, 2), (2, 6), (4, 2), (8, 4)])
def test_pooled_is_the_union_of_the_neighbours(grid_hw, size, share):
    """Every block of cells with those around it, cut at the border of the grid."""
    height, width = grid_hw
    x = rows(5, locations=height * width).reshape(5, 4, height, width)
    pooled = Windows(grid_hw=grid_hw, share=share, pool=size).pool_moments(moments_of_rows(flat(x)))
    reach = size // 2
    unions = []
    for top in range(0, height, share):
        for left in range(0, width, share):
            window = x[
                :,
                :,
                max(0, top - reach) : top + share + reach,
                max(0, left - reach) : left + share + reach,
            ]
            union = window.transpose(0, 2, 3, 1).reshape(-1, 4, 1)  # images and neighbours alike
            unions.append(moments_of_rows(union))
    assert pooled.mean.shape == (height * width // share**2, 4)
    expected = Moments(
        count=np.concatenate([union.count for union in unions]),
        mean=np.concatenate([union.mean for union in unions]),
        scatter=np.concatenate([union.scatter for union in unions]),
    )
    assert_same(pooled, expected)


def test_pooling_a_single_cell():
    moments = moments_of_rows(rows(5, locations=1))
    assert_same(Windows(grid_hw=(1, 1), pool=5).pool_moments(moments), moments)


def test_pooling_no_images_gives_none():
    pooled = Windows(grid_hw=(2, 3), pool=3).pool_moments(Moments.zero(6, 4))
    assert not pooled.count.any()
    assert np.isfinite(pooled.mean).all()


def test_pool_of_one_changes_nothing():
    moments = moments_of_rows(rows(5))
    assert Windows(grid_hw=(2, 3)).pool_moments(moments) is moments


def test_pooling_commutes_with_merging():
    first, second = moments_of_rows(rows(4)), moments_of_rows(rows(7, seed=1))
    windows = Windows(grid_hw=(2, 3), pool=3)
    assert_same(
        windows.pool_moments(first.merge(second)),
        windows.pool_moments(first).merge(windows.pool_moments(second)),
    )


@pytest.mark.parametrize("share", [1, 2, 3, 4])
@pytest.mark.parametrize("pool", [1, 3, 5])
def test_they_equal_the_pooled_moments_of_cells(share: int, pool: int) -> None:
    windows = whole_windows(share=share, pool=pool)
    first, second = embeddings(3), embeddings(2)
    cells = moments_of_rows(flat(np.concatenate([first, second])))
    found = moments_of(windows, first, second)
    assert (found.count == 5).all()
    merged = Windows(grid_hw=GRID_HW, share=share, pool=pool).pool_moments(cells)
    assert_close(windows.in_cells(found), merged)
    assert windows.pool_moments(found) is found
    one_covariance = whole_windows(share=share, pool=pool, covariance="global")
    assert_close(one_covariance.pool_moments(found), merged)


def test_by_hand_in_a_corner() -> None:
    x = embeddings(4)
    found = moments_of(whole_windows(), x)
    window = x[:, :, :3, :3].astype(np.float64).transpose(0, 2, 3, 1).reshape(-1, 5)  # (4 * 9, k)
    assert found.images == 4
    np.testing.assert_allclose(found.mean[0], window.mean(axis=0))
    np.testing.assert_allclose(found.scatter[0], np.cov(window.T, bias=True) * 4)


@pytest.mark.parametrize(
    ("grid_hw", "share", "pool"), [((4, 4), 4, 3), ((2, 2), 1, 5), ((1, 3), 1, 3)]
)
def test_grids_smaller_than_a_window(grid_hw: tuple[int, int], share: int, pool: int) -> None:
    x = embeddings(2, grid_hw=grid_hw)
    windows = whole_windows(grid_hw=grid_hw, share=share, pool=pool)
    merged = Windows(grid_hw=grid_hw, share=share, pool=pool).pool_moments(moments_of_rows(flat(x)))
    assert_close(windows.in_cells(moments_of(windows, x)), merged)


def test_they_merge_and_split_like_moments_of_cells() -> None:
    windows = whole_windows(share=3)
    first, second = embeddings(3), embeddings(2)
    whole = moments_of(windows, first, second)
    assert_close(moments_of(windows, first).merge(moments_of(windows, second)), whole)
    left = whole.remove(moments_of(windows, second))
    wanted = moments_of(windows, first).scatter
    np.testing.assert_allclose(left.scatter, wanted, atol=1e-9)


def test_rows_of_one_image_count_as_one() -> None:
    """Tiles: 45 of them are one frame, which may be forgotten as one."""
    x = flat(embeddings(6))  # two frames of three tiles
    found = Moments.zero(x.shape[2], x.shape[1])
    found.update_(x[:3], images=1)
    found.update_(x[3:], images=1)
    assert found.images == 2
    assert not found.decayed
    np.testing.assert_allclose(found.scatter / 2, moments_of_rows(x).scatter / 6, atol=1e-9)
    np.testing.assert_allclose(found.mean, moments_of_rows(x).mean)


@pytest.mark.parametrize("covariance", ["local", "global"])
@pytest.mark.parametrize("pool", [1, 3])
def test_two_ways_to_the_mean_distance_agree(covariance: str, pool: int) -> None:
    windows = whole_windows(pool=pool)
    x = embeddings(20)
    moments = moments_of(windows, x)
    base = moments if covariance == "local" else moments.shared_covariance()
    factors = make_factors(base, ridge=0.01, rank=3, directions="lower")
    expected = expected_d2(factors, moments)
    np.testing.assert_allclose(windows.mean_d2(factors, x), expected, rtol=1e-3)


def test_an_unsound_factor_is_noticed() -> None:
    windows = whole_windows()
    x = embeddings(20)
    moments = moments_of(windows, x)
    factors = make_factors(moments, ridge=0.01, rank=3, directions="lower")
    factors.factor[7] *= 1.1
    wrong = windows.mean_d2(factors, x) / expected_d2(
        make_factors(moments, ridge=0.01, rank=3, directions="lower"), moments
    )
    assert wrong[7] > 1.2
    assert abs(float(wrong[8]) - 1) < 1e-3
