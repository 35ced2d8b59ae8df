"""Shapes of a given area on the part: ragged blobs and bundles of scratches."""

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.float32]
Mask = NDArray[np.bool_]
Box = tuple[slice, slice]

_SUBPIXEL = 4  # fractional bits of the coordinates that OpenCV draws with
_LONGEST = 0.35  # of the shorter side: a scratch; a larger area makes more of them
_STROKES = 300  # at most, in a bundle
_WIDE = 32.0  # pixels: the cost of a blur grows with its width
_FAINT = 0.15  # of full weight: the rim of an anti-aliased line that does not count


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The pixels of a picture that a defect covers, in a window with room around them."""

    box: Box
    mask_hw: Mask  # of the box
    weight_hw: Plane  # of the box: 0 outside the mask, up to 1 inside

    @property
    def area_px(self) -> int:
        """The number of pixels covered."""
        return int(np.count_nonzero(self.mask_hw))


def unit(size_hw: tuple[int, ...]) -> float:
    """Return how long a pixel of 256x256 is in this size: thin things keep their share."""
    return min(size_hw) / 256


def window(size_hw: tuple[int, ...], centre_yx: tuple[int, int], reach: float) -> Box:
    """Return the part of a picture within `reach` of a place."""
    first, last = (
        slice(max(math.floor(centre - reach), 0), min(math.ceil(centre + reach) + 1, side))
        for centre, side in zip(centre_yx, size_hw, strict=True)
    )
    return first, last


def blob(
    part_hw: Mask,
    *,
    centre_yx: tuple[int, int],
    area_px: int,
    soft: float,
    stretch: float,
    rng: np.random.Generator,
) -> Shape:
    """Return the `area_px` pixels nearest to a place, by a distance with ragged level lines.

    Pixels beside the part are farther, so that it fills a thin part before it leaves it. `soft`
    is the width of its edge as a share of its radius, `stretch` its length over its breadth.
    """
    size = math.sqrt(area_px)
    box = window(part_hw.shape, centre_yx, 2.5 * size + 4)
    y, x = np.mgrid[box].astype(np.float32)
    y, x = y - centre_yx[0], x - centre_yx[1]
    angle, ratio = rng.uniform(0, np.pi), math.sqrt(stretch)
    along, across = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
    distance = np.hypot(along / ratio, across * ratio)
    distance *= np.exp(0.25 * smooth_noise(y.shape, 7, rng))
    distance += 0.8 * size * ~part_hw[box]
    count = min(area_px, distance.size)
    nearest = distance <= np.partition(distance.ravel(), count - 1)[count - 1]
    mask_hw = _largest(nearest)
    return Shape(
        box=box, mask_hw=mask_hw, weight_hw=soft_edge(mask_hw, width=soft * size / math.sqrt(np.pi))
    )


def strokes(
    part_hw: Mask, *, centre_yx: tuple[int, int], area_px: int, rng: np.random.Generator
) -> Shape:
    """Draw one thin curve, or as many nearly parallel ones as the area asks for."""
    pixel = unit(part_hw.shape)
    thickness = max(1, round(rng.uniform(0.8, 1.8) * pixel))
    longest = min(1.2 * area_px / thickness, max(_LONGEST * min(part_hw.shape), 4.0))
    spread = 0.45 * math.sqrt(area_px) if area_px > longest * thickness else 0.0
    box = window(part_hw.shape, centre_yx, 0.6 * longest + 3 * spread + 4 * pixel + 4)
    on_part = cv2.dilate(part_hw[box].astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    heading = rng.uniform(0, 2 * np.pi)
    origin = np.array(centre_yx[::-1]) - (box[1].start, box[0].start)
    weight_hw = np.zeros(on_part.shape, np.float32)
    covered = 0
    for stroke in range(_STROKES):
        length = longest * (rng.uniform(0.3, 1.0) if spread else 1.0)
        path = _curve(heading + rng.normal(0, 0.15), length, rng) + origin
        path += rng.normal(0, min(1 + stroke / 10, 3) * spread, 2)  # wider where the part is thin
        around = _around(path, thickness + 2, on_part.shape)
        line = _line(path, thickness, on_part, around, area_px=area_px - covered)
        before = weight_hw[around].copy()
        weight_hw[around] = np.maximum(before, rng.uniform(0.5, 1.0) * line)
        covered += int(np.count_nonzero(weight_hw[around])) - int(np.count_nonzero(before))
        if covered >= 0.9 * area_px:
            break
    weight_hw[origin[1], origin[0]] = max(weight_hw[origin[1], origin[0]], 0.5)  # never nothing
    # A tool presses harder here and there.
    weight_hw *= 0.8 + 0.2 * np.tanh(smooth_noise(weight_hw.shape, 9, rng))
    return Shape(box=box, mask_hw=weight_hw > 0, weight_hw=weight_hw / max(weight_hw.max(), 1e-6))


def smooth_noise(size_hw: tuple[int, ...], knots: int, rng: np.random.Generator) -> Plane:
    """Return hills and valleys of about unit height, `knots` along the longer side."""
    longer = max(size_hw)
    rows, columns = (max(2, round(knots * side / longer)) for side in size_hw)
    coarse = rng.standard_normal((rows, columns)).astype(np.float32)
    noise = cv2.resize(coarse, (size_hw[1], size_hw[0]), interpolation=cv2.INTER_CUBIC)
    return np.asarray(noise, np.float32)


def soften(pixels: Plane, sigma: float) -> Plane:
    """Blur pixels (H, W) or (H, W, 3), on a smaller copy where the blur is wide."""
    shrink = math.ceil(sigma / _WIDE)
    if shrink == 1:
        return np.asarray(cv2.GaussianBlur(pixels, (0, 0), sigma), np.float32)
    height, width = pixels.shape[:2]
    small = cv2.resize(
        pixels,
        (math.ceil(width / shrink), math.ceil(height / shrink)),
        interpolation=cv2.INTER_AREA,
    )
    blurred = cv2.GaussianBlur(small, (0, 0), sigma / shrink)
    return np.asarray(cv2.resize(blurred, (width, height)), np.float32)


def soft_edge(mask_hw: Mask, *, width: float) -> Plane:
    """Return weights that rise from the edge of a mask inward and reach 1 at `width` pixels."""
    rise = np.clip((depth_of(mask_hw) - 0.5) / max(width, 0.5), 0, 1)
    return np.asarray(np.where(mask_hw, rise * rise * (3 - 2 * rise), 0), np.float32)


def depth_of(mask_hw: Mask) -> Plane:
    """Return each pixel's distance to the outside of a mask; the picture's edge is not outside."""
    depth = cv2.distanceTransform(np.pad(mask_hw, 1, mode="edge").astype(np.uint8), cv2.DIST_L2, 5)
    return np.asarray(depth[1:-1, 1:-1], np.float32)


def _curve(heading: float, length: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return points (N, 2) as x, y around the origin of a line that bends a little."""
    steps = max(int(length / 2), 4)
    headings = heading + rng.uniform(-0.9, 0.9) * np.linspace(-0.5, 0.5, steps)
    headings += np.cumsum(rng.normal(0, 0.03, steps))
    points = np.cumsum(np.stack([np.cos(headings), np.sin(headings)], axis=1), axis=0)
    return np.asarray((points - points[steps // 2]) * length / steps)


def _around(path: NDArray[np.float64], margin: int, size_hw: tuple[int, ...]) -> Box:
    """Return the window of a picture that holds a path (N, 2) of x, y; empty if it is outside."""
    most = np.array(size_hw[::-1])
    left, top = np.clip(np.floor(path.min(axis=0)) - margin, 0, most).astype(int).tolist()
    right, bottom = np.clip(np.ceil(path.max(axis=0)) + margin + 1, 0, most).astype(int).tolist()
    return slice(top, bottom), slice(left, right)


def _line(
    path: NDArray[np.float64], thickness: int, on_part: Mask, box: Box, *, area_px: int
) -> Plane:
    """Return weights in a box of a line, as far along a path as the area on the part allows."""
    allowed = on_part[box]
    if allowed.size == 0:
        return np.zeros(allowed.shape, np.float32)
    corner = box[1].start, box[0].start
    points = np.round((path - corner) * (1 << _SUBPIXEL)).astype(np.int32)

    def draw(count: int) -> Plane:
        canvas = np.zeros(allowed.shape, np.uint8)
        cv2.polylines(canvas, [points[:count]], False, 255, thickness, cv2.LINE_AA, _SUBPIXEL)
        line = canvas.astype(np.float32) / 255
        return np.where(allowed & (line > _FAINT), line, 0)

    whole = draw(len(points))
    if np.count_nonzero(whole) <= 1.1 * area_px:
        return whole
    fits, too_long = 2, len(points)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if np.count_nonzero(draw(middle)) <= 1.1 * area_px:
            fits = middle
        else:
            too_long = middle
    return draw(fits)


def _largest(mask_hw: Mask) -> Mask:
    """Return the largest piece of a mask: splinters are no defects of their own."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask_hw.astype(np.uint8))
    if count <= 2:
        return mask_hw
    return np.asarray(labels == 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA])))
