"""What follows the embedding: distances, map and score, by which held-out images are judged.

The numbers are those of the traced forward (reference.py), up to float32's rounding.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.config import FitConfig
from edgeseg.model.factors import Factors
from edgeseg.model.parallel import in_parallel
from edgeseg.model.windows import Windows
from edgeseg.vision.ignored import MapRule, hidden_of

Maps = NDArray[np.float32]
# Which cells (h, w) of each frame its camera saw; None or nothing: all of them.
Insides = Sequence[NDArray[np.bool_] | None]


class GaussianHead:
    """The Gaussians of a model, without the network that makes embeddings."""

    def __init__(self, config: FitConfig, factors: Factors) -> None:
        self.factors, self.windows = factors, Windows.of(config)
        self.mean: Maps = self.windows.per_cell(factors.mean)  # (P, k)
        self.rule = MapRule(
            size_hw=config.size_hw, grid_hw=config.grid_hw, sigma=config.sigma, top=config.top
        )
        self.kept, self.gain = counted_cells(config, self.rule)
        self.top = config.top if self.kept is None else min(config.top, int(self.kept.sum()))

    def distances(self, x_nkhw: NDArray[Any]) -> Maps:
        """Map an embedding (N, k, h, w) to the Mahalanobis distance (N, h, w) of every location."""
        n, k = x_nkhw.shape[:2]
        rows = np.empty((n, self.windows.cells, k), np.float32)
        np.subtract(x_nkhw.reshape(n, k, -1).transpose(0, 2, 1), self.mean, out=rows)
        by_block = self.windows.by_block(rows)  # (B, N share^2, k)
        factor = self.factors.factor
        d2 = np.empty(by_block.shape[:2], np.float32)

        def fill(start: int, stop: int) -> None:
            y = by_block[start:stop] @ (factor if len(factor) == 1 else factor[start:stop])
            np.einsum("bnr,bnr->bn", y, y, out=d2[start:stop])

        in_parallel(fill, len(d2), bytes_each=4 * by_block.shape[1] * factor.shape[2])
        return self.windows.to_grid(np.sqrt(d2), images=n)

    def mask_ignored(self, grid_nhw: Maps) -> Maps:
        """Set distances (N, h, w) of ignored cells to 0."""
        return grid_nhw if self.kept is None else grid_nhw * self.kept

    def to_image(self, grid_nhw: Maps, insides: Insides = ()) -> tuple[Maps, Maps]:
        """Map distances (N, h, w) of cells that count to the map (N, H, W) and the score (N,)."""
        rows, columns = self.rule.operators
        maps: Maps = np.matmul(np.matmul(rows, grid_nhw), columns)
        if self.gain is not None:
            maps = maps * self.gain
        score = self._score(grid_nhw, maps)
        judge_inside(self.rule, self.kept, grid_nhw, insides, maps, score)
        return maps, score

    def judge(self, x_nkhw: NDArray[Any], insides: Insides = ()) -> tuple[Maps, Maps]:
        """Map embeddings to maps and scores."""
        return self.to_image(self.mask_ignored(self.distances(x_nkhw)), insides)

    def _score(self, grid_nhw: Maps, maps_nhw: Maps) -> Maps:
        if self.top == 1:
            return np.asarray(maps_nhw.max(axis=(1, 2)))
        flat = grid_nhw.reshape(len(grid_nhw), -1)
        first = flat.shape[1] - min(self.top, flat.shape[1])
        return np.asarray(np.partition(flat, first, axis=1)[:, first:].mean(axis=1))


def judge_inside(
    rule: MapRule,
    kept_hw: Maps | None,
    grid_nhw: Maps,
    insides: Insides,
    maps_nhw: Maps,
    score_n: Maps,
) -> None:
    """Replace maps and scores of frames whose camera did not see all cells, in place."""
    for index, inside_hw in enumerate(insides):
        if inside_hw is not None:
            counted_hw = inside_hw if kept_hw is None else inside_hw & (kept_hw != 0)
            maps_nhw[index], score_n[index] = rule.judge(grid_nhw[index], counted_hw)


def counted_cells(config: FitConfig, rule: MapRule) -> tuple[Maps | None, Maps | None]:
    """Return the cells (h, w) that count and the gain of the map (H, W); None where all count."""
    hidden = hidden_of(config.geometry, config.image_hw)
    if hidden is None:
        return None, None
    kept = hidden.kept_cells(config.grid_hw)
    if not kept.any():
        raise UsageError("ignore: every cell is ignored, so there is nothing left to look at")
    return kept.astype(np.float32), rule.gain(kept)
