"""Spots on good images whose change is known: darker, lighter, of another colour, or blurred."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from edgeseg.data.planted.part import Background
from edgeseg.data.planted.shapes import Plane, Shape, soften
from edgeseg.data.planted.sites import Good, PixelChange, Site

CHANGES = ("darker", "lighter", "colour", "blurred")
AREAS = 1 / 512, 1 / 64  # of the picture
STRENGTHS = 1.5, 3.0  # times the contrast around the place
_TURN = np.array([1.0, -0.5, -0.5])  # towards red: about as light as before
_BLUR = 0.35  # of the spot's side
_LEAST_DETAIL = 6.0  # grey levels: where there is less, nothing can be blurred away


def planted_changes(
    frames: Sequence[NDArray[np.uint8]], *, seed: int
) -> Iterator[tuple[str, NDArray[np.uint8], NDArray[np.bool_]]]:
    """Yield a spot of every change on each image, where it can be made there."""
    background = Background.of(frames[:16])
    for place, image_hwc in enumerate(frames):
        good = Good(image_hwc=image_hwc, part_hw=background.part(image_hwc))
        for number, change in enumerate(CHANGES):
            rng = np.random.default_rng([seed, place, number])
            area = math.exp(rng.uniform(math.log(AREAS[0]), math.log(AREAS[1])))
            site = Site(
                good=good,
                donors=(image_hwc,),
                background=background,
                area_px=max(4, round(area * good.part_hw.size)),
                rng=rng,
            )
            made = _spot(site, change)
            if made is not None:
                mask_hw = np.zeros(good.part_hw.shape, np.bool_)
                mask_hw[made.shape.box] = made.shape.mask_hw
                yield change, made.apply(good), mask_hw


def _spot(site: Site, change: str) -> PixelChange | None:
    """Return a spot; None where the picture has no room for it: no colour, detail or light."""
    shape = site.blob(soft=0.3, longest=1.8)
    pixels = site.pixels(shape)
    levels = site.strength(shape, *STRENGTHS)
    if change == "blurred":
        smooth = soften(pixels, _BLUR * math.sqrt(site.area_px))
        lost = float(np.abs(pixels - smooth)[shape.mask_hw].mean())
        return PixelChange(shape=shape, pixels_hwc=smooth) if lost >= _LEAST_DETAIL else None
    if change == "colour":
        if site.good.grey:
            return None
        return PixelChange(shape=shape, pixels_hwc=_shift_pixels(pixels, levels * _TURN))
    shift = levels if change == "lighter" else -levels
    if not _has_room(site, shape, shift):
        return None
    return PixelChange(shape=shape, pixels_hwc=_shift_pixels(pixels, np.full(3, shift)))


def _shift_pixels(pixels: Plane, shift: NDArray[np.float64]) -> Plane:
    return np.asarray(pixels + shift, np.float32)


def _has_room(site: Site, shape: Shape, shift: float) -> bool:
    mean = float(site.good.brightness_hw[shape.box][shape.mask_hw].mean())
    return 0 <= mean + shift <= 255
