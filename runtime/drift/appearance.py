"""Measure brightness and sharpness of a frame, cheaply enough to do it while scoring."""

import math
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

# Whole rows at native resolution keep the finest detail, which is what defocus takes first, and
# cost the same at any size; shrinking a 4K frame would cost milliseconds.
_PIXELS = 8_192
_THUMB = 16
_PARTS = 4
_MIDDLE, _QUARTER = _PARTS * _PARTS // 2, _PARTS * _PARTS // 4
# Grey levels, mean over the thumbnail. Two good parts of MVTec AD bottle, cable, grid and screw
# differ by 2.7 or more, by 1.3 at half the light; noise of 5 grey levels makes less than 0.8.
SAME = 1.0
_COARSE = 4  # pixels: detail of this size survives a defocus that removes single pixels
_FLOOR = 0.1  # grey levels: keeps the ratio finite on a blank frame


@dataclass(frozen=True, kw_only=True)
class Look:
    """A small picture and two figures. Both are logarithms, so that a gain is a difference."""

    thumb: NDArray[np.uint8]  # (16, 16) grey
    brightness: NDArray[np.float64]  # (16,): log of the mean grey level of 4 x 4 parts
    sharpness: float  # log of fine over coarse detail: a gain of the light cancels


def look_at(frame_hwc: NDArray[np.uint8]) -> Look:
    """Measure evenly spaced rows of an RGB frame."""
    height, width = frame_hwc.shape[:2]
    step = max(1, height // max(_PARTS, _PIXELS // width))
    rows = np.ascontiguousarray(frame_hwc[step // 2 :: step])
    grey = cv2.cvtColor(rows, cv2.COLOR_RGB2GRAY).astype(np.uint8, copy=False)  # (rows, W)
    thumb = _shrunk(grey, _THUMB)
    brightness = np.log(_shrunk(thumb, _PARTS).ravel() + 1.0)
    sharpness = 0.0
    if width > 2 * _COARSE:
        levels = grey.astype(np.int16)
        sharpness = float(np.log(_detail(levels, 1) / _detail(levels, _COARSE)))
    return Look(thumb=thumb, brightness=brightness, sharpness=sharpness)


def same_view(look: Look, other: Look) -> bool:
    """Whether two looks show the same part at rest, apart from noise."""
    return cv2.norm(look.thumb, other.thumb, cv2.NORM_L1) < SAME * look.thumb.size


def _shrunk(grey: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    shrunk = cv2.resize(grey, (side, side), interpolation=cv2.INTER_AREA)
    return shrunk.astype(np.uint8, copy=False)


def _detail(grey: NDArray[np.int16], step: int) -> float:
    """Return the mean size of the second difference along a row, at a distance of `step` pixels."""
    second = 2 * grey[:, step:-step] - grey[:, : -2 * step] - grey[:, 2 * step :]
    return float(cv2.norm(second, cv2.NORM_L1)) / second.size + _FLOOR


class LookWatch:
    """A comparison of how frames look with how they looked at first, on good parts."""

    # Chosen on MVTec AD bottle and cable: 5 % of light is .05 in brightness, a blur of half a
    # pixel -.2 and of one pixel -.6 in sharpness. These name the cause of a rise in distances.
    LIGHT, FOCUS, AGREED = 0.04, 0.15, 0.01
    # And these are a reason to warn by themselves, if they also are this many deviations of single
    # good frames away: parts that differ from each other must not be taken for a change of light.
    LIGHT_ALONE, FOCUS_ALONE, SPREADS = 0.15, 0.30, 4.0

    def __init__(self, *, reference: int, recent: int) -> None:
        self._wanted = reference
        self._alpha = 1.0 / recent
        self._count = 0
        self._mean = np.zeros(_PARTS * _PARTS + 1)  # brightness of each part, then sharpness
        self._squares = np.zeros(2)  # sum of the squared changes of brightness and sharpness
        self._recent: NDArray[np.float64] | None = None
        self._change = (0.0, 0.0)  # of brightness and sharpness since the reference, logarithms

    def update(self, look: Look, *, good: bool, weight: float) -> None:
        """Take one look; give it less weight if it shows the same view as before.

        Good looks form the reference until it is complete, whatever their weight: a scene at rest
        needs a reference too.
        """
        values = np.append(look.brightness, look.sharpness)
        if good and self._count < self._wanted:
            if self._count:
                before = values - self._mean
                self._squares += np.square((np.sort(before[:-1])[_MIDDLE], before[-1]))
            self._count += 1
            self._mean += (values - self._mean) / self._count
        start = values if self._recent is None else self._recent
        self._recent = start + weight * self._alpha * (values - start)
        self._change = self._summary(self._recent - self._mean)

    @property
    def ready(self) -> bool:
        """Whether enough good frames were seen to compare with."""
        return self._count >= self._wanted

    def change(self) -> tuple[float, float]:
        """Return brightness and sharpness as factors of the reference."""
        brightness, sharpness = self._change
        return math.exp(brightness), math.exp(sharpness)

    def kind(self, *, moved: float = 0.0) -> Literal["light", "focus", "position", "unknown"]:
        """Return what has most likely changed: light, focus or position.

        `moved` is the movement in units of its limit.
        """
        if not self.ready:
            return "unknown"
        brightness, sharpness = self._change
        # Each in units of its own limit: a large change of light also disturbs sharpness a
        # little (clipping), and the larger excess is the cause.
        light, focus = abs(brightness) / self.LIGHT, -sharpness / self.FOCUS
        if max(light, focus) <= max(1.0, moved):
            return "position"
        return "light" if light > focus else "focus"

    def pressure(self) -> float:
        """Return how near the looks are to a warning; 1 is the limit."""
        if not self.ready:
            return 0.0
        brightness, sharpness = self._change
        light, focus = (self.SPREADS * np.sqrt(self._squares / self._count)).tolist()
        lit = abs(brightness) / max(self.LIGHT_ALONE, float(light))
        return max(lit, -sharpness / max(self.FOCUS_ALONE, float(focus)))

    def _summary(self, change: NDArray[np.float64]) -> tuple[float, float]:
        """Return the brightness of the median patch, and the sharpness.

        Brightness counts if three quarters of the patches agree: when something moves, some patches
        become brighter, some darker, and some stay.
        """
        parts = np.sort(change[:-1])
        agreed = parts[_QUARTER] > self.AGREED or parts[-_QUARTER - 1] < -self.AGREED
        return float(parts[_MIDDLE]) if agreed else 0.0, float(change[-1])
