"""Ways to learn from known defects, tried on the stored cells of one category.

images --backbone--> embeddings --models of the folds--> d^2 and whitened cells, kept
known defects of a draw --a way--> scores of good images and of all test images

A model of known defects is scored before its form is brought back to the rank of a model, which
saves 11 fits for each draw; every good image counts as a part.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.progress import ignore
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset, load_batches
from edgeseg.data.planted.planting import planted_set
from edgeseg.data.samples import Batch, Sample
from edgeseg.decision.operating_point import rate_threshold
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.group_sums import group_factors
from edgeseg.fitting.held_out import permutation
from edgeseg.fitting.known_learning import (
    HotCells,
    hot_cells,
    learn_directions,
    learn_from_others,
    sum_cells,
    whitened_cells,
)
from edgeseg.fitting.known_pictures import marked_cells
from edgeseg.model.gaussian_head import GaussianHead, Maps
from edgeseg.model.known_directions import KnownDirections
from edgeseg.model.moments import Moments

PLANTED = "planted"  # the kind of copies of good images with a planted defect
_COPIES = 30  # of them
_BANDS = (0, 6, 12, 24, 48, 96)  # of coordinates, sorted by variance
_TOP = 10


Scores = tuple[NDArray[np.float64], NDArray[np.float64]]  # of good images, and of test images


@dataclass(frozen=True, kw_only=True)
class EmbeddedPictures:
    """Embedded pictures (n, k, P), the kind of each, and the cells of its defect."""

    rows: Maps
    kinds: tuple[str, ...]
    marked: tuple[NDArray[np.bool_] | None, ...]


@dataclass(frozen=True, kw_only=True)
class Looks:
    """What one model says of pictures."""

    d2: Maps  # (n, P)
    cells: Maps  # (n, P, k), whitened
    bands: Maps  # (n, P, bands): squares of coordinates

    @classmethod
    def of(cls, head: GaussianHead, rows: Maps) -> "Looks":
        """Look at pictures by a model."""
        pairs = [whitened_cells(head, row) for row in rows]
        return cls(
            d2=np.stack([d2 for d2, _ in pairs]),
            cells=np.stack([cells for _, cells in pairs]),
            bands=np.stack([_bands(head, row) for row in rows]),
        )


def _bands(head: GaussianHead, row_kp: Maps) -> Maps:
    windows = head.windows
    y = windows.by_block((row_kp.T - head.mean)[None]) @ head.factors.factor
    parts = [np.square(y[:, :, a:b]).sum(axis=2) for a, b in pairwise(_BANDS)]
    return np.stack([windows.to_grid(part, images=1).ravel() for part in parts], axis=1)


@dataclass(frozen=True, kw_only=True)
class _Fold:
    """One fold: its good images as its model sees them, and all defects by that model."""

    places: list[int]
    good: HotCells
    defects: list[HotCells]
    means: Maps  # (defects, k): of hot cells
    looks: Looks


class KnownTrials:
    """The cells of a category, by the models of its folds and by that of all good images."""

    def __init__(self, dataset: Dataset, config: FitConfig, *, weights: str | None) -> None:
        space = FeatureSpace.load(config, weights=weights, note=ignore)
        self.space, embed = space, space.input_embedder()
        good = _pictures(_batches(dataset.train, space), embed)
        tests = _pictures(_batches(dataset.test, space), embed)
        planted = _plant(dataset, space, embed)
        self.tests, self.kinds = tests, np.array(tests.kinds)
        self.known = EmbeddedPictures(  # the test images, and planted copies behind them
            rows=np.concatenate([tests.rows, planted.rows]),
            kinds=(*tests.kinds, *planted.kinds),
            marked=(*tests.marked, *planted.marked),
        )
        windows, count = space.windows, len(good.rows)
        whole = windows.new_moments(space.k)
        for row in good.rows:
            windows.add_(whole, space.inputs(row[None]), images=1)
        pooled, order = windows.pool_moments(whole), permutation(count, config.seed)
        self.head = self._head(pooled)
        self.looks = Looks.of(self.head, tests.rows)
        self.defects, self.means = self._defects(self.head)
        self.folds = []
        for number in range(config.folds):
            places = sorted(order[number :: config.folds])
            part = windows.new_moments(space.k)
            for place in places:
                windows.add_(part, space.inputs(good.rows[place][None]), images=1)
            own = self._head(pooled.remove(windows.pool_moments(part)))
            rows = good.rows[places]
            defects, means = self._defects(own)
            self.folds.append(
                _Fold(
                    places=places,
                    good=sum_cells([hot_cells(own, row) for row in rows]),
                    defects=defects,
                    means=means,
                    looks=Looks.of(own, rows),
                )
            )

    def _head(self, pooled: Moments) -> GaussianHead:
        return self.space.head(group_factors(self.space.config, pooled, whitened=True))

    def _defects(self, head: GaussianHead) -> tuple[list[HotCells], Maps]:
        pairs = list(zip(self.known.rows, self.known.marked, strict=True))
        found = [hot_cells(head, row, marked) for row, marked in pairs]
        return found, np.stack([each.mean for each in found]).astype(np.float32)

    def looks_at(self, place: int) -> Looks:
        """Return what the model of all good images says of a known defect."""
        if place >= len(self.kinds):
            return Looks.of(self.head, self.known.rows[place : place + 1])
        own = slice(place, place + 1)
        looks = self.looks
        return Looks(d2=looks.d2[own], cells=looks.cells[own], bands=looks.bands[own])

    @cached_property
    def plain(self) -> Scores:
        """The scores by good parts alone."""
        return _score(self, lambda looks, *_: _top(looks.d2), ())

    @cached_property
    def whole(self) -> HotCells:
        """The hot cells of all good images, each by the model without it."""
        return sum_cells([fold.good for fold in self.folds])

    def kinds_with(self, images: int) -> list[str]:
        """Return the kinds of defects that have so many images, and one to try."""
        names = sorted(set(self.tests.kinds) - {"good"})
        return [kind for kind in names if int((self.kinds == kind).sum()) > images]


def _batches(samples: Sequence[Sample], space: FeatureSpace) -> Iterator[Batch]:
    config = space.config
    return load_batches(samples, size_hw=config.image_hw, geometry=config.geometry, batch_size=8)


def _pictures(
    batches: Iterator[Batch], embed: Callable[[NDArray[np.uint8]], Maps]
) -> EmbeddedPictures:
    rows, kinds, marked = [], [], []
    for batch in batches:
        rows.append(embed(batch.frames))
        kinds += [sample.kind for sample in batch.samples]
        marked += [None if mask is None else marked_cells(mask, (32, 32)) for mask in batch.masks]
    return EmbeddedPictures(rows=np.concatenate(rows), kinds=tuple(kinds), marked=tuple(marked))


def _plant(
    dataset: Dataset, space: FeatureSpace, embed: Callable[[NDArray[np.uint8]], Maps]
) -> EmbeddedPictures:
    frames = [frame for batch in _batches(dataset.train[:_COPIES], space) for frame in batch.frames]
    copies = list(planted_set(frames, per_image=1, seed=0))
    return EmbeddedPictures(
        rows=np.concatenate([embed(copy.image_hwc[None]) for copy in copies]),
        kinds=(PLANTED,) * len(copies),
        marked=tuple(marked_cells(copy.mask_hw, (32, 32)) for copy in copies),
    )


Way = Callable[
    [KnownTrials, Sequence[int]], list[Scores]
]  # several: each has its share of the rate


def _top(d2: Maps) -> NDArray[np.float64]:
    distances = np.sqrt(np.maximum(d2, 0.0))
    return np.asarray(np.partition(distances, -_TOP, axis=1)[:, -_TOP:].mean(axis=1), np.float64)


def _score(
    trials: KnownTrials,
    score_looks: Callable[[Looks, HotCells, list[HotCells], Maps], NDArray[np.float64]],
    chosen: Sequence[int],
) -> Scores:
    """Score good images by what the other folds teach, and test images by what all teach."""
    good = np.zeros(sum(len(fold.places) for fold in trials.folds))
    for fold in trials.folds:
        others = trials.whole.add(fold.good, sign=-1)
        defects = [fold.defects[place] for place in chosen]
        good[fold.places] = score_looks(fold.looks, others, defects, fold.means[list(chosen)])
    defects = [trials.defects[place] for place in chosen]
    test = score_looks(trials.looks, trials.whole, defects, trials.means[list(chosen)])
    return good, test


def none(trials: KnownTrials, _: Sequence[int]) -> list[Scores]:
    """Score by good parts alone."""
    return [trials.plain]


def directions(trials: KnownTrials, chosen: Sequence[int]) -> list[Scores]:
    """Score by the directions that the product learns, unless they find fewer known defects."""

    def score(
        looks: Looks, good: HotCells, defects: list[HotCells], _: Maps
    ) -> NDArray[np.float64]:
        return _mix(looks, learn_directions(good, sum_cells(defects)))

    learned = _score(trials, score, chosen)
    return [learned] if _finds_as_many(trials, chosen, learned[0]) else none(trials, ())


def _finds_as_many(trials: KnownTrials, chosen: Sequence[int], good: NDArray[np.float64]) -> bool:
    """Tell whether what the others teach finds as many known defects as good parts alone do."""
    rate, found = trials.space.config.false_alarm_rate, np.zeros(2, np.int64)
    plain, after = (_threshold(scores, rate) for scores in (none(trials, ())[0][0], good))
    taught = learn_from_others(trials.whole, [trials.defects[place] for place in chosen])
    for place, known in zip(chosen, taught, strict=True):
        own = trials.looks_at(place)
        found += _top(own.d2)[0] > plain, _mix(own, known)[0] > after
    return bool(found[1] >= found[0])


def fisher(trials: KnownTrials, chosen: Sequence[int]) -> list[Scores]:
    """Score by Fisher's direction: from the good parts' hot cells to the mean of the defects'."""

    def score(
        looks: Looks, good: HotCells, defects: list[HotCells], means: Maps
    ) -> NDArray[np.float64]:
        learned = learn_directions(good, sum_cells(defects))
        usual = good.square / good.count
        even = np.trace(usual) / len(usual) * np.eye(len(usual))
        axis = np.linalg.solve(0.9 * usual + 0.1 * even, means.mean(axis=0))
        scale = learned.share * good.distance / good.count / (axis @ usual @ axis)
        one = KnownDirections(
            directions=(axis * np.sqrt(scale)).astype(np.float32)[:, None], share=learned.share
        )
        return _mix(looks, one)

    return [_score(trials, score, chosen)]


