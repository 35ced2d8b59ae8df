"""What follows the embedding: distances, map and score, by which held-out images are judged.

The numbers are those of the traced forward (reference.py), up to float32's rounding.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.config import FitConfig
from edgeseg.model.factors import LEAST_DISTANCE, SHARPNESS, Factors
from edgeseg.model.parallel import in_parallel
from edgeseg.model.variants import VariantForm
from edgeseg.model.windows import Windows
from edgeseg.vision.ignored import MapRule, hidden_of

Maps = NDArray[np.float32]
Variants = NDArray[np.int64]  # (N,): numbers of variants
# Which cells (h, w) of each frame its camera saw; None or nothing: all of them.
Insides = Sequence[NDArray[np.bool_] | None]


class Cells(NamedTuple):
    """Distances (N, h, w) of all cells: those that the score counts, and those of the map."""

    score: Maps
    shown: Maps  # the same array where the map has no Gaussians of its own
    variants: Variants | None = None  # that frames are measured from; None: there is one product


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
        self.counted = _mean_weights(config)  # (h, w), of a mean over a frame
        self.variants = VariantForm.of(factors, self.windows, self.counted)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what a graph gives; the map's own cells, where it has such."""
        shown, several = self.factors.shown is not None, self.variants is not None
        return ("map", "score", "grid") + ("map_grid",) * shown + ("variant",) * several

    def distances(self, x_nkhw: NDArray[Any], variants: Variants | None = None) -> Cells:
        """Map an embedding (N, k, h, w) to the Mahalanobis distances (N, h, w) of all locations.

        Where there are variants, they are taken from the nearest one, or from those that are given.
        """
        n = len(x_nkhw)
        if self.variants is not None and variants is None:
            variants = self.variants.nearest(_rows(x_nkhw))
        rows = self.apart(x_nkhw, variants)
        by_block = self.windows.by_block(rows)  # (B, N share^2, k)
        factor, shown = self.factors.factor, self.factors.shown
        d2 = np.empty((1 if shown is None else 3, *by_block.shape[:2]), np.float32)

        def fill(start: int, stop: int) -> None:
            part = slice(start, stop) if len(factor) > 1 else slice(None)
            y = by_block[start:stop] @ factor[part]
            np.einsum("bnr,bnr->bn", y, y, out=d2[0, start:stop])
            if shown is None:
                return
            np.matmul(y * y, shown.weight[part, :, None], out=d2[1, start:stop, :, None])
            own = by_block[start:stop, :, : shown.width] @ shown.factor[part]
            np.einsum("bnr,bnr->bn", own, own, out=d2[2, start:stop])

        in_parallel(fill, len(by_block), bytes_each=4 * by_block.shape[1] * factor.shape[2])
        score, *others = (self.windows.to_grid(np.sqrt(values), images=n) for values in d2)
        if not others:
            return Cells(score, score, variants)
        near, own = others
        return Cells(score, near * self._sharpen(own), variants)

    def apart(self, x_nkhw: NDArray[Any], variants: Variants | None = None) -> Maps:
        """Return how far the cells (N, P, k) of an embedding are from the mean of their place."""
        x_npk = _rows(x_nkhw)
        centre = self.mean
        if self.variants is not None and variants is not None:
            centre = self.variants.means[variants]  # (N, P, k)
        rows = np.empty(x_npk.shape, np.float32)
        np.subtract(x_npk, centre, out=rows)
        return rows

    def _sharpen(self, own_nhw: Maps) -> Maps:
        """Return the factor of the map: where in a frame the map's own distances are large."""
        mean = (own_nhw * self.counted).sum(axis=(1, 2), keepdims=True)
        factor: Maps = ((own_nhw + LEAST_DISTANCE) / (mean + LEAST_DISTANCE)) ** SHARPNESS
        return factor

    def mask_ignored(self, cells: Cells) -> Cells:
        """Set distances (N, h, w) of ignored cells to 0."""
        if self.kept is None:
            return cells
        return Cells(cells.score * self.kept, cells.shown * self.kept, cells.variants)

    def to_image(self, cells: Cells, insides: Insides = ()) -> tuple[Maps, Maps]:
        """Map distances (N, h, w) of cells that count to the map (N, H, W) and the score (N,)."""
        rows, columns = self.rule.operators
        maps: Maps = np.matmul(np.matmul(rows, cells.shown), columns)
        if self.gain is not None:
            maps = maps * self.gain
        score = self._score(cells.score, maps)
        judge_inside(self.rule, self.kept, cells, insides, maps, score)
        return maps, score

    def judge(self, x_nkhw: NDArray[Any], insides: Insides = ()) -> tuple[Maps, Maps]:
        """Map embeddings to maps and scores."""
        return self.to_image(self.mask_ignored(self.distances(x_nkhw)), insides)

    def _score(self, grid_nhw: Maps, maps_nhw: Maps) -> Maps:
        if self.rule.top == 1:
            return np.asarray(maps_nhw.max(axis=(1, 2)))
        flat = grid_nhw.reshape(len(grid_nhw), -1)
        first = flat.shape[1] - min(self.top, flat.shape[1])
        return np.asarray(np.partition(flat, first, axis=1)[:, first:].mean(axis=1))


def _rows(x_nkhw: NDArray[Any]) -> NDArray[Any]:
    x_npk: NDArray[Any] = x_nkhw.reshape(*x_nkhw.shape[:2], -1).transpose(0, 2, 1)
    return x_npk


def judge_inside(
    rule: MapRule,
    kept_hw: Maps | None,
    cells: Cells,
    insides: Insides,
    maps_nhw: Maps,
    score_n: Maps,
) -> None:
    """Replace maps and scores of frames whose camera did not see all cells, in place."""
    for index, inside_hw in enumerate(insides):
        if inside_hw is not None:
            counted_hw = inside_hw if kept_hw is None else inside_hw & (kept_hw != 0)
            maps_nhw[index], score_n[index] = rule.judge(
                cells.score[index], counted_hw, shown_hw=cells.shown[index]
            )


def counted_cells(config: FitConfig, rule: MapRule) -> tuple[Maps | None, Maps | None]:
    """Return the cells (h, w) that count and the gain of the map (H, W); None where all count."""
    hidden = hidden_of(config.geometry, config.image_hw)
    if hidden is None:
        return None, None
    kept = hidden.kept_cells(config.grid_hw)
    if not kept.any():
        raise UsageError("ignore: every cell is ignored, so there is nothing left to look at")
    return kept.astype(np.float32), rule.gain(kept)


def _mean_weights(config: FitConfig) -> Maps:
    """Return weights (h, w) of a mean over the cells that the fit counts.

    Those that are ignored later stay in it: the map of all others is then what it was.
    """
    fitted = replace(config.geometry, uncounted=())
    hidden = hidden_of(fitted, config.image_hw)
    counted = np.ones(config.grid_hw) if hidden is None else hidden.kept_cells(config.grid_hw)
    return np.asarray(counted / counted.sum(), np.float32)
