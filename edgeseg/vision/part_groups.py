"""Find pictures that show the same part again: near-copies, by small grey copies alone.

picture --GreyCopies.add--> grey copies, and how far some are from themselves taken again
grey copies --part_groups--> a number for each picture, the same for pictures of one part

Two pictures are near-copies if they differ no more than one picture does from itself taken again.
That is measured, not assumed: some pictures of every set are moved by a pixel and a half, brought
1.2 % nearer, lit otherwise, given noise and saved as JPEG. What moving, nearing and lighting do to
a picture is taken off first (the tangent distance of Simard, LeCun and Denker), so that a part
which lies a little beside its place is still known, and fine differences between two parts are
not lost beside that. docs/decisions.md has the figures that the constants rest on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import isqrt
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

SIDE = 64  # of a grey copy: 4 kB
MOST = 8192  # grey copies that are kept: 32 MB
_LOOK = 256  # pixels: pictures are brought to this size before they are taken again
_BLUR = 1.5  # of a grey copy, in its pixels: a pixel of movement is then nearly linear
_STEP, _EDGE = 2, 2  # every second blurred pixel tells all there is; the border moves out of sight
_MOVE, _NEAR, _GAMMA, _NOISE, _JPEG = 1.5, 0.012, 0.07, 4.0, 80  # of a picture taken again
_FACTOR = 1.2  # times the median distance to pictures taken again: up to here it is a near-copy
_OFFSET, _GAIN, _SHIFT = 6.0, 0.12, 0.5  # grey levels, share, pixels of a grey copy: of a retake
_LEFT = 0.25  # grey levels: noise that is left of a picture in its blurred grey copy
_FILM = 0.25  # of the usual distance: pictures in a row that are nearer come from a film
_CHANGED = 0.75  # of the usual distance: from here on a film shows something else
_LAGS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_SAMPLE, _PAIRS = 200, 60  # distances that say what is usual: of each picture, and of each lag

Grouping = Literal["pictures", "told"]
Greys = NDArray[np.uint8]  # (n, SIDE, SIDE)
_NO_GREYS = np.empty((0, SIDE, SIDE), np.uint8)
Groups = NDArray[np.int32]  # (n,), counted from 0 in the order of first members


@dataclass(kw_only=True)
class GreyCopies:
    """Small grey copies of pictures, by their places in a list."""

    greys: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    again: dict[int, float] = field(default_factory=dict)  # distance to itself taken again
    told: dict[int, int] = field(default_factory=dict)  # known parts: nothing is guessed

    def add(self, place: int, picture_hwc: NDArray[np.uint8], *, needed: bool = True) -> None:
        """Keep a grey copy; of pictures that are not `needed` only while there is room."""
        if not needed and len(self.greys) >= MOST:
            return
        look_hw = _look(picture_hwc)
        self.greys[place] = grey = _small(look_hw)
        if is_sampled(place):
            taken = [_small(again_hw) for again_hw in _retakes(look_hw)]
            self.again[place] = float(_Pictures(np.stack([grey, *taken])).distances(0)[1:].max())

    def merge(self, other: "GreyCopies") -> None:
        """Add the grey copies of another share of the pictures."""
        self.greys |= other.greys
        self.again |= other.again
        self.told |= other.told

    def shift_places(self, step: int) -> "GreyCopies":
        """Return the grey copies with every place moved on by `step`."""
        return GreyCopies(
            greys={place + step: grey for place, grey in self.greys.items()},
            again={place + step: distance for place, distance in self.again.items()},
            told={place + step: part for place, part in self.told.items()},
        )

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a file keeps."""
        places = sorted(self.told or self.greys)
        if self.told:
            return {"places": np.array(places), "told": np.array([self.told[at] for at in places])}
        greys = np.stack([self.greys[at] for at in places]) if places else _NO_GREYS
        again = [self.again.get(at, -1.0) for at in places]
        return {"places": np.array(places, np.int64), "greys": greys, "again": np.array(again)}

    @classmethod
    def of_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> "GreyCopies":
        """Read what `tensors` gave; ValueError says what is wrong with it."""
        places = tensors["places"].tolist()
        if "told" in tensors:
            return cls(told=dict(zip(places, tensors["told"].tolist(), strict=True)))
        greys, again = tensors["greys"], tensors["again"].tolist()
        if greys.shape != (len(places), SIDE, SIDE) or greys.dtype != np.uint8:
            raise ValueError(f"small copies of {greys.dtype} {greys.shape}, expected {SIDE}x{SIDE}")
        measured = {at: value for at, value in zip(places, again, strict=True) if value >= 0}
        return cls(greys=dict(zip(places, greys, strict=True)), again=measured)

    @property
    def grouping(self) -> Grouping:
        """How parts are told apart: by the pictures, or by what people said."""
        return "told" if self.told else "pictures"

    def groups(self, places: Sequence[int]) -> dict[int, int]:
        """Return the part of each picture, as far as known; near-copies are looked for at `places`.

        A picture without a grey copy is a part of its own.
        """
        if self.told:
            return dict(self.told)
        known = sorted(self.greys)
        row_of = {place: row for row, place in enumerate(known)}
        rows = [row_of[place] for place in places if place in row_of]
        parts: dict[int, int] = {}
        if rows:
            greys = np.stack([self.greys[place] for place in known])
            ids = part_groups(greys, list(self.again.values()), rows=rows)
            parts = dict(zip(known, ids.tolist(), strict=True))
        first = max(parts.values(), default=-1) + 1
        missing = [place for place in places if place not in parts]
        return parts | {place: first + number for number, place in enumerate(missing)}


