"""Defects of the synthetic part, drawn on the part itself so that they move with it."""

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.data.synthetic.part import BORE, HOLE, HOLES, ROOT, Part, Plane

Points = NDArray[np.float64]  # (N, 2): x, y in pixels of the scene

_SUBPIXEL = 4  # fractional bits of the coordinates that OpenCV draws with


@dataclass(frozen=True, kw_only=True)
class _Patch:
    """A shape with smooth edges, kept no larger than itself: most defects are small."""

    box: tuple[slice, slice]
    weight: Plane  # (h, w) of the box, 0 outside the shape, 1 inside


def damage(part: Part, kind: str, rng: np.random.Generator) -> Plane:
    """Return the part's face layer (H, W, 4) with one defect of a kind in DEFECTS."""
    face: Plane = part.face.copy()
    DEFECTS[kind](part, face, rng)
    return face


def _scratch(part: Part, face: Plane, rng: np.random.Generator) -> None:
    """Draw a bright groove with a dark shoulder, thin at both ends."""
    steps = np.linspace(0, 1, 24)
    heading = rng.uniform(0, 2 * np.pi) + rng.uniform(-0.9, 0.9) * steps
    points = _path(heading, rng.uniform(0.35, 0.75) * part.radius) + _place(part, rng, 0.5, 0.8)
    width = rng.uniform(1.1, 1.7) * _unit(part) * np.sqrt(np.sin(np.pi * (steps + 0.02) / 1.04))
    _paint(face, _stroke(part, points + 1.1 * _unit(part), width), (52, 52, 52), 0.65)
    bright = rng.uniform(225, 250)
    _paint(face, _stroke(part, points, width), (bright, bright, bright), 0.9)


def _stain(part: Part, face: Plane, rng: np.random.Generator) -> None:
    """Paint dried oil or rust: irregular, translucent, darker along its rim."""
    size = rng.uniform(0.10, 0.20) * part.radius
    outline = _ragged_outline(_place(part, rng, 0.35, 0.75), size, rng, roughness=0.28, corners=28)
    shape = _polygon(part, outline, margin=size / 2)
    soft = cv2.GaussianBlur(shape.weight, (0, 0), 0.06 * size + 0.6)
    rim = 4 * soft * (1 - soft)
    weight = np.clip(soft * (0.85 + 0.15 * rim) + 0.3 * rim * soft, 0, 1).astype(np.float32)
    colour = [(96, 62, 34), (58, 50, 44), (122, 72, 40)][rng.integers(3)]
    _paint(face, _Patch(box=shape.box, weight=weight), colour, rng.uniform(0.55, 0.75))


def _missing(part: Part, face: Plane, rng: np.random.Generator) -> None:
    """Leave a bolt hole undrilled, or break a piece off the edge."""
    (_fill_hole if rng.random() < 0.5 else _chip)(part, face, rng)


def _fill_hole(part: Part, face: Plane, rng: np.random.Generator) -> None:
    angles = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    centre = part.hole_xy(int(rng.integers(HOLES)))
    hole = _polygon(part, np.array(centre) + (HOLE + 0.04) * part.radius * _unit_xy(angles))
    weight = hole.weight[..., None]
    face[hole.box] = face[hole.box] * (1 - weight) + part.undrilled[hole.box] * weight


def _chip(part: Part, face: Plane, rng: np.random.Generator) -> None:
    reach = rng.uniform(0.91, 0.98) * part.radius
    centre = np.array(part.centre_xy) + reach * _unit_xy(rng.uniform(0, 2 * np.pi))
    outline = _ragged_outline(
        centre, rng.uniform(0.11, 0.18) * part.radius, rng, roughness=0.16, corners=14
    )
    # The break is a slope: seen from above, a band of rough grey between the face and nothing.
    slope = _polygon(part, centre + 1.22 * (outline - centre))
    grain = rng.standard_normal(slope.weight.shape).astype(np.float32)
    grey = rng.uniform(66, 88)
    _paint(face, slope, (grey, grey, grey), 0.95)
    rough = 45 * cv2.GaussianBlur(grain, (0, 0), 0.8) * slope.weight * face[slope.box][..., 3]
    face[slope.box][..., :3] += rough[..., None]
    gone = _polygon(part, outline)
    face[gone.box] *= 1 - gone.weight[..., None]


def _contamination(part: Part, face: Plane, rng: np.random.Generator) -> None:
    """Scatter swarf and dust on the part, or lay down a fibre."""
    (_particles if rng.random() < 0.5 else _fibre)(part, face, rng)


