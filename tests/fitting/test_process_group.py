"""Sums over processes, here threads: the moments of all images, whoever has which of them."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.fitting import group_sums
from edgeseg.fitting.group_sums import group_factors, sum_moments_
from edgeseg.fitting.process_group import ALONE, ProcessGroup
from edgeseg.model.moments import Moments
from edgeseg.model.variant_moments import VariantMoments
from edgeseg.model.windows import Windows
from tests.support import HANGS_S
from tests.support.moment_rows import assert_same, moments_of_rows, rows
from tests.support.small_models import SHOWN


class Threads(ProcessGroup):
    """A process of a group, as a thread: `board` is what all can see."""

    def __init__(self, rank: int, size: int, board: list[Any], meet: threading.Barrier) -> None:
        self.rank, self.size, self.board, self.meet = rank, size, board, meet

    def gather(self, value: Any) -> list[Any]:
        self.board[self.rank] = value
        self.meet.wait(HANGS_S)
        values = list(self.board)
        self.meet.wait(HANGS_S)
        return values

    def sum_(self, values: NDArray[Any]) -> NDArray[Any]:
        values[...] = np.stack(self.gather(values.copy())).sum(axis=0)
        return values


def together(size: int, work: Callable[[ProcessGroup], Any]) -> list[Any]:
    """What each of `size` processes returns."""
    board: list[Any] = [None] * size
    meet = threading.Barrier(size)
    results: list[Any] = [None] * size

    def run(rank: int) -> None:
        results[rank] = work(Threads(rank, size, board, meet))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("chunk_bytes", [1, 300, 1 << 20])
@pytest.mark.parametrize("sizes", [(5, 5), (1, 9), (10, 0), (3, 0, 4, 1), (0, 0, 2)])
def test_sums_of_shares_are_those_of_the_whole(monkeypatch, sizes, chunk_bytes):
    monkeypatch.setattr(group_sums, "CHUNK_BYTES", chunk_bytes)
    x = rows(sum(sizes))
    starts = [sum(sizes[:rank]) for rank in range(len(sizes))]

    def work(group: ProcessGroup) -> Moments:
        start = starts[group.rank]
        return sum_moments_(moments_of_rows(x[start : start + sizes[group.rank]]), group)

    sums = together(len(sizes), work)
    for moments in sums:
        assert_same(moments, moments_of_rows(x))
        assert np.array_equal(moments.scatter, sums[0].scatter)  # the same bits in every process


@pytest.mark.parametrize("covariance", ["local", "global"])
@pytest.mark.parametrize("size", [2, 3])
def test_each_process_inverts_its_share_for_all(size, covariance):
    """The map's factors too; one covariance alone is nothing to share."""
    config = replace(SHOWN, size_hw=(32, 32), covariance=covariance)
    windows = Windows.of(config)
    pooled = windows.pool_moments(moments_of_rows(rows(40, k=16, locations=16)))
    wanted = group_factors(config, pooled)
    assert wanted.shown is not None
    for found in together(size, lambda group: group_factors(config, pooled, group)):
        assert found.shown is not None
        assert np.array_equal(found.factor, wanted.factor)
        assert np.array_equal(found.shown.weight, wanted.shown.weight)
        assert np.array_equal(found.shown.factor, wanted.shown.factor)


def test_no_images_anywhere():
    for moments in together(2, lambda group: sum_moments_(Moments.zero(6, 4), group)):
        assert_same(moments, Moments.zero(6, 4), tolerance=0)


@pytest.mark.parametrize("sizes", [((5, 4), (3, 6)), ((5, 0), (0, 6)), ((8, 10), (0, 0))])
def test_variants_of_all_processes_keep_their_own_means(sizes):
    x = [rows(10), rows(10, seed=1)]
    counts = np.sum(sizes, axis=0).tolist()

    def own(rank: int) -> VariantMoments:
        moments = VariantMoments.blank(2, 6, 4)
        for variant, count in enumerate(sizes[rank]):
            first = sum(sizes[other][variant] for other in range(rank))
            moments.part_(variant).update_(x[variant][first : first + count])
        return moments.settle_()

    expected = VariantMoments.of([moments_of_rows(x[v][: counts[v]]) for v in range(2)])
    for moments in together(2, lambda group: sum_moments_(own(group.rank), group)):
        assert_same(moments, expected)
        np.testing.assert_allclose(moments.own_mean, expected.own_mean, atol=1e-9)


def test_alone_nothing_is_summed():
    moments = moments_of_rows(rows(4))
    assert sum_moments_(moments, ALONE) is moments
    assert ALONE.gather("x") == ["x"]
    ALONE.check()


@pytest.mark.parametrize(("count", "size"), [(10, 3), (3, 3), (2, 5), (0, 2)])
def test_spans_share_everything_once(count, size):
    groups = [Threads(rank, size, [], threading.Barrier(1)) for rank in range(size)]
    shared = [place for group in groups for place in range(count)[group.span(count)]]
    assert shared == list(range(count))
