"""Brightness and sharpness of a frame, compared with good images: dark, glaring or blurred frames.

input --appearance_of--> seven figures --GoodAppearance--> their range over good images
range --limits--> AppearanceLimits --fault_in--> dark, bright, blurred or nothing

A score tells how odd a part looks. A part that can hardly be seen may not look odd at all.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.plain import JsonObject
from edgeseg.vision.picture_kinds import Colour, colour_of

Fault = Literal["dark", "bright", "blurred"]
# Brightness of the four quarters, fine detail and coarse detail over contrast, and contrast: all
# logarithms, so that a gain is a difference, in thousandths, so that sums are exact in any order.
Appearance = tuple[int, ...]
QUARTERS, FIGURES = 4, 7
FEWEST = 5  # good images: fewer do not tell how much they vary
# Beyond the range of the good images, whichever is more: half or twice as much of a figure, or
# three of their standard deviations. bench/results/decide/appearance has what they reach.
MARGIN, SPREADS = round(1000 * math.log(2)), 3
_COARSE = 4  # pixels of the input that are one: noise is gone, and what defocus takes is not
# Grey levels. Of a picture of a few levels nothing is known but that it is dark.
_DARK, _FLAT, _BLANK = 4.0, 2.0, 0.5


def appearance_of(input_hwc: NDArray[np.uint8]) -> Appearance:
    """Return the figures of a model's input, RGB (H, W, 3); takes 0.1 ms at 256x256."""
    grey = np.asarray(cv2.cvtColor(input_hwc, cv2.COLOR_RGB2GRAY), np.uint8)
    height, width = grey.shape
    quarters = cv2.resize(grey, (2, 2), interpolation=cv2.INTER_AREA).ravel().tolist()
    small_wh = max(1, width // _COARSE), max(1, height // _COARSE)
    small = np.asarray(cv2.resize(grey, small_wh, interpolation=cv2.INTER_AREA), np.uint8)
    contrast = float(cv2.meanStdDev(grey)[1].item()) + _FLAT
    figures = [level + _DARK for level in quarters]
    figures += [_detail(grey) / contrast, _detail(small) / contrast, contrast]
    return tuple(round(1000 * math.log(figure)) for figure in figures)


def _detail(grey_hw: NDArray[np.uint8]) -> float:
    """Return the mean size of the second differences."""
    return float(cv2.norm(cv2.Laplacian(grey_hw, cv2.CV_16S), cv2.NORM_L1)) / grey_hw.size + _BLANK


@dataclass(frozen=True, kw_only=True)
class AppearanceLimits:
    """Limits within which a frame looks as good images do."""

    lowest: Appearance
    brightest: Appearance  # of the four quarters: nothing is too sharp
    colour: Colour = "mixed"  # what good images were; mixed: nothing is said of others

    def __post_init__(self) -> None:
        for name, count in (("lowest", FIGURES), ("brightest", QUARTERS)):
            if len(getattr(self, name)) != count:
                raise ValueError(f"{name}: expected {count} numbers")

    def fault_in(self, appearance: Appearance) -> Fault | None:
        """Return what is wrong with a frame; None where it looks as good images do."""
        below = [value < limit for value, limit in zip(appearance, self.lowest, strict=True)]
        if any(below[:QUARTERS]):
            return "dark"
        if any(value > limit for value, limit in zip(appearance, self.brightest, strict=False)):
            return "bright"
        return "blurred" if any(below) else None

    def widen(self, other: "AppearanceLimits") -> "AppearanceLimits":
        """Return limits that accept what either of the two accepts."""
        return AppearanceLimits(
            lowest=tuple(map(min, self.lowest, other.lowest)),
            brightest=tuple(map(max, self.brightest, other.brightest)),
            colour=self.colour if self.colour == other.colour else "mixed",
        )


@dataclass(frozen=True, kw_only=True)
class GoodAppearance:
    """Sums over good images; sums of subsets add up exactly to those of the whole set."""

    count: int = 0
    grey: int = 0  # of them
    lowest: Appearance = (0,) * FIGURES
    highest: Appearance = (0,) * FIGURES
    total: Appearance = (0,) * FIGURES
    squares: Appearance = (0,) * FIGURES

    def __post_init__(self) -> None:
        for name in ("lowest", "highest", "total", "squares"):
            if len(getattr(self, name)) != FIGURES:
                raise ValueError(f"{name}: expected {FIGURES} numbers")
        if not 0 <= self.grey <= self.count or any(map(int.__gt__, self.lowest, self.highest)):
            raise ValueError(f"count: {self.count}, expected some, from lowest to highest")

    @classmethod
    def of(cls, appearances: Iterable[Appearance], *, grey: int = 0) -> "GoodAppearance":
        """Sum over images; `grey` says how many of them are grey."""
        rows = np.array(list(appearances), np.int64).reshape(-1, FIGURES)
        if not len(rows):
            return cls()
        sums = (rows.min(axis=0), rows.max(axis=0), rows.sum(axis=0), (rows**2).sum(axis=0))
        lowest, highest, total, squares = (tuple(values.tolist()) for values in sums)
        return cls(
            count=len(rows), grey=grey, lowest=lowest, highest=highest, total=total, squares=squares
        )

    def merge(self, other: "GoodAppearance") -> "GoodAppearance":
        """Return the sums over both sets of images."""
        if not (self.count and other.count):
            return self if self.count else other
        return GoodAppearance(
            count=self.count + other.count,
            grey=self.grey + other.grey,
            lowest=tuple(map(min, self.lowest, other.lowest)),
            highest=tuple(map(max, self.highest, other.highest)),
            total=tuple(map(int.__add__, self.total, other.total)),
            squares=tuple(map(int.__add__, self.squares, other.squares)),
        )

    def to_dict(self) -> JsonObject:
        """Return plain JSON values."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in vars(self).items()}

    @property
    def limits(self) -> AppearanceLimits | None:
        """The limits for frames; None where there are too few images."""
        if self.count < FEWEST:
            return None
        margins = [
            max(MARGIN, math.ceil(SPREADS * math.sqrt(max(0, n * squares - total**2)) / n))
            for n in (self.count,)
            for total, squares in zip(self.total, self.squares, strict=True)
        ]
        above = tuple(map(int.__add__, self.highest, margins))
        return AppearanceLimits(
            lowest=tuple(map(int.__sub__, self.lowest, margins)),
            brightest=above[:QUARTERS],
            colour=colour_of(grey=self.grey, count=self.count),
        )