def _mix(looks: Looks, known: KnownDirections) -> NDArray[np.float64]:
    added = np.square(looks.cells @ known.directions).sum(axis=2)
    return _top((1 - known.share) * looks.d2 + added)


def weights(trials: KnownTrials, chosen: Sequence[int]) -> list[Scores]:
    """Score by weights of the coordinates, sorted by variance, beside even ones."""

    def usual(looks: Looks) -> Maps:
        hot = np.argsort(-looks.d2, axis=1)[:, :_TOP]
        rows = np.take_along_axis(looks.bands, hot[:, :, None], axis=1)
        return np.asarray(rows.mean(axis=(0, 1)))

    good = np.mean([usual(fold.looks) for fold in trials.folds], axis=0)
    tests = [place for place in chosen if place < len(trials.kinds)]
    if not tests:
        return none(trials, chosen)
    rows = [
        _of_marked(trials.looks, place, trials.tests.marked[place]).mean(axis=0) for place in tests
    ]
    shown = np.mean(rows, axis=0)
    weight = np.maximum(1 / good - 1 / shown, 0.0)
    weight = weight + weight.mean() + 1e-9

    def score(looks: Looks, *_: object) -> NDArray[np.float64]:
        return _top(looks.bands @ weight.astype(np.float32))

    return [_score(trials, score, chosen)]


