"""The part that the synthetic camera sees: a toothed flange, drawn once and then only moved.

All lengths are fractions of the outer radius. Everything is drawn at twice the size and averaged
down, so every edge is smooth before the part is shifted and turned.
"""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.float32]

TEETH = 22
ROOT = 0.86  # where the teeth begin
HOLES = 6
HOLE_CIRCLE = 0.64
HOLE = 0.085
HUB = (0.27, 0.43)
BORE = 0.19
MARK = "ES-A7"

_SUPERSAMPLING = 2
_LIGHT = np.deg2rad(-125)  # the lamp stands at the upper left


@dataclass(frozen=True, kw_only=True)
class Part:
    """Layers of the part in its rest pose, at the size of the scene."""

    centre_xy: tuple[float, float]
    radius: float  # pixels
    face: Plane  # (H, W, 4): RGB times alpha, alpha
    undrilled: Plane  # the same before the bolt holes were drilled
    gloss: Plane  # (H, W): how much of the lamp's streak the metal returns

    def hole_xy(self, hole: int) -> tuple[float, float]:
        """Return the centre of a bolt hole in the rest pose."""
        angle = 2 * np.pi * hole / HOLES
        return (
            self.centre_xy[0] + HOLE_CIRCLE * self.radius * float(np.cos(angle)),
            self.centre_xy[1] + HOLE_CIRCLE * self.radius * float(np.sin(angle)),
        )


@dataclass(frozen=True, kw_only=True)
class _Polar:
    x: Plane  # (H, W), radii from the centre
    y: Plane
    r: Plane
    angle: Plane
    pixel: float  # the size of one pixel, in radii


def make_part(size_hw: tuple[int, int], rng: np.random.Generator) -> Part:
    """Draw the part in the middle of a scene."""
    height, width = size_hw
    radius = 0.43 * min(height, width)
    polar = _polar(size_hw, radius)
    solid, gloss = _lathed_face(polar, rng)
    drilled, cut = _drill(solid, polar)
    body = _body(polar)
    return Part(
        centre_xy=((width - 1) / 2, (height - 1) / 2),
        radius=radius,
        face=_down(_tint(drilled, body * (1 - cut)), size_hw),
        undrilled=_down(_tint(solid, body), size_hw),
        gloss=_down(gloss, size_hw),
    )


def _polar(size_hw: tuple[int, int], radius: float) -> _Polar:
    height, width = size_hw
    scale = _SUPERSAMPLING
    x = ((np.arange(width * scale) + 0.5) / scale - width / 2) / radius
    y = ((np.arange(height * scale) + 0.5) / scale - height / 2) / radius
    grid_x, grid_y = np.meshgrid(x.astype(np.float32), y.astype(np.float32))
    return _Polar(
        x=grid_x,
        y=grid_y,
        r=np.hypot(grid_x, grid_y),
        angle=np.arctan2(grid_y, grid_x),
        pixel=1 / (radius * scale),
    )


def _body(polar: _Polar) -> Plane:
    """Draw the outline with its teeth, less the bore and its keyway."""
    keyway = (
        _inside(0.045 - np.abs(polar.x), polar)
        * _inside(-polar.y, polar)
        * _inside(polar.y + BORE + 0.055, polar)
    )
    bore = np.maximum(_inside(BORE - polar.r, polar), keyway)
    outline = _inside(_tooth_edge(polar.angle) - polar.r, polar)
    return np.asarray(outline * (1 - bore), dtype=np.float32)


def _inside(distance: NDArray[np.floating[Any]], polar: _Polar) -> Plane:
    """Return 1 where a signed distance is positive, with an edge one pixel wide."""
    return np.asarray(np.clip(distance / polar.pixel + 0.5, 0, 1), dtype=np.float32)


def _tooth_edge(angle: Plane) -> Plane:
    flank = np.clip(1.7 * np.cos(TEETH * angle), -1, 1)
    return np.asarray((1 + ROOT) / 2 + (1 - ROOT) / 2 * flank, dtype=np.float32)


