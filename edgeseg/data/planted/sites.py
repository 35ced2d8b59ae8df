"""The place of a planted defect and its possible look, measured on the good image itself."""

import math
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.data.planted.part import Background
from edgeseg.data.planted.shapes import Mask, Plane, Shape, blob

_FLAT = 10.0  # grey levels: the contrast that a face without any is taken to have
_BROAD = 0.3  # of the whole part's contrast: what a flat place on a lively part is taken to have
_BOLDEST = 110.0  # grey levels of a change; a larger one is obvious

# Where surfaces turn when they rust, oxidise, scorch or get oily: shifts of red, green and blue.
_TINTS = (
    (0.6, -0.1, -1.0),
    (0.8, 0.5, -1.0),
    (-1.0, -0.2, 0.7),
    (-0.7, 0.5, -0.3),
    (0.9, -0.6, -0.5),
)


@dataclass(frozen=True, kw_only=True)
class Good:
    """A good image and where its part is."""

    image_hwc: NDArray[np.uint8]
    part_hw: Mask

    @property
    def bounded(self) -> bool:
        """Whether the part ends within the picture."""
        return not bool(self.part_hw.all())

    @cached_property
    def grey(self) -> bool:
        """Whether the picture has no colours."""
        least = self.image_hwc.min(axis=2).astype(np.int16)
        return int((self.image_hwc.max(axis=2) - least).max()) <= 2

    @cached_property
    def brightness_hw(self) -> Plane:
        """The brightness of every pixel, 0 to 255."""
        return cv2.cvtColor(self.image_hwc, cv2.COLOR_RGB2GRAY).astype(np.float32)

    @cached_property
    def _broad(self) -> float:
        return _BROAD * float(self.brightness_hw[self.part_hw].std())

    def place(self, rng: np.random.Generator, weight_hw: Plane | None = None) -> tuple[int, int]:
        """Draw a place on the part, by weight if there is one."""
        places = np.flatnonzero(self.part_hw)
        chances = None
        if weight_hw is not None:
            weights = weight_hw.ravel()[places].astype(np.float64)
            chances = weights / weights.sum() if weights.sum() > 0 else None
        y, x = np.unravel_index(rng.choice(places, p=chances), self.part_hw.shape)
        return int(y), int(x)

    def contrast(self, shape: Shape) -> float:
        """Return by how many grey levels the part varies where a shape lies."""
        here = self.brightness_hw[shape.box][shape.mask_hw]
        return max(float(here.std()) if here.size else 0.0, self._broad, _FLAT)


@dataclass(frozen=True, kw_only=True)
class Site:
    """All that a kind of defect may look at."""

    good: Good
    donors: tuple[NDArray[np.uint8], ...]  # good images to cut a piece from, this one among them
    background: Background
    area_px: int
    rng: np.random.Generator
    push: int = 0  # rises with each draw that was not visible

    def blob(
        self,
        *,
        soft: float,
        longest: float = 2.5,
        centre_yx: tuple[int, int] | None = None,
        part_hw: Mask | None = None,
    ) -> Shape:
        """Make a ragged shape of the site's area, up to `longest` times as long as broad."""
        return blob(
            self.good.part_hw if part_hw is None else part_hw,
            centre_yx=centre_yx or self.good.place(self.rng),
            area_px=self.area_px,
            soft=soft,
            stretch=math.exp(self.rng.uniform(0, math.log(longest))),
            rng=self.rng,
        )

    def pixels(self, shape: Shape) -> Plane:
        """Return the image in the shape's window."""
        return self.good.image_hwc[shape.box].astype(np.float32)

    def strength(self, shape: Shape, least: float, most: float) -> float:
        """Draw grey levels, log-uniform between two multiples of the contrast."""
        times = math.exp(self.rng.uniform(math.log(least), math.log(most)))
        return min(times * self.good.contrast(shape), _BOLDEST) + 4.0 * self.push

    def tone(self, shape: Shape, levels: float, *, colour: float) -> Plane:
        """Draw a shift (3,) of so many levels, darker or lighter as there is room, with a hue."""
        mean = float(self.good.brightness_hw[shape.box][shape.mask_hw].mean())
        lighter = bool(self.rng.random() < 0.5)
        if mean + levels > 245 or mean - levels < 10:
            lighter = mean < 128
        shift = np.full(3, 1.0 if lighter else -1.0)
        tint = np.array(_TINTS[int(self.rng.integers(len(_TINTS)))]) + self.rng.normal(0, 0.15, 3)
        if not self.good.grey:
            shift = (1 - colour) * shift + colour * tint
        return np.asarray(levels * shift / np.abs(shift).max(), np.float32)

    def nudge(self, shape: Shape) -> Plane:
        """Draw an additional tone for a place that has nothing else to lose."""
        return self.tone(shape, self.push * max(self.good.contrast(shape) / 3, 4.0), colour=0.2)


@dataclass(frozen=True, kw_only=True)
class PixelChange:
    """New pixels for a shape."""

    shape: Shape
    pixels_hwc: Plane  # of the shape's box

    def apply(self, good: Good) -> NDArray[np.uint8]:
        """Blend the change into the image; other pixels stay identical."""
        box, weight = self.shape.box, self.shape.weight_hw[..., None]
        old = good.image_hwc[box].astype(np.float32)
        new = np.rint(np.clip(old + weight * (self.pixels_hwc - old), 0, 255))
        image_hwc: NDArray[np.uint8] = good.image_hwc.copy()
        image_hwc[box] = np.where(self.shape.mask_hw[..., None], new, old)
        return image_hwc
