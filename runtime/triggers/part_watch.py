"""Detect a part in view: compare every frame, small and grey, with the empty view.

    frame --crop, 96 pixels wide--> grey --same light as the empty view--> what differs --> share

The empty view is given as a picture, or is the view at the start. While no part is there it follows
slow changes of light.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.vision.geometry import Roi

WIDTH = 96
_DIFFERS = 20.0  # of 255: more than noise and compression, less than a part against its ground
_MOVES = 0.01  # share of the view that changes from frame to frame while something moves
_FOLLOW = 0.05  # of the way to a new empty view in one frame
_GAIN = (0.5, 2.0)  # what an exposure control may do when a bright part comes in


@dataclass(frozen=True, kw_only=True)
class PartView:
    """The comparison of one frame with the empty view."""

    share: float  # of the view that is not as the empty one
    whole: bool  # what differs does not touch the border of the view
    still: bool  # nothing moves since the frame before


class PartWatch:
    """A comparison of one camera's frames with its empty view."""

    def __init__(
        self,
        *,
        area: float,
        roi: Roi | None = None,
        empty_hwc: NDArray[np.uint8] | None = None,
    ) -> None:
        self._area, self._roi = area, roi
        self._empty_hw = None if empty_hwc is None else self._small(empty_hwc)
        self._before_hw: NDArray[np.float32] | None = None

    def look(self, frame_hwc: NDArray[np.uint8]) -> PartView:
        """Compare the next frame."""
        now_hw = self._small(frame_hwc)
        if self._empty_hw is None or self._empty_hw.shape != now_hw.shape:
            self._empty_hw = now_hw
        differs_hw = self._differs(now_hw, self._empty_hw)
        before_hw = now_hw if self._before_hw is None else self._before_hw
        moving_hw = self._differs(now_hw, before_hw)
        self._before_hw = now_hw
        share = float(differs_hw.mean())
        if share < self._area / 2:
            self._empty_hw = self._empty_hw + _FOLLOW * (now_hw - self._empty_hw)
        edges = (differs_hw[0], differs_hw[-1], differs_hw[:, 0], differs_hw[:, -1])
        return PartView(
            share=share,
            whole=not any(bool(edge.any()) for edge in edges),
            still=float(moving_hw.mean()) < _MOVES,
        )

    def _small(self, frame_hwc: NDArray[np.uint8]) -> NDArray[np.float32]:
        height, width = frame_hwc.shape[:2]
        inside = self._roi is not None and self._roi.fits((height, width))
        view_hwc = self._roi.crop(frame_hwc) if self._roi is not None and inside else frame_hwc
        height, width = view_hwc.shape[:2]
        size = (WIDTH, max(8, round(WIDTH * height / width)))
        small_hwc = cv2.resize(view_hwc, size, interpolation=cv2.INTER_AREA)
        grey_hw = cv2.cvtColor(small_hwc, cv2.COLOR_BGR2GRAY)
        return np.asarray(cv2.GaussianBlur(grey_hw, (3, 3), 0), np.float32)

    @staticmethod
    def _differs(now_hw: NDArray[np.float32], empty_hw: NDArray[np.float32]) -> NDArray[np.bool_]:
        # Most of the view is ground: its ratio is what the light or the exposure has changed.
        gain = float(np.clip(np.median((now_hw + 1) / (empty_hw + 1)), *_GAIN))
        differs_hw: NDArray[np.bool_] = np.abs(now_hw - gain * empty_hw) > _DIFFERS
        return differs_hw