def is_sampled(place: int) -> bool:
    """Tell whether a picture is compared with itself taken again: at places 0, 1, 3, 6, 10, ...

    Those are some of the first, and some of all that come later.
    """
    return isqrt(8 * place + 1) ** 2 == 8 * place + 1


def part_groups(
    greys: Greys, again: Sequence[float], *, rows: Sequence[int] | None = None
) -> Groups:
    """Number the parts of grey copies that come in the order in which they were taken.

    Near-copies of near-copies are one part, so that a slow change does not split it, but only as
    long as they differ from the first by less than two parts usually do. Near-copies are looked for
    of `rows` alone, or of all where it is None.
    """
    links = _Links(len(greys))
    if len(greys) < 2 or not again:
        return links.groups()
    limit = _FACTOR * float(np.median(again))
    pictures = _Pictures(greys)
    far: list[NDArray[np.float32]] = []
    for row in range(len(greys)) if rows is None else sorted(rows):
        distances = pictures.distances(row)
        distances[row] = np.inf
        for other in np.flatnonzero(distances <= limit).tolist():
            links.join(row, other)
        apart = distances[np.isfinite(distances) & (distances > limit)]
        far.append(apart[:: max(1, apart.size // _SAMPLE)])
    apart = np.concatenate(far)
    if not apart.size:
        return links.groups()
    usual = float(np.median(apart))
    groups = _within(links.groups(), pictures, reach=max(usual, 1.5 * limit))
    return _renumber(_events(groups, pictures, usual=usual))


def highest_of_parts(values: NDArray[np.float32], groups: NDArray[Any]) -> NDArray[np.float32]:
    """Return the highest value of each part, by first image; all values without parts."""
    if not groups.size or not values.size:
        return values
    _, first, of_each = np.unique(groups, return_index=True, return_inverse=True)
    highest = np.full(first.size, -np.inf, values.dtype)
    np.maximum.at(highest, of_each, values)
    return highest[np.argsort(first, kind="stable")]


class _Links:
    """A disjoint-set forest: joined pictures have one root, the first of them."""

    def __init__(self, count: int) -> None:
        self._up = list(range(count))

    def _root(self, place: int) -> int:
        while self._up[place] != place:
            self._up[place] = self._up[self._up[place]]
            place = self._up[place]
        return place

    def join(self, one: int, other: int) -> None:
        low, high = sorted((self._root(one), self._root(other)))
        self._up[high] = low

    def groups(self) -> Groups:
        return _renumber(np.array([self._root(place) for place in range(len(self._up))]))


class _Pictures:
    """Grey copies, prepared for comparison."""

    def __init__(self, greys: Greys) -> None:
        self.greys = greys
        # Points of all pictures are kept, their tangents are not: those are ten times as many.
        self._points = np.stack([_points(_soft(grey)) for grey in greys])  # (n, points)

    def __len__(self) -> int:
        return len(self.greys)

    def distances(
        self, row: int, others: NDArray[np.integer] | slice = slice(None)
    ) -> NDArray[np.float32]:
        """Return the distances from one picture to others, in grey levels."""
        apart = self._points[others] - self._points[row]
        along = apart @ _tangents(_soft(self.greys[row]))
        left = np.square(apart).sum(axis=1) - np.square(along).sum(axis=1)
        distances = np.sqrt(np.maximum(left, 0) / apart.shape[1])
        return np.asarray(distances, np.float32)

    def in_a_row(self, lag: int) -> float:
        """Return the median distance of pictures `lag` places apart, sampled over the list."""
        starts = range(0, len(self) - lag, max(1, (len(self) - lag) // _PAIRS))
        pairs = [self.distances(start, np.array([start + lag]))[0] for start in starts]
        return float(np.median(pairs))


def _renumber(labels: NDArray[np.integer]) -> Groups:
    """Replace labels by numbers from 0, in the order in which they first appear."""
    numbers: dict[int, int] = {}
    of_each = [numbers.setdefault(label, len(numbers)) for label in labels.tolist()]
    return np.array(of_each, np.int32)


def _within(groups: Groups, pictures: _Pictures, *, reach: float) -> Groups:
    """Cut chains that lead too far: beyond the reach of the first picture another group begins."""
    labels = groups.astype(np.int64)
    following = len(groups)
    for chain in _members(groups):
        members = chain
        while members.size > 2:
            members = members[pictures.distances(int(members[0]), members) > reach]
            labels[members] = following
            following += 1
    return _renumber(labels)


def _members(groups: Groups) -> Iterator[NDArray[np.int64]]:
    """Yield the places of each group with more than one."""
    order = np.argsort(groups, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        if part.size > 1:
            yield part


def _events(groups: Groups, pictures: _Pictures, *, usual: float) -> NDArray[np.int64]:
    """Group the frames of a film: what moves by between two still stretches is one part.

    A film is recognised by neighbours that are far nearer than other pictures. Where something
    moves all the time, a part ends when the picture has changed as much as pictures usually differ.
    """
    labels = groups.astype(np.int64)
    if pictures.in_a_row(1) >= _FILM * usual:
        return labels
    lags = (lag for lag in _LAGS if lag < len(pictures))
    longest = next((lag for lag in lags if pictures.in_a_row(lag) >= _CHANGED * usual), _LAGS[-1])
    alone = np.bincount(groups)[groups] == 1
    length = 0
    for place in range(1, len(labels)):
        joins = bool(alone[place] and alone[place - 1]) and length + 1 < longest
        length = length + 1 if joins else 0
        if joins:
            labels[place] = labels[place - 1]
    return labels


def _tangents(soft_hw: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the directions in which light, moving, nearing and blur change a picture.

    (points, 10): a difference d to another picture is left with |d|^2 - |d @ tangents|^2, the least
    of |d - C a|^2 + s^2 |a|^2 over a, where C are changes of the usual size and s^2 the noise of
    all points. A change that would have to be far larger than usual so explains nothing.
    """
    down, right = np.gradient(soft_hw)
    right_down, right_right = np.gradient(right)
    down_down = np.gradient(down)[0]
    y, x = _axes()
    gamma = soft_hw * np.log(np.maximum(soft_hw, 1) / 255)
    changes = [
        *(_OFFSET * np.ones_like(soft_hw), _GAIN * soft_hw, _GAIN * gamma),
        *(_SHIFT * right, _SHIFT * down, _SHIFT * right * x, _SHIFT * down * y),
        *(_SHIFT**2 * right_right, _SHIFT**2 * down_down, _SHIFT**2 * right_down),
    ]
    columns = np.stack([_points(change) for change in changes], axis=1).astype(np.float64)
    prior = _LEFT**2 * len(columns) * np.eye(len(changes))
    lower = np.linalg.cholesky(columns.T @ columns + prior)
    return np.asarray(columns @ np.linalg.inv(lower).T, np.float32)


def _soft(grey_hw: NDArray[np.uint8]) -> NDArray[np.float64]:
    return np.asarray(cv2.GaussianBlur(grey_hw.astype(np.float64), (0, 0), _BLUR), np.float64)


def _points(plane_hw: NDArray[np.float64]) -> NDArray[np.float32]:
    return plane_hw[_EDGE:-_EDGE:_STEP, _EDGE:-_EDGE:_STEP].ravel().astype(np.float32)


@cache
def _axes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    axis = np.arange(SIDE) / (SIDE / 2) - 1
    return axis[:, None] * np.ones(SIDE), axis[None, :] * np.ones((SIDE, 1))


def _look(picture_hwc: NDArray[np.uint8]) -> NDArray[np.uint8]:
    height, width = picture_hwc.shape[:2]
    way = cv2.INTER_AREA if min(height, width) > _LOOK else cv2.INTER_LINEAR
    grey = picture_hwc if picture_hwc.ndim == 2 else cv2.cvtColor(picture_hwc, cv2.COLOR_RGB2GRAY)
    return np.asarray(cv2.resize(grey, (_LOOK, _LOOK), interpolation=way), np.uint8)


def _small(look_hw: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.asarray(cv2.pyrDown(cv2.pyrDown(look_hw)), np.uint8)  # a weave leaves no moire


def _retakes(look_hw: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
    """Yield two simulated retakes of a picture, always changed in the same two ways."""
    for sign, (x, y) in ((1, (_MOVE, -_MOVE / 2)), (-1, (-_MOVE / 2, _MOVE))):
        size, middle = 1 + sign * _NEAR, (_LOOK - 1) / 2
        moved = np.array([[size, 0, middle * (1 - size) + x], [0, size, middle * (1 - size) + y]])
        taken = cv2.warpAffine(
            look_hw.astype(np.float32), moved, (_LOOK, _LOOK), borderMode=cv2.BORDER_REPLICATE
        )
        lit = 255 * (np.clip(taken, 0, 255) / 255) ** (1 - sign * _GAMMA) + _noise()[::sign]
        pixels = np.clip(np.round(lit), 0, 255).astype(np.uint8)
        _, data = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, _JPEG])
        yield np.asarray(cv2.imdecode(data, cv2.IMREAD_GRAYSCALE), np.uint8)


@cache
def _noise() -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(0, _NOISE, (_LOOK, _LOOK))
