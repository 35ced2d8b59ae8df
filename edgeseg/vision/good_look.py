"""The look of good parts, place by place, and what is other about a place: darker, blurred, ...

    good inputs --LookSums.add--> mean and spread of brightness, colour and detail --> GoodLook
    an input, a region --GoodLook.change--> what changed most, or nothing

A change is told in units of how much good parts vary there; what is within them is no change.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.packed import PackedArray

Change = Literal["darker", "lighter", "colour", "blurred", "finer", "missing"]
Planes = NDArray[np.float32]

SIDE = 64  # places each way
FIGURES = 4  # lightness, two of colour, and detail
_LEAST = (4.0, 3.0, 3.0, 0.25)  # levels of Lab, and of the logarithm: less is not seen
_STRIKING = 2.0  # times what good parts vary
_DETAIL_WINS = 1.5  # times the others: new edges come with every change of brightness
_BLANK = 1.0  # levels of detail that noise has
_BORDER = 0.06  # of the input: what its border shows is background, if it is of one colour
_EVEN, _APART, _LIKE = 10.0, 25.0, 0.35  # levels of Lab


def look_of(input_hwc: NDArray[np.uint8]) -> Planes:
    """Return lightness, colour and detail (4, H, W) of an input, RGB."""
    lab = cv2.cvtColor(input_hwc, cv2.COLOR_RGB2LAB).astype(np.float32)
    smooth = cv2.GaussianBlur(lab[..., 0], (0, 0), 0.8)
    detail = np.abs(cv2.Laplacian(smooth, cv2.CV_32F))
    return np.stack([*np.moveaxis(lab, -1, 0), detail])


def _place_means(planes: Planes) -> Planes:
    """Return the means (4, SIDE, SIDE) of planes at every place, detail as a logarithm."""
    small = [cv2.resize(plane, (SIDE, SIDE), interpolation=cv2.INTER_AREA) for plane in planes]
    small[-1] = np.log(small[-1] + _BLANK)
    return np.asarray(np.stack(small), np.float32)


@dataclass
class LookSums:
    """Sums over good inputs."""

    count: int = 0
    total: NDArray[np.float64] | float = 0.0
    squares: NDArray[np.float64] | float = 0.0

    def add(self, input_hwc: NDArray[np.uint8]) -> None:
        """Add an input."""
        values = _place_means(look_of(input_hwc)).astype(np.float64)
        self.count += 1
        self.total = self.total + values
        self.squares = self.squares + values**2

    def look(self) -> "GoodLook | None":
        """Return what was seen; None of a single input, which does not tell how good ones vary."""
        if self.count < 2:
            return None
        mean = np.asarray(self.total / self.count)
        spread = np.sqrt(np.maximum(self.squares / self.count - mean**2, 0))
        return GoodLook(mean=PackedArray.of(mean), spread=PackedArray.of(spread))


@dataclass(frozen=True, kw_only=True)
class GoodLook:
    """Mean and spread of good inputs at every place."""

    mean: PackedArray  # (4, SIDE, SIDE)
    spread: PackedArray

    def __post_init__(self) -> None:
        for name in ("mean", "spread"):
            if getattr(self, name).shape != (FIGURES, SIDE, SIDE):
                raise ValueError(f"{name}: expected {FIGURES} x {SIDE} x {SIDE} numbers")

    def change(self, input_hwc: NDArray[np.uint8], region_hw: NDArray[np.bool_]) -> Change | None:
        """Say what changed most in a region (H, W) of an input; None where nothing stands out."""
        ys, xs = np.nonzero(region_hw)
        if not ys.size:
            return None
        rows, columns = slice(ys.min(), ys.max() + 1), slice(xs.min(), xs.max() + 1)
        inside = region_hw[rows, columns]
        seen = _mean_in(look_of(input_hwc)[:, rows, columns], inside)
        size_hw = (input_hwc.shape[0], input_hwc.shape[1])
        usual, spread = (
            _mean_in(_stretch(packed.values, size_hw)[:, rows, columns], inside)
            for packed in (self.mean, self.spread)
        )
        seen[-1] = np.log(seen[-1] + _BLANK)
        return self._name(seen, usual, spread)

    def _name(
        self, seen: NDArray[np.float32], usual: NDArray[np.float32], spread: NDArray[np.float32]
    ) -> Change | None:
        if self._is_background(seen[:3], usual[:3]):
            return "missing"
        times = (seen - usual) / (spread + np.asarray(_LEAST, np.float32))
        light, colour, detail = float(times[0]), float(np.hypot(*times[1:3])), float(times[3])
        strength = max(abs(light), colour)
        if abs(detail) >= _STRIKING and abs(detail) > _DETAIL_WINS * strength:
            return "blurred" if detail < 0 else "finer"
        if strength < _STRIKING:
            return None
        if colour > abs(light):
            return "colour"
        return "darker" if light < 0 else "lighter"

    def _is_background(self, seen: NDArray[np.float32], usual: NDArray[np.float32]) -> bool:
        """Whether a place shows background now and does not in good parts."""
        colour, even = self._background
        was, now = (float(np.linalg.norm(each - colour)) for each in (usual, seen))
        return even and was >= _APART and now <= _LIKE * was

    @cached_property
    def _background(self) -> tuple[NDArray[np.float32], bool]:
        """The colour of the border, and whether it is of one colour."""
        width = max(1, round(_BORDER * SIDE))
        border = np.ones((SIDE, SIDE), np.bool_)
        border[width:-width, width:-width] = False
        values = self.mean.values[:3][:, border]
        colour = np.asarray(np.median(values, axis=1), np.float32)
        apart = np.linalg.norm(values - colour[:, None], axis=0)
        return colour, bool(np.quantile(apart, 0.8) <= _EVEN)


def _mean_in(planes: Planes, inside_hw: NDArray[np.bool_]) -> NDArray[np.float32]:
    return np.asarray(planes[:, inside_hw].mean(axis=1), np.float32)


def _stretch(planes: Planes, size_hw: tuple[int, int]) -> Planes:
    size_wh = (size_hw[1], size_hw[0])
    stretched = [cv2.resize(plane, size_wh, interpolation=cv2.INTER_LINEAR) for plane in planes]
    return np.asarray(np.stack(stretched), np.float32)
