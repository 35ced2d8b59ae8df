"""Directions of known defects, in closed form, from good pictures that the model has not seen.

u     the ten cells of a picture with the largest distances, whitened: see KnownDirections
G, D  the mean of uu' over good pictures and over known defects, each judged without itself
A     G^(-1/2) times the first eigenvectors of G^(-1/2) D G^(-1/2), by the roots of their values

So a direction counts by how much more the defects show in it than the oddest places of good parts.
Good pictures are judged by the model of their fold, and that model learns from the others alone:
the scores that choose the threshold are of pictures that nothing has seen, as ever.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.decision.operating_point import FEWEST_PARTS
from edgeseg.decision.prediction import above
from edgeseg.fitting.embedding_store import EmbeddingStore
from edgeseg.fitting.known_pictures import KnownPictures
from edgeseg.model.gaussian_head import GaussianHead, Maps
from edgeseg.model.known_directions import KnownDirections
from edgeseg.model.moments import Floats
from edgeseg.modelfile.known_kinds import KnownFacts, KnownKind

_CELLS = 10  # of a picture
_MOST = 10  # directions
_SHARE = 0.1  # of a distance, that many known defects get
_HALF_AT = 2  # known defects that get half of it
_LEAST = 1e-12  # of a score that is divided by
_EVEN = 0.1  # of G that is alike in all directions: few pictures do not show all of them


@dataclass(frozen=True, kw_only=True)
class HotCells:
    """Sums over pictures of what their hot cells are like."""

    square: Floats  # (k, k): of the mean of uu'
    mean: Floats  # (k,): of the mean of u
    distance: float  # of the mean of d^2
    count: int  # pictures

    def add(self, other: "HotCells", sign: int = 1) -> "HotCells":
        """Return the sums of both, or of these without the others."""
        return HotCells(
            square=self.square + sign * other.square,
            mean=self.mean + sign * other.mean,
            distance=self.distance + sign * other.distance,
            count=self.count + sign * other.count,
        )


@dataclass(kw_only=True)
class KnownLearner:
    """What the models of the folds, and that of all, say of good pictures and known defects.

    All of them are plain ones, with what whitens their cells.
    """

    store: EmbeddingStore  # of good pictures
    pictures: KnownPictures
    good: list[HotCells] = field(default_factory=list)  # of each fold
    defects: list[HotCells] = field(default_factory=list)  # all of them, by the model of each fold

    def visit(self, head: GaussianHead, places: Sequence[int]) -> None:
        """Look at the pictures of a fold, and at all known defects, by the model without it."""
        here = sorted(set(places) & set(self.store.places))
        batches = self.store.batches(here, size=8)
        self.good.append(sum_cells([hot_cells(head, row) for rows in batches for row in rows]))
        self.defects.append(sum_cells(self._of_defects(head)))

    def by_fold(self) -> tuple[KnownDirections, ...]:
        """Return what the model of each fold learns: from all other folds."""
        whole = sum_cells(self.good)
        return tuple(
            learn_directions(whole.add(own, sign=-1), defects)
            for own, defects in zip(self.good, self.defects, strict=True)
        )

    def learn(self, head: GaussianHead) -> KnownDirections:
        """Return what the model of all good pictures learns."""
        return learn_directions(sum_cells(self.good), sum_cells(self._of_defects(head)))

    def facts(
        self, head: GaussianHead, learned: GaussianHead, *, before: float, after: float
    ) -> KnownFacts:
        """Count the known defects that are found before, and by what the others teach after.

        `head` is the plain model of all good pictures, `learned` the one that knows all defects;
        `before` and `after` are their thresholds.
        """
        pictures, good = self.pictures, sum_cells(self.good)
        each = self._of_defects(head)
        whole = learn_directions(good, sum_cells(each))
        scores = []  # before, and after
        for row, others in zip(pictures.rows, learn_from_others(good, each), strict=True):
            d2, u = whitened_cells(head, row)
            by_others, by_all = (
                _score(head, (1 - known.share) * d2 + np.square(u @ known.directions).sum(axis=1))
                for known in (others, whole)
            )
            # The model keeps its rank, and with it not all of the form: what the picture itself
            # teaches is taken off its score by that model.
            kept = _score(learned, _distances(learned, row))
            scores.append([_score(head, d2), kept * by_others / max(by_all, _LEAST)])
        columns = zip(np.array(scores).T, (before, after), strict=True)
        found = np.stack([above(values, threshold) for values, threshold in columns], axis=1)
        return KnownFacts(
            share=whole.share,
            threshold_before=before,
            kinds=tuple(_kinds(pictures.kinds, found)),
        )

    def _of_defects(self, head: GaussianHead) -> list[HotCells]:
        pairs = zip(self.pictures.rows, self.pictures.marked, strict=True)
        return [hot_cells(head, row, marked) for row, marked in pairs]


def check_folds(learner: KnownLearner) -> None:
    """Refuse to learn where too few good parts were judged without themselves."""
    judged = sum(fold.count for fold in learner.good)
    if judged < FEWEST_PARTS:
        raise UsageError(
            Setting("known", len(learner.pictures)),
            f": {judged} different good parts can be judged by a model of the others, expected at "
            f"least {FEWEST_PARTS} to learn from known defects; collect more, or leave it out",
        )


def _kinds(kinds: Sequence[str], found_n2: NDArray[np.bool_]) -> list[KnownKind]:
    counted = []
    for kind in dict.fromkeys(kinds):
        own = np.array([each == kind for each in kinds])
        before, after = found_n2[own].sum(axis=0).tolist()
        counted.append(
            KnownKind(kind=kind, pictures=int(own.sum()), found_before=before, found=after)
        )
    return counted


def learn_directions(good: HotCells, defects: HotCells) -> KnownDirections:
    """Return the directions of known defects, scaled to be a share of a good part's distance."""
    usual, shown = good.square / good.count, defects.square / defects.count
    even = np.trace(usual) / len(usual) * np.eye(len(usual))
    values, vectors = np.linalg.eigh((1 - _EVEN) * usual + _EVEN * even)
    root = (vectors / np.sqrt(values)) @ vectors.T  # G^(-1/2)
    values, vectors = np.linalg.eigh(root @ shown @ root)
    values, vectors = np.maximum(values[-_MOST:], 0.0), vectors[:, -_MOST:]
    directions = root @ vectors * np.sqrt(values)
    share = _SHARE * defects.count / (defects.count + _HALF_AT)
    mean = float(np.einsum("kj,kl,lj->", directions, usual, directions))  # of |A'u|^2
    scale = share * good.distance / good.count / mean
    return KnownDirections(directions=(directions * np.sqrt(scale)).astype(np.float32), share=share)


