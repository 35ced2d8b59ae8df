"""Meters to set up a camera by: focus, light and motion."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.runtime.drift.appearance import Look, look_at

_SHARP, _SOFT = 0.75, 0.5  # of the best sharpness that this camera has shown
_DARK, _BRIGHT = 0.12, 0.9  # mean of the picture
_CLIPPED = 0.05  # share of pixels at the end of the scale
_MOVING = 1.0  # grey levels between two looks: more than noise makes, see drift/appearance
_MOVES_MOST = 12.0  # the end of the meter


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One meter."""

    value: float  # 0..1
    word: str

    def facts(self) -> dict[str, Any]:
        """Facts of the meter for a page."""
        return {"value": round(self.value, 3), "word": self.word}


class Meters:
    """Follows the frames of one camera; RGB."""

    def __init__(self) -> None:
        self._best: float | None = None  # logarithm of the sharpness
        self._before: Look | None = None
        self._readings: dict[str, Reading] = {}

    def look(self, frame_hwc: NDArray[np.uint8]) -> None:
        """Take the next frame."""
        look = look_at(frame_hwc)
        self._best = look.sharpness if self._best is None else max(self._best, look.sharpness)
        before, self._before = self._before or look, look
        self._readings = {
            "focus": _focus(look.sharpness - self._best),
            "light": _light(look.thumb),
            "motion": _motion(look, before),
        }

    def facts(self) -> dict[str, Any]:
        """Facts of all meters by name; empty before the first frame."""
        return {name: reading.facts() for name, reading in self._readings.items()}


def _focus(below_best: float) -> Reading:
    """Compare with the sharpest frame so far: no camera has an absolute scale."""
    value = math.exp(min(0.0, below_best))
    return Reading(
        value=value,
        word="sharp" if value >= _SHARP else "soft" if value >= _SOFT else "blurred",
    )


def _light(thumb: NDArray[np.uint8]) -> Reading:
    value = float(thumb.mean()) / 255
    if value < _DARK:
        word = "too dark"
    elif value > _BRIGHT or float(np.mean(thumb >= 254)) > _CLIPPED:
        word = "too bright"
    else:
        word = "good"
    return Reading(value=value, word=word)


def _motion(look: Look, before: Look) -> Reading:
    change = float(np.abs(look.thumb.astype(np.int16) - before.thumb).mean())
    return Reading(
        value=min(1.0, change / _MOVES_MOST), word="moving" if change > _MOVING else "still"
    )
