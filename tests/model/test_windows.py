"""Moments of windows of cells: those of the pooled cells, without keeping the cells."""

import pytest
import torch
from torch import Tensor

from edgeseg.model.factors import expected_d2, make_factors
from edgeseg.model.moments import Moments
from edgeseg.model.windows import Blocks

GRID_HW = (12, 24)  # shared by 1 to 4 cells each way


def embeddings(count: int, *, k: int = 5, grid_hw: tuple[int, int] = GRID_HW) -> Tensor:
    generator = torch.Generator().manual_seed(count)
    # Far from zero: sums that are not centred would lose their digits.
    return 100 + torch.randn(count, k, *grid_hw, generator=generator)


def moments_of(blocks: Blocks, *batches: Tensor) -> Moments:
    moments = Moments.zero(blocks.count, batches[0].shape[1])
    for batch in batches:
        blocks.update_(moments, batch, images=len(batch))
    return moments


def assert_same(found: Moments, wanted: Moments) -> None:
    for name in ("count", "mean", "scatter"):
        torch.testing.assert_close(getattr(found, name), getattr(wanted, name), rtol=1e-9, atol=0)


@pytest.mark.parametrize("share", [1, 2, 3, 4])
@pytest.mark.parametrize("pool", [1, 3, 5])
def test_they_equal_the_pooled_moments_of_cells(share: int, pool: int) -> None:
    blocks = Blocks(grid_hw=GRID_HW, share=share, pool=pool)
    first, second = embeddings(3), embeddings(2)
    cells = Moments.of(torch.cat([first, second]).flatten(2))
    found = moments_of(blocks, first, second)
    assert (found.count == 5).all()
    assert_same(blocks.in_cells(found), cells.pooled(GRID_HW, pool, share=share))


def test_by_hand_in_a_corner() -> None:
    x = embeddings(4)
    found = moments_of(Blocks(grid_hw=GRID_HW, share=2, pool=3), x)
    window = x[:, :, :3, :3].to(torch.float64).permute(0, 2, 3, 1).reshape(-1, 5)  # (4 * 9, k)
    assert found.images == 4
    torch.testing.assert_close(found.mean[0], window.mean(dim=0))
    torch.testing.assert_close(found.scatter[0], torch.cov(window.mT, correction=0) * 4)


@pytest.mark.parametrize(
    ("grid_hw", "share", "pool"), [((4, 4), 4, 3), ((2, 2), 1, 5), ((1, 3), 1, 3)]
)
def test_grids_smaller_than_a_window(grid_hw: tuple[int, int], share: int, pool: int) -> None:
    x = embeddings(2, grid_hw=grid_hw)
    blocks = Blocks(grid_hw=grid_hw, share=share, pool=pool)
    wanted = Moments.of(x.flatten(2)).pooled(grid_hw, pool, share=share)
    assert_same(blocks.in_cells(moments_of(blocks, x)), wanted)


def test_they_merge_and_split_like_moments_of_cells() -> None:
    blocks = Blocks(grid_hw=GRID_HW, share=3, pool=3)
    first, second = embeddings(3), embeddings(2)
    whole = moments_of(blocks, first, second)
    assert_same(moments_of(blocks, first).merge(moments_of(blocks, second)), whole)
    left = whole.remove(moments_of(blocks, second))
    torch.testing.assert_close(left.scatter, moments_of(blocks, first).scatter)


def test_rows_of_one_image_count_as_one() -> None:
    """Tiles: 45 of them are one frame, which may be forgotten as one."""
    x = embeddings(6).flatten(2)  # two frames of three tiles
    found = Moments.zero(x.shape[2], x.shape[1])
    found.update_(x[:3], images=1)
    found.update_(x[3:], images=1)
    assert found.images == 2
    assert not found.decayed
    torch.testing.assert_close(found.scatter / 2, Moments.of(x).scatter / 6)
    torch.testing.assert_close(found.mean, Moments.of(x).mean)


@pytest.mark.parametrize("covariance", ["local", "global"])
@pytest.mark.parametrize("pool", [1, 3])
def test_two_ways_to_the_mean_distance_agree(covariance: str, pool: int) -> None:
    blocks = Blocks(grid_hw=GRID_HW, share=2, pool=pool)
    x = embeddings(20)
    moments = moments_of(blocks, x)
    base = moments if covariance == "local" else moments.shared_covariance()
    factors = make_factors(base, ridge=0.01, rank=3, directions="lower")
    expected = expected_d2(factors, moments)
    torch.testing.assert_close(blocks.mean_d2(factors, x), expected, rtol=1e-3, atol=0)


def test_an_unsound_factor_is_noticed() -> None:
    blocks = Blocks(grid_hw=GRID_HW, share=2, pool=3)
    x = embeddings(20)
    moments = moments_of(blocks, x)
    factors = make_factors(moments, ridge=0.01, rank=3, directions="lower")
    factors.factor[7] *= 1.1
    wrong = blocks.mean_d2(factors, x) / expected_d2(
        make_factors(moments, ridge=0.01, rank=3, directions="lower"), moments
    )
    assert wrong[7] > 1.2
    assert abs(float(wrong[8]) - 1) < 1e-3