def learn_from_others(good: HotCells, defects: Sequence[HotCells]) -> Iterator[KnownDirections]:
    """Yield for each known defect what all others teach; for a single one, what it does itself."""
    whole = sum_cells(defects)
    for own in defects:
        yield learn_directions(good, whole if len(defects) == 1 else whole.add(own, sign=-1))


def hot_cells(
    head: GaussianHead, row_kp: Maps, marked_p: NDArray[np.bool_] | None = None
) -> HotCells:
    """Return what the cells of largest distance are like, of those that are marked."""
    d2, u = whitened_cells(head, row_kp)
    counts = np.ones(len(d2), np.bool_) if head.kept is None else head.kept.ravel() != 0
    if marked_p is not None and (counts & marked_p).any():
        counts = counts & marked_p
    cells = np.flatnonzero(counts)
    cells = cells[np.argsort(-d2[cells], kind="stable")[:_CELLS]]
    u = u[cells].astype(np.float64)
    return HotCells(
        square=u.T @ u / len(u), mean=u.mean(axis=0), distance=float(d2[cells].mean()), count=1
    )


def whitened_cells(head: GaussianHead, row_kp: Maps) -> tuple[Maps, Maps]:
    """Return d^2 (P,) and whitened cells (P, k) of one embedded picture."""
    windows, white = head.windows, head.factors.whitening
    if white is None:
        raise ValueError("known defects are learned by a model that keeps what whitens its cells")
    x = (row_kp.T - head.mean)[None]  # (1, P, k)
    cells = windows.by_block(x) @ white  # (B, share^2, k)
    grid = [windows.to_grid(cells[:, :, i], images=1) for i in range(cells.shape[2])]
    return _distances(head, row_kp), np.stack([values.ravel() for values in grid], axis=1)


def _distances(head: GaussianHead, row_kp: Maps) -> Maps:
    """Return d^2 (P,) of one embedded picture."""
    inputs = row_kp.reshape(1, -1, *head.windows.grid_hw)
    return np.square(head.distances(inputs).score).ravel()


def _score(head: GaussianHead, d2_p: Maps) -> float:
    """Return the score of a picture by the squared distances of its cells."""
    distances = np.sqrt(d2_p)
    if head.kept is not None:
        distances = distances * head.kept.ravel()
    return float(np.sort(distances)[-head.top :].mean())


def sum_cells(parts: Sequence[HotCells]) -> HotCells:
    """Return the sums of all."""
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.add(part)
    return whole