def _particles(part: Part, face: Plane, rng: np.random.Generator) -> None:
    middle = _place(part, rng, 0.45, 0.78)
    for _ in range(int(rng.integers(3, 8))):
        centre = middle + rng.normal(0, 0.10 * part.radius, 2)
        size = rng.uniform(1.8, 4.2) * _unit(part)
        outline = _ragged_outline(centre, size, rng, roughness=0.35, corners=7)
        _paint(face, _polygon(part, outline + 1.3 * _unit(part)), (40, 40, 40), 0.6)
        colour = (235, 232, 222) if rng.random() < 0.35 else (34, 30, 28)
        _paint(face, _polygon(part, outline), colour, 1.0)


def _fibre(part: Part, face: Plane, rng: np.random.Generator) -> None:
    heading = np.cumsum(rng.normal(0, 0.16, 40)) + rng.uniform(0, 2 * np.pi)
    points = _path(heading, rng.uniform(0.5, 0.9) * part.radius) + _place(part, rng, 0.45, 0.75)
    width = np.full(len(points), rng.uniform(1.1, 1.7) * _unit(part))
    _paint(face, _stroke(part, points + 1.5 * _unit(part), width), (45, 45, 45), 0.45)
    colour = [(28, 44, 120), (30, 26, 26), (150, 30, 34)][rng.integers(3)]
    _paint(face, _stroke(part, points, width), colour, 0.95)


DEFECTS: dict[str, Callable[[Part, Plane, np.random.Generator], None]] = {
    "scratch": _scratch,
    "stain": _stain,
    "missing": _missing,
    "contamination": _contamination,
}


def _unit(part: Part) -> float:
    """Return one pixel of a scene of 256x256: thin things keep their share of the picture."""
    return part.radius / 110


def _unit_xy(angle: float | NDArray[np.float64]) -> Points:
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def _place(part: Part, rng: np.random.Generator, nearest: float, farthest: float) -> Points:
    """Return a random point on the face of the part, by its distance from the centre in radii."""
    reach = rng.uniform(max(nearest, BORE), min(farthest, ROOT)) * part.radius
    return np.asarray(part.centre_xy + reach * _unit_xy(rng.uniform(0, 2 * np.pi)))


def _path(heading: NDArray[np.float64], length: float) -> Points:
    """Return a curve around the origin with the given directions of its steps."""
    points = np.cumsum(_unit_xy(heading), axis=0) * length / len(heading)
    return np.asarray(points - points.mean(axis=0))


def _ragged_outline(
    centre: Points, size: float, rng: np.random.Generator, *, roughness: float, corners: int
) -> Points:
    """Return a closed outline that wanders around a circle."""
    angles = np.linspace(0, 2 * np.pi, corners, endpoint=False)
    reach = np.ones(corners)
    for order in (1, 2, 3, 5):
        phase = rng.uniform(0, 2 * np.pi)
        reach += rng.normal(0, roughness / order) * np.cos(order * angles + phase)
    return np.asarray(centre + size * np.clip(reach, 0.35, 1.8)[:, None] * _unit_xy(angles))


def _polygon(part: Part, points: Points, *, margin: float = 0) -> _Patch:
    height, width = part.gloss.shape
    low = np.floor(points.min(axis=0) - margin - 2).astype(int)
    high = np.ceil(points.max(axis=0) + margin + 3).astype(int)
    left, right = np.clip((low[0], high[0]), 0, width)
    top, bottom = np.clip((low[1], high[1]), 0, height)
    pixels = np.zeros((bottom - top, right - left), np.uint8)
    fixed = np.round((points - (left, top)) * 2**_SUBPIXEL).astype(np.int32)
    if pixels.size:
        cv2.fillPoly(pixels, [fixed], 255, cv2.LINE_AA, _SUBPIXEL)
    weight = np.asarray(pixels / 255, dtype=np.float32)
    return _Patch(box=(slice(top, bottom), slice(left, right)), weight=weight)


def _stroke(part: Part, points: Points, width: NDArray[np.float64]) -> _Patch:
    """Fill the outline of a line of varying width, thinner than OpenCV's own lines may be."""
    ahead = np.gradient(points, axis=0)
    across = np.stack([-ahead[:, 1], ahead[:, 0]], axis=1)
    across *= (width / 2)[:, None] / np.linalg.norm(across, axis=1, keepdims=True)
    return _polygon(part, np.concatenate([points + across, (points - across)[::-1]]))


def _paint(face: Plane, patch: _Patch, colour: tuple[float, float, float], strength: float) -> None:
    """Cover the face with a colour where the patch is, and nothing beside the part."""
    weight = strength * patch.weight[..., None]
    under = face[patch.box]
    paint = np.array(colour, np.float32) * under[..., 3:]
    under[..., :3] += weight * (paint - under[..., :3])