def _of_marked(looks: Looks, place: int, marked: NDArray[np.bool_] | None) -> Maps:
    d2 = looks.d2[place]
    inside = np.arange(len(d2)) if marked is None or not marked.any() else np.flatnonzero(marked)
    return np.asarray(looks.bands[place][inside[np.argsort(-d2[inside])[:_TOP]]])


def similarity(trials: KnownTrials, chosen: Sequence[int]) -> list[Scores]:
    """Score by good parts, and apart from it by likeness to the mean of the known defects."""

    def like(looks: Looks, _: object, __: object, means: Maps) -> NDArray[np.float64]:
        axis = means.mean(axis=0)
        along = looks.cells @ (axis / np.linalg.norm(axis))
        highest = np.partition(along, -_TOP, axis=1)[:, -_TOP:].mean(axis=1)
        return np.asarray(np.exp(highest.astype(np.float64) / 10))  # a tail is one of logarithms

    return [*none(trials, chosen), _score(trials, like, chosen)]


def both(trials: KnownTrials, chosen: Sequence[int]) -> list[Scores]:
    """Score by the product's directions, and apart from it by likeness."""
    return [*directions(trials, chosen), similarity(trials, chosen)[1]]


WAYS: dict[str, Way] = {
    "none": none,
    "weights of sorted coordinates": weights,
    "Fisher's direction": fisher,
    "second score by likeness": similarity,
    "directions (ships)": directions,
    "directions and second score": both,
}


def alarms_of(
    scores: Sequence[Scores], *, rate: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the alarms on test images, and on good images by thresholds of the other half."""
    share = rate / len(scores)
    half = np.arange(len(scores[0][0])) % 2 == 0
    test, good = np.zeros(len(scores[0][1]), np.bool_), np.zeros(len(half), np.bool_)
    for of_good, of_test in scores:
        test |= of_test > _threshold(of_good, share)
        for part in (half, ~half):
            good[part] |= of_good[part] > _threshold(of_good[~part], share)
    return test, good


def _threshold(scores: NDArray[np.float64], rate: float) -> float:
    return rate_threshold(scores.tolist(), false_alarm_rate=rate, promise="tail").value
