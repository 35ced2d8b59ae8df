"""Good images judged by models that were fitted without them, in one process or in many."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from edgeseg.data.samples import frames_at_once
from edgeseg.evaluation.threshold import GoodImages
from edgeseg.fitting.embedding_store import EmbeddingSpool
from edgeseg.fitting.feature_space import Network
from edgeseg.fitting.parallel.group import ALONE, Group, sum_moments_
from edgeseg.model.moments import Moments
from edgeseg.model.reference import Model
from edgeseg.progress import Progress, silent


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Reads embeddings back from this process's spool; verdicts are those of all processes."""

    network: Network
    group: Group = ALONE
    batch_size: int = 8
    progress: Progress = field(default=silent)

    @property
    def _at_once(self) -> int:
        return frames_at_once(self.network.config.image_hw, most=self.batch_size)

    def measured_d2(self, model: Model, spool: EmbeddingSpool) -> float:
        """Mean of d^2 over all locations and all spooled images."""
        total = torch.zeros(2, dtype=torch.float64)
        for rows in spool.batches(spool.places, size=self._at_once):
            mean = self.network.mean_d2(model, self.network.inputs(rows))
            total += torch.tensor([mean * len(rows), len(rows)])
        total = self.group.sum_(total)
        return float(total[0] / total[1])

    def by_one(self, model: Model, spool: EmbeddingSpool) -> GoodImages:
        """Verdicts of one model on all spooled images."""
        tally = _Tally(self)
        tally.add(0, model, spool, sorted(spool.places))
        return tally.result()

    def by_the_others(
        self, pooled: Moments, spool: EmbeddingSpool, *, folds: int, seed: int
    ) -> GoodImages:
        """Each fold judged by the model of all other images behind `pooled`, the fold's taken out.

        Which images make a fold depends on their places in the whole list alone.
        """
        places = sorted(place for part in self.group.gather(spool.places) for place in part)
        order = permutation(len(places), seed)
        own = set(spool.places)
        tally = _Tally(self)
        steps = self.progress(range(folds), length=folds, label="Calibrating")
        for fold in steps:
            members = sorted(places[index] for index in order[fold::folds])
            mine = [place for place in members if place in own]
            tally.add(fold, self._without(pooled, spool, mine), spool, mine)
        return tally.result()

    def _without(self, pooled: Moments, spool: EmbeddingSpool, mine: Sequence[int]) -> Model:
        """The model of all images but these: moments are sums, so this is exact."""
        fold = self.network.new_moments()
        for rows in spool.batches(mine, size=self._at_once):
            self.network.add_(fold, rows)
        # Pooling is a sum too, so the fold is pooled and taken from the pooled whole: with shared
        # Gaussians that is a quarter of the memory, and of the bytes between processes.
        rest = pooled.remove(sum_moments_(self.network.pool(fold), self.group))
        return self.network.model(self.network.factors(rest, self.group))


class _Tally:
    """What models said of images: plain numbers of each, and sums of maps over all."""

    def __init__(self, judge: Judge):
        self.judge = judge
        self.rows: list[tuple[int, int, float, float, float]] = []
        # Sums of d^2 and d^4 at every location; float64 leaves their difference exact enough.
        self.sums = torch.zeros(2, *judge.network.config.grid_hw, dtype=torch.float64)

    def add(self, fold: int, model: Model, spool: EmbeddingSpool, places: Sequence[int]) -> None:
        size = self.judge._at_once
        for start, rows in enumerate(spool.batches(places, size=size)):
            network = self.judge.network
            d2 = (grid := model.distances(network.inputs(rows))).square()  # (n or n T, h, w)
            score, peak = network.of_frames(*model.to_image(grid))
            values = torch.stack([score, peak, d2.view(len(rows), -1).mean(dim=1)], dim=1)
            for place, row in zip(places[start * size :], values.tolist(), strict=False):
                self.rows.append((fold, place, *row))
            d2 = d2.to(torch.float64)
            self.sums += torch.stack([d2.sum(dim=0), d2.square().sum(dim=0)])

    def result(self) -> GoodImages:
        """Of all processes, by fold and place in the list."""
        group = self.judge.group
        rows = sorted(row for part in group.gather(self.rows) for row in part)
        values = np.array([row[2:] for row in rows], np.float32).reshape(-1, 3)
        inputs = max(len(rows), 1) * self.judge.network.tiles
        mean, square = (group.sum_(self.sums) / inputs).numpy()
        spread = np.sqrt(np.clip(square - mean**2, 0.0, None))
        return GoodImages(
            scores=values[:, 0].copy(),
            peaks=values[:, 1].copy(),
            frame_d2=values[:, 2].copy(),
            d2_mean=mean.astype(np.float32),
            d2_std=spread.astype(np.float32),
        )


def permutation(count: int, seed: int) -> list[int]:
    """The order in which images are chosen, the same wherever it is asked for."""
    return [int(index) for index in np.random.default_rng(seed).permutation(count)]
