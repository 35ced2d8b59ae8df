"""The prediction of a model for one frame, and the rules for what is above a threshold.

    map, score --is_anomalous, above--> anomalous or not, pixels --regions_of--> boxes

Everywhere a value at the threshold is good, and a value that is not a number is not.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.messages import Message
from edgeseg.decision.kinds import KindGuess
from edgeseg.decision.why import Why
from edgeseg.vision.appearance import Appearance
from edgeseg.vision.geometry import View
from edgeseg.vision.tiles import Tiling

MAX_REGIONS = 32  # a frame of noise must not become an event of a megabyte
# A region of the map (H, W) to the kind that it is like, and why it is odd.
Describe = Callable[[NDArray[np.bool_]], tuple[KindGuess | None, Why | None]]
_AROUND_PEAK = 0.9  # of the highest value: how far the place reaches that raised an alarm


def is_anomalous(score: float, threshold: float) -> bool:
    """Return whether a score is above the threshold or not a number: neither can be trusted."""
    return not score <= threshold


def above(values: NDArray[np.floating[Any]], threshold: float) -> NDArray[np.bool_]:
    """Apply the rule of `is_anomalous` to many scores, or to the pixels of a map."""
    # numpy would round the threshold to the values' float32 and might move it past one of them.
    with np.errstate(over="ignore"):
        limit = values.dtype.type(threshold)
    if float(limit) > threshold:
        limit = np.nextafter(limit, values.dtype.type(-np.inf))
    anomalous: NDArray[np.bool_] = ~(values <= limit)
    return anomalous


@dataclass(frozen=True, kw_only=True)
class Region:
    """One connected part of the map above the pixel threshold, in pixels of the frame."""

    box_xywh: tuple[int, int, int, int]
    area_px: int
    peak: float  # highest value of the map in it; NaN if one is no number
    kind: KindGuess | None = None  # None: the model knows no kinds
    why: Why | None = None  # None: the model does not say why

    @property
    def explanation(self) -> Message | None:
        """The kind and the reason in words; None where the model tells neither."""
        return explanation_of(self.kind, self.why)

    def explanation_facts(self) -> dict[str, object]:
        """Return kind and reason as plain values; nothing where the model does not tell them."""
        kind = {} if self.kind is None else self.kind.facts()
        return kind if self.why is None else {**kind, "why": self.why.facts()}

    def shift(self, right: int, down: int) -> "Region":
        """Return the region in a larger picture that this one is a part of."""
        x, y, w, h = self.box_xywh
        return replace(self, box_xywh=(x + right, y + down, w, h))


def explanation_of(kind: KindGuess | None, why: Why | None) -> Message | None:
    """Put what a model tells of a region into words; None where it tells neither."""
    words = [told.words for told in (kind, why) if told is not None]
    if len(words) < 2:
        return next(iter(words), None)
    return Message("kind_and_why", kind=words[0], why=words[1])


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One frame's anomaly map, its score and, where the model gives it, the coarse map."""

    map_hw: NDArray[np.float32]  # (H, W): distance at image size, blurred
    score: float
    grid_hw: NDArray[np.float32] | None = None  # (h, w): distances that the score counts
    map_grid_hw: NDArray[np.float32] | None = None  # (h, w): the map's own; None: it has none
    appearance: Appearance | None = None  # of the input; None: not computed
    raised_hw: NDArray[np.bool_] | None = None  # (H, W): of tiles, place_of_score of the worst one
    variant: str | None = None  # of the product that it shows; None: the model has one product
    of_parts: tuple["Prediction", ...] = ()  # of a picture of several: each that is judged
    apart_pk: NDArray[np.float32] | None = None  # (P, k): cells minus the mean of their place
    describe: Describe | None = None  # of its regions, while it is judged

    @property
    def shown_hw(self) -> NDArray[np.float32] | None:
        """The cells (h, w) that the map is made of; None: the model does not give them."""
        return self.grid_hw if self.map_grid_hw is None else self.map_grid_hw