def _bevel(distance: Plane, width: float, polar: _Polar) -> Plane:
    """Shade a slope along an edge: bright where it faces the lamp, dark where it faces away."""
    band = np.exp(-((distance / width) ** 2))
    return np.asarray(band * np.cos(polar.angle - _LIGHT), dtype=np.float32)


def _lathed_face(polar: _Polar, rng: np.random.Generator) -> tuple[Plane, Plane]:
    """Return grey levels of the lathed surface before drilling, and its gloss."""
    rings = rng.standard_normal(700).astype(np.float32)
    coarse = np.convolve(rings, np.ones(9) / 3, mode="same")
    place = np.clip(polar.r * 600, 0, 699).astype(np.int32)
    # Tool marks run around the axis and are never quite the same all the way round.
    wobble = cv2.GaussianBlur(rng.standard_normal(polar.r.shape).astype(np.float32), (0, 0), 6) * 12
    lathe = 2.2 * rings[place] + 3.0 * coarse[place]
    grey: Plane = np.asarray(140 + lathe * (1 + 0.25 * wobble) + 3 * wobble, dtype=np.float32)
    hub = _inside(polar.r - HUB[0], polar) * _inside(HUB[1] - polar.r, polar)
    grey += 16 * hub
    grey += 42 * _bevel(polar.r - HUB[1], 0.014, polar)
    grey -= 30 * _bevel(polar.r - HUB[0], 0.011, polar)
    grey -= 38 * _bevel(polar.r - BORE - 0.012, 0.014, polar)
    grey += 34 * _bevel(polar.r - _tooth_edge(polar.angle) + 0.012, 0.016, polar)
    groove = polar.r - ROOT + 0.055
    grey -= 34 * np.exp(-((groove / 0.010) ** 2))
    grey += 14 * np.exp(-(((groove - 0.020) / 0.009) ** 2))
    engraving = _engraving(polar)
    grey -= 62 * engraving
    grey += 22 * np.roll(engraving, (2, 2), (0, 1)) * (1 - engraving)
    gloss = (1 + 0.10 * rings[place] + 0.14 * coarse[place]) * (1 - 0.8 * engraving)
    return grey.astype(np.float32), gloss.astype(np.float32)


def _engraving(polar: _Polar) -> Plane:
    """Draw the mark, bent along the circle of the bolt holes."""
    text = np.zeros((80, 300), np.uint8)
    cv2.putText(text, MARK, (18, 62), cv2.FONT_HERSHEY_DUPLEX, 2.2, 255, 5, cv2.LINE_AA)
    along = (polar.angle + np.pi / 2) / 0.66 * 300 + 150
    across = (HOLE_CIRCLE + 0.085 - polar.r) / 0.17 * 80
    bent = cv2.remap(text, along.astype(np.float32), across.astype(np.float32), cv2.INTER_LINEAR)
    return cv2.GaussianBlur(bent.astype(np.float32) / 255, (0, 0), 0.7).astype(np.float32)


def _drill(solid: Plane, polar: _Polar) -> tuple[Plane, Plane]:
    """Add the countersinks of the bolt holes, and return where the holes go through."""
    grey, cut = solid.copy(), np.zeros_like(solid)
    for angle in 2 * np.pi * np.arange(HOLES) / HOLES:
        dx, dy = polar.x - HOLE_CIRCLE * np.cos(angle), polar.y - HOLE_CIRCLE * np.sin(angle)
        distance = np.hypot(dx, dy).astype(np.float32)
        facing = np.cos(np.arctan2(dy, dx) - _LIGHT)
        sink = _inside(HOLE + 0.028 - distance, polar)
        grey += sink * (118 - 52 * facing - grey)
        cut = np.maximum(cut, _inside(HOLE - distance, polar))
    return grey.astype(np.float32), cut.astype(np.float32)


def _tint(grey: Plane, alpha: Plane) -> Plane:
    steel = np.array([0.985, 1.0, 1.025], np.float32)  # RGB
    return np.dstack([(grey * alpha)[..., None] * steel, alpha]).astype(np.float32)


def _down(layer: Plane, size_hw: tuple[int, int]) -> Plane:
    small = cv2.resize(layer, size_hw[::-1], interpolation=cv2.INTER_AREA)
    return np.asarray(small, dtype=np.float32)
