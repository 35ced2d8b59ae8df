"""Scores of good images by models that were fitted without them, in one process or in many."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.messages import Message
from edgeseg.base.progress import Steps, silent
from edgeseg.data.samples import frames_at_once
from edgeseg.decision.calibration import GRID_BYTES, GoodImageScores, no_groups
from edgeseg.fitting.embedding_store import EmbeddingStore
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.group_sums import group_factors, sum_moments_
from edgeseg.fitting.part_evidence import PartEvidence
from edgeseg.fitting.process_group import ALONE, ProcessGroup
from edgeseg.fitting.variants import add_images_, by_variant, check_means
from edgeseg.model.gaussian_head import GaussianHead
from edgeseg.model.known_directions import KnownDirections
from edgeseg.model.moments import Moments
from edgeseg.model.predictor import frame_scores

_MOST_HALF = 65_504.0  # the largest number of 16 bits
Visitor = Callable[[GaussianHead, Sequence[int]], None]


@dataclass(frozen=True, kw_only=True)
class HeldOutScorer:
    """Scores of all processes, by embeddings that each reads back from its own store."""

    space: FeatureSpace
    group: ProcessGroup = ALONE
    batch_size: int = 8
    steps: Steps = field(default=silent)
    whitened: bool = False  # models keep what known defects are learned by
    by_fold: tuple[KnownDirections, ...] = ()  # learned without each fold; (): as in the space

    @property
    def _at_once(self) -> int:
        return frames_at_once(self.space.config.image_hw, most=self.batch_size)

    def mean_d2(self, head: GaussianHead, store: EmbeddingStore) -> float:
        """Return the mean of d^2 over all locations and all stored images."""
        total, size, places = np.zeros(2), self._at_once, store.places
        for number, rows in enumerate(store.batches(places, size=size)):
            variants = store.variants_at(places[number * size :][: len(rows)])
            mean = _mean_d2(head, self.space.inputs(rows), variants)
            total += (mean * len(rows), len(rows))
        total = self.group.sum_(total)
        return float(total[0] / total[1])

    def scores_by_model(
        self, head: GaussianHead, store: EmbeddingStore, evidence: PartEvidence | None = None
    ) -> GoodImageScores:
        """Score all stored images, or those that count, by one model."""
        tally = _Tally(self)
        counts = [place for place in store.places if evidence is None or place in evidence.parts]
        tally.add(0, head, store, sorted(counts))
        return tally.result(store.names, evidence)

    def cross_fold_scores(
        self,
        pooled: Moments,
        store: EmbeddingStore,
        *,
        evidence: PartEvidence,
        seed: int,
        visit: Visitor | None = None,
    ) -> GoodImageScores:
        """Score each fold by the model of all other images: the fold is taken out of `pooled`.

        All images of a part are in one fold. Which parts make a fold depends on the places of their
        images in the whole list alone. `visit` is called with each model and the places of the
        images that it has not seen.
        """
        units = evidence.units()
        folds = min(self.space.config.folds, len(units))
        order = permutation(len(units), seed)
        order = by_variant(order, store.variants_at([unit[0] for unit in units]))
        own = set(store.places)
        tally = _Tally(self)
        steps = self.steps(range(folds), length=folds, label=Message("work_calibrating"))
        for fold in steps:
            members = sorted(place for index in order[fold::folds] for place in units[index])
            here = [place for place in members if place in own]
            known = self.by_fold[fold] if self.by_fold else self.space.known
            head = self._without(pooled, store, here, known)
            tally.add(fold, head, store, here)
            if visit is not None:
                visit(head, members)
        return tally.result(store.names, evidence)

    def _without(
        self,
        pooled: Moments,
        store: EmbeddingStore,
        places: Sequence[int],
        known: KnownDirections | None,
    ) -> GaussianHead:
        """Return the model of all images but these: moments are sums, so this is exact."""
        windows = self.space.windows
        fold, size = windows.new_moments(self.space.k), self._at_once
        for number, rows in enumerate(store.batches(places, size=size)):
            add_images_(
                windows,
                fold,
                self.space.inputs(rows),
                images=len(rows),
                variants=store.variants_at(places[number * size :][: len(rows)]),
            )
        # Pooling is a sum too, so the fold is pooled and taken from the pooled whole: with shared
        # Gaussians that is a quarter of the memory, and of the bytes between processes.
        rest = pooled.remove(sum_moments_(windows.pool_moments(fold), self.group))
        check_means(self.space.config, rest)
        factors = group_factors(
            self.space.config, rest, self.group, known=known, whitened=self.whitened
        )
        return self.space.head(factors)


def _mean_d2(
    head: GaussianHead, inputs_nkhw: NDArray[np.float32], variants: Sequence[int]
) -> float:
    """Return the mean d^2 of embedded inputs, as group_expected_d2 does it from their moments."""
    if head.windows.moments == "cells":
        own = np.asarray(variants, np.int64) if variants else None
        return float(np.square(head.distances(inputs_nkhw, own).score).mean())
    means = head.factors.variant_means
    if means is None:
        return float(head.windows.mean_d2(head.factors, inputs_nkhw).mean())
    each = [
        head.windows.mean_d2(replace(head.factors, mean=means[variant]), inputs_nkhw[place, None])
        for place, variant in enumerate(variants)
    ]
    return float(np.mean(each))


class _Tally:
    """Results of models on images: plain numbers of each, and sums of maps over all."""

    def __init__(self, scorer: HeldOutScorer):
        self.scorer = scorer
        self.rows: list[tuple[int, int, float, float, float, float]] = []
        self.grids: list[NDArray[np.float16]] = []  # (1 or 2, h, w), in the order of the rows
        # Sums of d^2 and d^4 at every location; float64 leaves their difference exact enough.
        self.sums = np.zeros((2, *scorer.space.config.grid_hw))
        self.unseen = np.zeros(scorer.space.config.grid_hw)  # of each cell
        self.variants: list[tuple[int, int]] = []  # shown and named, in the order of the rows

    def add(
        self, fold: int, head: GaussianHead, store: EmbeddingStore, places: Sequence[int]
    ) -> None:
        space, size = self.scorer.space, self.scorer._at_once
        for start, rows in enumerate(store.batches(places, size=size)):
            whole = head.distances(space.inputs(rows))  # (n or n T, h, w)
            cells = head.mask_ignored(whole)
            d2 = np.square(cells.shown)
            insides = [store.insides.get(place) for place in places[start * size :][: len(rows)]]
            of = frame_scores(*head.to_image(cells, insides), tiling=space.config.tiling)
            for index, inside in enumerate(insides):
                if inside is not None:  # of a part that reaches beyond its picture
                    d2[index] *= inside
                    self.unseen += ~inside
            frame_d2 = d2.reshape(len(rows), -1).mean(axis=1)
            values = np.stack([of.score, of.peak, frame_d2, of.floor], axis=1)
            for place, row in zip(places[start * size :], values.tolist(), strict=False):
                self.rows.append((fold, place, *row))
            if cells.variants is not None:
                shown = store.variants_at(places[start * size :][: len(rows)])
                self.variants += zip(shown, cells.variants.tolist(), strict=False)
            if self.keeps_grids:
                own = head.factors.shown is not None
                kinds = (whole.score, whole.shown) if own else (whole.score,)
                self.grids += list(np.minimum(np.stack(kinds, 1), _MOST_HALF).astype(np.float16))
            squares = d2.astype(np.float64)
            self.sums += np.stack([squares.sum(axis=0), np.square(squares).sum(axis=0)])

    @property
    def keeps_grids(self) -> bool:
        """Whether cells have fixed places in the image, and are few enough for a file.

        Those of variants are of the nearest one, which may be another one in fewer cells.
        """
        config = self.scorer.space.config
        height, width = config.grid_hw
        few = 2 * height * width * (len(self.grids) + 1) <= GRID_BYTES
        return config.tiling is None and few and not config.variants

    def _all_grids(self) -> NDArray[np.float16] | None:
        """Gather (n, 1 or 2, h, w) of all processes, by sorted rows; None if some were left out."""
        parts = self.scorer.group.gather((self.rows, self.grids))
        if any(len(rows) != len(grids) for rows, grids in parts):
            return None
        places = [row[:2] for rows, _ in parts for row in rows]
        grids = [grid for _, part in parts for grid in part]
        if not grids or sum(grid[0].nbytes for grid in grids) > GRID_BYTES:
            return None
        order = sorted(range(len(places)), key=lambda index: places[index])
        return np.stack([grids[index] for index in order])

    def _all_variants(self) -> tuple[tuple[int, int], ...]:
        """Gather the variants of all processes, by sorted rows."""
        parts = self.scorer.group.gather((self.rows, self.variants))
        if any(len(rows) != len(variants) for rows, variants in parts):
            return ()
        pairs = [pair for rows, variants in parts for pair in zip(rows, variants, strict=True)]
        return tuple(variants for _, variants in sorted(pairs, key=lambda pair: pair[0]))

    def result(
        self, names: Mapping[int, str], evidence: PartEvidence | None = None
    ) -> GoodImageScores:
        """Gather the scores of all processes, by fold and place in the list."""
        group = self.scorer.group
        rows = sorted(row for part in group.gather(self.rows) for row in part)
        values = np.array([row[2:] for row in rows], np.float32).reshape(-1, 4)
        inputs = max(len(rows), 1) * self.scorer.space.tiles
        seen = np.maximum(inputs - group.sum_(self.unseen), 1)
        mean, square = group.sum_(self.sums) / seen
        spread = np.sqrt(np.clip(square - mean**2, 0.0, None))
        known = all(row[1] in names for row in rows)
        grids = self._all_grids()
        variants = self._all_variants()
        good = GoodImageScores(
            scores=values[:, 0].copy(),
            peaks=values[:, 1].copy(),
            frame_d2=values[:, 2].copy(),
            floors=values[:, 3].copy(),
            d2_mean=mean.astype(np.float32),
            d2_std=spread.astype(np.float32),
            grids=None if grids is None else grids[:, 0].copy(),
            shown_grids=None if grids is None or grids.shape[1] == 1 else grids[:, 1].copy(),
            images=tuple(names[row[1]] for row in rows) if known else (),
            variants=variants,
            groups=_groups([row[1] for row in rows], evidence),
        )
        return good if self.scorer.space.config.geometry.several is None else good.by_picture()


def _groups(places: Sequence[int], evidence: PartEvidence | None) -> NDArray[np.float32]:
    """Return the part of each image; empty where all show different ones."""
    if evidence is None or evidence.count == evidence.images:
        return no_groups()
    numbers: dict[int, int] = {}
    of_each = [numbers.setdefault(evidence.parts[place], len(numbers)) for place in places]
    return np.array(of_each, np.float32)


def permutation(count: int, seed: int) -> list[int]:
    """Return the order in which images are chosen, the same in every process."""
    return [int(index) for index in np.random.default_rng(seed).permutation(count)]
