"""From a map and a score to a verdict, a debounced alarm and regions."""

import math
from collections import deque
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.errors import UsageError
from edgeseg.runtime.result import Region, Verdict

MAX_REGIONS = 32  # a frame of noise must not become an event of a megabyte


@dataclass(frozen=True, kw_only=True)
class Debounce:
    """An alarm needs k verdicts of the last n that are not good."""

    k: int = 1
    n: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.k <= self.n:
            raise UsageError(f"--debounce {self.k}/{self.n}: expected 1 <= k <= n")

    @classmethod
    def parse(cls, text: str) -> "Debounce":
        """Read `k/n`."""
        try:
            k, n = (int(part) for part in text.split("/"))
        except ValueError:
            raise UsageError(f"--debounce {text!r}: expected k/n, for example 3/5") from None
        return cls(k=k, n=n)


class Alarm:
    """The alarm of one source."""

    def __init__(self, debounce: Debounce) -> None:
        self._needed = debounce.k
        self._recent: deque[bool] = deque(maxlen=debounce.n)
        self.active = False

    def update(self, verdict: Verdict) -> bool:
        """Take one verdict; true when the alarm starts with it."""
        self._recent.append(verdict != "good")  # no finite score: no reason to trust the part
        before, self.active = self.active, sum(self._recent) >= self._needed
        return self.active and not before

    def forget(self) -> None:
        """Start anew: frames on both sides of a lost connection are not neighbours."""
        self._recent.clear()
        self.active = False


def judge(score: float, threshold: float) -> Verdict:
    """The verdict on one frame."""
    if not math.isfinite(score):
        return "invalid"
    return "defect" if score > threshold else "good"


def find_regions(
    map_hw: NDArray[np.float32], threshold: float, *, size_hw: tuple[int, int]
) -> tuple[tuple[Region, ...], int]:
    """Connected parts above the threshold in pixels of a frame of size_hw, and how many."""
    above_hw = map_hw > threshold
    if not above_hw.any():
        return (), 0
    count, labels_hw, stats, _ = cv2.connectedComponentsWithStats(
        above_hw.view(np.uint8), connectivity=8
    )
    peaks = np.full(count, -np.inf, np.float32)
    np.maximum.at(peaks, np.asarray(labels_hw, np.int32)[above_hw], map_hw[above_hw])
    scale_y, scale_x = size_hw[0] / map_hw.shape[0], size_hw[1] / map_hw.shape[1]
    strongest = np.argsort(-peaks[1:], kind="stable")[:MAX_REGIONS] + 1
    regions = []
    for label in strongest:
        x, y, w, h, area = (int(value) for value in stats[label])
        # Outwards, so that the box holds the region at any scale.
        left, top = math.floor(x * scale_x), math.floor(y * scale_y)
        # Rounding of the scale may point a pixel past the border.
        right = min(size_hw[1], math.ceil((x + w) * scale_x))
        bottom = min(size_hw[0], math.ceil((y + h) * scale_y))
        regions.append(
            Region(
                box_xywh=(left, top, right - left, bottom - top),
                area_px=max(1, round(area * scale_x * scale_y)),
                peak=float(peaks[label]),
            )
        )
    return tuple(regions), count - 1
