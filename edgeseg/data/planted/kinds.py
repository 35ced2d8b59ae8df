"""The kinds of planted defects, painted with what the good images themselves show.

    Site (a good image and where its part is) --a kind--> PixelChange (a shape and its new pixels)

Strengths are drawn relative to the contrast around the place, so that a defect is as hard to see
on a wild texture as on a polished face.
"""

import math
from collections.abc import Callable

import cv2
import numpy as np

from edgeseg.data.planted.shapes import (
    Mask,
    Plane,
    Shape,
    depth_of,
    smooth_noise,
    soften,
    strokes,
    unit,
)
from edgeseg.data.planted.sites import Good, PixelChange, Site


def _paste(site: Site) -> PixelChange:
    """Paste a turned piece from elsewhere: a wrong part, swarf, a fold, a shifted pattern."""
    shape = site.blob(soft=0.35)
    donor_hwc = site.donors[int(site.rng.integers(len(site.donors)))]
    donor = Good(image_hwc=donor_hwc, part_hw=site.background.part(donor_hwc))
    from_y, from_x = donor.place(site.rng)
    to_y, to_x = np.argwhere(shape.mask_hw).mean(axis=0)
    turned = cv2.getRotationMatrix2D((from_x, from_y), site.rng.uniform(0, 360), 1.0)
    turned[:, 2] += (to_x - from_x, to_y - from_y)
    height, width = shape.mask_hw.shape
    piece = cv2.warpAffine(donor_hwc, turned, (width, height), borderMode=cv2.BORDER_REFLECT_101)
    return PixelChange(shape=shape, pixels_hwc=piece.astype(np.float32) + site.nudge(shape))


def _scratch(site: Site) -> PixelChange:
    """Draw thin curved lines, lighter or darker, with a shadow along one side."""
    centre = site.good.place(site.rng)
    shape = strokes(site.good.part_hw, centre_yx=centre, area_px=site.area_px, rng=site.rng)
    shift = site.tone(shape, site.strength(shape, 0.8, 3.0), colour=0.1)
    # Light falls into the groove from one side: the other edge is in its shade.
    offset, turn = max(unit(site.good.part_hw.shape), 1.0), site.rng.uniform(0, 2 * np.pi)
    moved = np.array([[1, 0, offset * np.cos(turn)], [0, 1, offset * np.sin(turn)]])
    height, width = shape.mask_hw.shape
    shade = shape.weight_hw - cv2.warpAffine(shape.weight_hw, moved, (width, height))
    relief = 1 - site.rng.uniform(0, 0.5) * np.clip(shade, 0, 1)
    return PixelChange(shape=shape, pixels_hwc=site.pixels(shape) + relief[..., None] * shift)


def _stain(site: Site) -> PixelChange:
    """Paint a soft translucent patch of another tint, at times with a rim as of a dried liquid."""
    shape = site.blob(soft=site.rng.uniform(0.3, 0.8), longest=1.8)
    old, weight = site.pixels(shape), shape.weight_hw
    shift = site.tone(shape, site.strength(shape, 1.0, 3.5), colour=0.4)
    rim = 1 + site.rng.choice([0.0, 0.6]) * 4 * weight * (1 - weight)
    uneven = 1 + 0.2 * np.clip(smooth_noise(weight.shape, 9, site.rng), -2, 2)
    cover = site.rng.uniform(0, 0.5)  # how much of the part's own texture it hides
    faded = old + cover * (soften(old, 0.2 * math.sqrt(site.area_px)) - old)
    return PixelChange(shape=shape, pixels_hwc=faded + (rim * uneven)[..., None] * shift)


def _missing(site: Site) -> PixelChange:
    """Break a piece off, so that the background shows, or remove a detail."""
    part_hw = site.good.part_hw
    if not site.good.bounded or site.rng.random() < 0.3:
        shape = site.blob(soft=0.25)
        return PixelChange(shape=shape, pixels_hwc=_without_detail(site, shape) + site.nudge(shape))
    centre = None
    if site.rng.random() < 0.7:  # most pieces break off at an edge
        at_edge = depth_of(part_hw) <= max(0.4 * math.sqrt(site.area_px), 2)
        centre = site.good.place(site.rng, at_edge.astype(np.float32))
    # The outline of the part breaks off with it, though it is half background.
    reach = 2 * round(2 * unit(part_hw.shape)) + 1
    grown_hw = cv2.dilate(part_hw.astype(np.uint8), np.ones((reach, reach), np.uint8)) > 0
    shape = site.blob(soft=0.2, longest=1.8, centre_yx=centre, part_hw=grown_hw)
    broken = _background(site, shape) + _fracture(site, shape)[..., None]
    return PixelChange(shape=shape, pixels_hwc=broken + site.nudge(shape))


