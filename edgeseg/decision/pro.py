"""PRO and pixel AUROC of a test set of maps, image by image.

PRO is MVTec AD's: every distinct score is a threshold; at each, the false-positive rate is pooled
over the normal pixels of all images, and the overlap is averaged over all regions, so a small
defect weighs as much as a large one. The area under that curve up to a limit of the false-positive
rate is divided by the limit: 0.3 as MVTec AD has it, and 0.05 as MVTec AD 2 has it, where the few
false positives are that people put up with.

The curve rises only at the scores of anomalous pixels. Say `above` normal pixels lie above such a
pixel, and `at_least` lie above it or tie with it: the pixel's share, one over the size of its
region, joins the curve on a straight line from `above` to `at_least`. Both areas are therefore sums
over anomalous pixels of a function of two counts, without a curve and without rounding its steps:
AUROC comes out of integers, PRO out of one float64 sum. Maps are used as they are, neither clamped
nor scaled.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.decision.ranks import (
    BYTES_PER_KEY,
    BYTES_PER_TAGGED_KEY,
    Ranked,
    SortedRuns,
    keys_of,
    rank,
    tag_keys,
)
from edgeseg.decision.truth import true_regions

LIMIT, STRICT_LIMIT = 0.3, 0.05  # MVTec AD's, MVTec AD 2's
MEMORY_BYTES = 1 << 30


@dataclass(frozen=True, kw_only=True)
class MapScores:
    """Metrics of a model's maps on a test set; None where they are undefined."""

    pro_up_to: dict[float, float | None]  # by the limit of the false-positive rate
    pixel_auroc: float | None
    regions: int
    normal_pixels: int
    anomalous_pixels: int

    @property
    def pro(self) -> float | None:
        """PRO up to MVTec AD's limit."""
        return self.pro_up_to[LIMIT]

    @property
    def pro_05(self) -> float | None:
        """PRO up to a false-positive rate of 0.05."""
        return self.pro_up_to[STRICT_LIMIT]


class MapEvaluator:
    """PRO and pixel AUROC of maps that are added one at a time, in sizes that may differ.

    Exact at any size: about `memory_bytes` are used, and what does not fit waits as sorted runs in
    a temporary file (4 bytes per normal pixel, 8 per anomalous one). More maps may be added after
    a result.
    """

    def __init__(
        self,
        *,
        limits: tuple[float, ...] = (LIMIT, STRICT_LIMIT),
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        for limit in limits:
            if not 0 < limit <= 1:
                raise UsageError(
                    f"limit of the false-positive rate: {limit}, expected more than 0 and at most "
                    f"1; MVTec AD uses {LIMIT}"
                )
        if memory_bytes < 1:
            raise UsageError(f"memory for maps: {memory_bytes} bytes, expected at least 1")
        self._limits = limits
        half = memory_bytes // 2
        self._normal = SortedRuns(np.uint32, capacity=half // BYTES_PER_KEY)
        self._anomalous = SortedRuns(np.uint64, capacity=half // BYTES_PER_TAGGED_KEY)
        self._regions = 0
        self._images = 0
        self._all_marked = True

    def add(
        self, map_hw: NDArray[Any], mask_hw: NDArray[Any] | None, *, name: str | None = None
    ) -> None:
        """Add one image: a mask of a good one is all False, None is a defect that nobody marked.

        After such a defect no figure is defined: which of its pixels should be found is not known.
        `name` stands in errors.
        """
        name = name or f"image {self._images}"
        self._images += 1
        keys_hw = keys_of(_as_map(map_hw, name=name))
        if mask_hw is None:
            self._all_marked = False
            return
        regions = true_regions(mask_hw, name=name)
        if regions.mask_hw.shape != keys_hw.shape:
            raise DatasetError(
                f"{name}: mask of {_size_text(regions.mask_hw)} for a map of "
                f"{_size_text(keys_hw)}, expected the same size; resize the mask with "
                "nearest neighbours"
            )
        self._normal.extend(keys_hw[~regions.mask_hw])
        self._anomalous.extend(tag_keys(keys_hw[regions.mask_hw], regions.sizes_p))
        self._regions += regions.count

    def result(self) -> MapScores:
        """Compute the metrics over everything added so far, in one pass."""
        normal, anomalous = len(self._normal), len(self._anomalous)
        pro: dict[float, float | None] = dict.fromkeys(self._limits)
        auroc = None
        if normal and anomalous and self._all_marked:
            rooms = {limit: limit * normal for limit in self._limits}  # counts of normal pixels
            overlaps = dict.fromkeys(self._limits, 0.0)
            losses = 0  # pairs that the normal pixel wins, ties half, times 2
            for pixels in rank(self._anomalous, self._normal):
                for limit, room in rooms.items():
                    overlaps[limit] += float(np.sum(_area_p(pixels, room=room) / pixels.tags_p))
                losses += int(np.sum(pixels.above_p)) + int(np.sum(pixels.at_least_p))
            for limit, room in rooms.items():
                # 1 + 1e-16 is rounding.
                pro[limit] = min(overlaps[limit] / (room * self._regions), 1.0)
            pairs = 2 * normal * anomalous
            auroc = (pairs - losses) / pairs
        return MapScores(
            pro_up_to=pro,
            pixel_auroc=auroc,
            regions=self._regions,
            normal_pixels=normal,
            anomalous_pixels=anomalous,
        )


def _as_map(map_hw: NDArray[Any], *, name: str) -> NDArray[np.float32]:
    map_hw = np.asarray(map_hw)
    if map_hw.ndim != 2 or map_hw.size == 0:
        raise DatasetError(
            f"{name}: map of shape {map_hw.shape}, expected height x width; add maps one at a time"
        )
    # float64 would lose digits, and with them the order of close scores: not silently.
    if not np.can_cast(map_hw.dtype, np.float32):
        raise UsageError(
            f"{name}: map of type {map_hw.dtype}, expected float32; pass map.astype(np.float32)"
        )
    values_hw = np.ascontiguousarray(map_hw, np.float32)
    finite = int(np.count_nonzero(np.isfinite(values_hw)))
    if finite < values_hw.size:
        raise DatasetError(
            f"{name}: map with {values_hw.size - finite} of {values_hw.size} values not finite, "
            "expected numbers; look for an overflow in the model (half precision?)"
        )
    return values_hw


def _size_text(array_hw: NDArray[Any]) -> str:
    return f"{array_hw.shape[0]} x {array_hw.shape[1]}"


def _area_p(pixels: Ranked, *, room: float) -> NDArray[np.float64]:
    """Return the area, up to `room` false positives, of a line from 0 at above to 1 at at_least."""
    above_p, at_least_p = pixels.above_p, pixels.at_least_p
    area_p: NDArray[np.float64] = np.maximum(room - 0.5 * (above_p + at_least_p), 0.0)
    cut_p = (above_p < room) & (room < at_least_p)  # the limit is within the rise: a triangle
    area_p[cut_p] = (room - above_p[cut_p]) ** 2 / (2.0 * (at_least_p - above_p)[cut_p])
    return area_p