def place_of_score(prediction: Prediction) -> NDArray[np.bool_]:
    """Mark the cells that raise the score most, as pixels of the map (H, W).

    Where the map is made of the same cells, or the model does not give them, it is the map's own
    highest place.
    """
    if prediction.raised_hw is not None:
        return prediction.raised_hw
    if prediction.grid_hw is None or prediction.map_grid_hw is None:
        return _highest_place(prediction.map_hw)
    (height, width), (rows, columns) = prediction.map_hw.shape, prediction.grid_hw.shape
    place_hw = _highest_place(prediction.grid_hw)
    return place_hw.repeat(height // rows, axis=0).repeat(width // columns, axis=1)


def _highest_place(values_hw: NDArray[np.float32]) -> NDArray[np.bool_]:
    peak = float(values_hw.max())
    below = min(_AROUND_PEAK * peak, float(np.nextafter(np.float32(peak), np.float32(-np.inf))))
    _, places_hw = cv2.connectedComponents(above(values_hw, below).view(np.uint8), connectivity=8)
    highest_hw: NDArray[np.bool_] = places_hw == places_hw.flat[int(values_hw.argmax())]
    return highest_hw


def blend_tiles(parts: Sequence[Prediction], tiling: Tiling) -> Prediction:
    """Blend the predictions of tiles; there is no grid, since cells belong to tiles."""
    scores = [part.score for part in parts]
    map_hw, score = tiling.blend([part.map_hw for part in parts], scores)
    worst = int(np.argmax(scores))
    if parts[worst].map_grid_hw is None:  # the map itself is high where the score comes from
        return Prediction(map_hw=map_hw, score=score)
    (y, x), (height, width) = tiling.corners_yx()[worst], tiling.tile_hw
    raised_hw = np.zeros(map_hw.shape, np.bool_)
    raised_hw[y : y + height, x : x + width] = place_of_score(parts[worst])
    return Prediction(map_hw=map_hw, score=score, raised_hw=raised_hw)


def find_regions(
    map_hw: NDArray[np.float32],
    threshold: float,
    *,
    size_hw: tuple[int, int],
    view: View | None = None,
) -> tuple[tuple[Region, ...], int]:
    """Return the connected regions above the threshold, in pixels of a frame, and their number."""
    return regions_of(map_hw, above(map_hw, threshold), size_hw=size_hw, view=view)


def regions_of(
    map_hw: NDArray[np.float32],
    marked_hw: NDArray[np.bool_],
    *,
    size_hw: tuple[int, int],
    view: View | None = None,
    min_area: float = 0.0,
    describe: Describe | None = None,
) -> tuple[tuple[Region, ...], int]:
    """Return the connected regions of the marked pixels of at least `min_area`, and their number.

    At most MAX_REGIONS are given, strongest first, the largest always among them. With a view that
    follows the part, `map_hw` is of its input and the boxes of its picture.
    """
    if not marked_hw.any():
        return (), 0
    count, labels_hw, stats, _ = cv2.connectedComponentsWithStats(
        marked_hw.view(np.uint8), connectivity=8
    )
    scale_y, scale_x = size_hw[0] / map_hw.shape[0], size_hw[1] / map_hw.shape[1]
    pixel_area = scale_x * scale_y if view is None or view.pose is None else view.pixel_area
    areas = np.maximum(1, np.rint(stats[:, cv2.CC_STAT_AREA] * pixel_area)).astype(np.int64)
    peaks = np.full(count, -np.inf, np.float32)
    with np.errstate(invalid="ignore"):  # NaN stays NaN, and needs no warning
        np.maximum.at(peaks, np.asarray(labels_hw, np.int32)[marked_hw], map_hw[marked_hw])
    large = np.flatnonzero(areas >= min_area)
    large = large[large > 0]  # 0 is what is not marked
    regions = []
    for label in _select_regions(large, areas, peaks).tolist():
        x, y, w, h = (int(value) for value in stats[label, :4])
        if view is not None and view.pose is not None:
            piece = np.asarray(labels_hw[y : y + h, x : x + w] == label, np.bool_)
            box = _box_in_camera(piece, (x, y), view)
        else:
            # Outwards, so that the box holds the region at any scale.
            left, top = math.floor(x * scale_x), math.floor(y * scale_y)
            # Rounding of the scale may point a pixel past the border.
            right = min(size_hw[1], math.ceil((x + w) * scale_x))
            bottom = min(size_hw[0], math.ceil((y + h) * scale_y))
            box = (left, top, right - left, bottom - top)
        kind, why = (None, None) if describe is None else describe(labels_hw == label)
        peak, area = float(peaks[label]), int(areas[label])
        regions.append(Region(box_xywh=box, area_px=area, peak=peak, kind=kind, why=why))
    return tuple(regions), len(large)


def _select_regions(
    labels: NDArray[np.intp], areas: NDArray[np.int64], peaks: NDArray[np.float32]
) -> NDArray[np.intp]:
    """Select the strongest of many regions, and the largest, which may be weaker."""
    falling = -np.where(np.isnan(peaks[labels]), np.inf, peaks[labels])  # no number comes first
    ordered = labels[np.argsort(falling, kind="stable")]
    strongest = ordered[:MAX_REGIONS]
    if len(ordered) > MAX_REGIONS:
        largest = ordered[areas[ordered].argmax()]
        if largest not in strongest:
            strongest = np.append(strongest[:-1], largest)
    return np.asarray(strongest, np.intp)


def _box_in_camera(
    piece_hw: NDArray[np.bool_], corner_xy: tuple[int, int], view: View
) -> tuple[int, int, int, int]:
    """Return the box around a piece of the input, in the camera's picture."""
    rows, columns = np.nonzero(piece_hw)
    points = np.stack([columns + corner_xy[0], rows + corner_xy[1]], axis=1)
    corners = (points[:, None] + ((0, 0), (1, 0), (0, 1), (1, 1))).reshape(-1, 2)
    placed = corners @ view.to_frame[:, :2].T + view.to_frame[:, 2]
    limit = (view.frame_hw[1], view.frame_hw[0])
    left, top = np.clip(np.floor(placed.min(axis=0)), 0, np.subtract(limit, 1)).astype(int).tolist()
    right, bottom = np.clip(np.ceil(placed.max(axis=0)), 1, limit).astype(int).tolist()
    return left, top, max(1, right - left), max(1, bottom - top)