def _without_detail(site: Site, shape: Shape) -> Plane:
    """Remove what is darker than its surroundings, or what is lighter."""
    detail = min(math.sqrt(site.area_px), 16 * unit(site.good.part_hw.shape))
    side = 2 * max(1, round(0.5 * detail)) + 1
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side))
    how = (cv2.MORPH_CLOSE, cv2.MORPH_OPEN)[int(site.rng.integers(2))]
    bare = cv2.morphologyEx(site.good.image_hwc[shape.box], how, kernel).astype(np.float32)
    smooth = soften(bare, side / 4)
    return np.asarray(smooth + site.rng.normal(0, 1.5, (*shape.mask_hw.shape, 1)), np.float32)


def _fracture(site: Site, shape: Shape) -> Plane:
    """Return levels (H, W) of the broken edge: a thin slope in the light or in the shade."""
    width = max(0.12 * math.sqrt(site.area_px), 1.0)
    slope = np.exp(-depth_of(shape.mask_hw) / width) * shape.mask_hw
    rough = 1 + 0.4 * np.clip(smooth_noise(slope.shape, 15, site.rng), -2, 2)
    return np.asarray(site.rng.uniform(-60, 40) * slope * rough, np.float32)


def _background(site: Site, shape: Shape) -> Plane:
    """Return the background's colour of this neighbourhood with the grain of another place."""
    image_hwc = site.good.image_hwc.astype(np.float32)
    apart = 2 * round(4 * unit(site.good.part_hw.shape)) + 1  # pixels that no shadow reaches
    room = (~site.good.part_hw).astype(np.uint8)
    room_hw = cv2.erode(room, np.ones((apart, apart), np.uint8)) > 0
    weight_hw = room_hw.astype(np.float32)
    sigma = min(room_hw.shape) / 16
    overall = image_hwc[room_hw].mean(axis=0) if room_hw.any() else image_hwc.mean(axis=(0, 1))
    mass = soften(weight_hw, sigma) + 1e-6
    smooth = soften(image_hwc * weight_hw[..., None], sigma) + 1e-6 * overall
    smooth /= mass[..., None]
    filled: Plane = smooth[shape.box].astype(np.float32)
    inner, grain_box = _grain_box(room_hw, shape.mask_hw, site.rng)
    filled[inner] += ((image_hwc - smooth) * weight_hw[..., None])[grain_box]
    return filled


def _grain_box(
    room_hw: Mask, mask_hw: Mask, rng: np.random.Generator
) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """Return a mask's rectangle, and an equal one in the picture with the most background."""
    rows, columns = np.flatnonzero(mask_hw.any(axis=1)), np.flatnonzero(mask_hw.any(axis=0))
    inner = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
    height, width = mask_hw[inner].shape
    corners = rng.integers(0, np.array(room_hw.shape) - (height, width) + 1, (40, 2)).tolist()
    boxes = [(slice(top, top + height), slice(left, left + width)) for top, left in corners]
    return inner, max(boxes, key=lambda box: np.count_nonzero(room_hw[box] & mask_hw[inner]))


def _blur(site: Site) -> PixelChange:
    """Blur a place that has lost its texture: worn, smeared, deformed."""
    pixel, size = unit(site.good.part_hw.shape), math.sqrt(site.area_px)
    reach = max(0.5 * size, 1.0)
    # Where there is no texture nothing can be lost.
    brightness_hw = site.good.brightness_hw
    detail = np.abs(brightness_hw - soften(brightness_hw, reach))
    centre = site.good.place(site.rng, soften(detail, reach) ** 2)
    shape = site.blob(soft=0.35, centre_yx=centre)
    sigma = site.rng.uniform(0.25, 0.6) * min(size, 20 * pixel) + 0.3 * pixel * (1 + site.push)
    smeared = soften(site.pixels(shape), sigma)
    return PixelChange(shape=shape, pixels_hwc=smeared + site.nudge(shape))


def _colour(site: Site) -> PixelChange:
    """Give a surface another colour, or another brightness where the camera is grey."""
    shape = site.blob(soft=0.3)
    shift = site.tone(shape, site.strength(shape, 0.8, 3.0), colour=0.75)
    return PixelChange(shape=shape, pixels_hwc=site.pixels(shape) + shift)


# To add a kind: a function from a site to a change, and its line here.
KINDS: dict[str, Callable[[Site], PixelChange]] = {
    "paste": _paste,
    "scratch": _scratch,
    "stain": _stain,
    "missing": _missing,
    "blur": _blur,
    "colour": _colour,
}
