"""Find the part in a good image: what differs from the border of the good images.

    colour and contrast of the border --> how unlike it each place is --> the part, halo peeled off

A texture that fills the picture differs nowhere, and is the part everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.data.planted.shapes import Mask, Plane, depth_of
from edgeseg.vision.images import resize_image, resize_mask

_SIDE = 256  # pixels of the longer side that parts are looked for at
_BORDER = 0.04  # of the shorter side: the frame around the picture that shows no part
_KEPT = 0.8  # of the border's pixels: a handle may cross it
_UNLIKE = 2.0  # times the distance that holds those: not background any more
_HALO = 1 / 16  # of the longer side: smoothing and shadows reach so far beyond the part
_LEAST, _MOST = 0.01, 0.9  # shares of the picture between which a part can be told from the rest
_CRUMB = 0.03  # of the largest piece: a smaller one is dust, or a hole of the table
_FLAT = 2.0  # grey levels squared: a painted background has no variance of its own


@dataclass(frozen=True, kw_only=True)
class _Cloud:
    """A Gaussian of most of the values of the border."""

    mean: Plane  # (C,)
    whitening: Plane  # (C, C): after it, all directions vary alike
    reach: float  # the distance within which `_KEPT` of them lie

    @classmethod
    def of(cls, values_nc: Plane) -> "_Cloud":
        kept_nc, channels = values_nc, values_nc.shape[1]
        for _ in range(4):  # what lies far outside leaves, and the rest settles
            mean = kept_nc.mean(axis=0, dtype=np.float64)
            offset = kept_nc - mean
            covariance = offset.T @ offset / len(kept_nc) + _FLAT * np.eye(channels)
            whitening = np.linalg.cholesky(np.linalg.inv(covariance))
            distance_n = _distance(values_nc, mean, whitening)
            reach = float(np.quantile(distance_n, _KEPT))
            kept_nc = values_nc[distance_n <= reach]
        return cls(
            mean=mean.astype(np.float32), whitening=whitening.astype(np.float32), reach=reach
        )

    def distance(self, values: Plane) -> Plane:
        """Return the Mahalanobis distance of values (..., C)."""
        return _distance(values, self.mean, self.whitening)


@dataclass(frozen=True, kw_only=True)
class Background:
    """The look of the border of the good images: of pixels, and of their neighbourhoods."""

    near: _Cloud  # colour of a pixel
    far: _Cloud  # colour and contrast of its neighbourhood

    @classmethod
    def of(cls, images: Sequence[NDArray[np.uint8]]) -> "Background":
        """Learn the border of a few good images, whose sizes may differ."""
        near, far = [], []
        for image_hwc in images:
            colour, neighbourhood = _looks(_small(image_hwc))
            border_hw = _border(colour.shape[:2])
            near.append(colour[border_hw])
            far.append(neighbourhood[border_hw])
        return cls(near=_Cloud.of(np.concatenate(near)), far=_Cloud.of(np.concatenate(far)))

    def part(self, image_hwc: NDArray[np.uint8]) -> Mask:
        """Return the pixels (H, W) of a good image that show the part; all, if none stand out."""
        size_hw = image_hwc.shape[:2]
        colour, neighbourhood = _looks(_small(image_hwc))
        unlike_hw = self.far.distance(neighbourhood) > _UNLIKE * self.far.reach
        part_hw = _smooth(self._peel(unlike_hw, self.near.distance(colour)))
        if not _LEAST <= part_hw.mean() <= _MOST:
            return np.ones(size_hw, np.bool_)
        return resize_mask(part_hw, (size_hw[0], size_hw[1]))

    def _peel(self, unlike_hw: Mask, distance_hw: Plane) -> Mask:
        """Remove the rim of background that a neighbourhood reaches into."""
        solid_hw = np.zeros(unlike_hw.shape, np.uint8)
        outlines, _ = cv2.findContours(
            unlike_hw.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE
        )
        cv2.drawContours(solid_hw, outlines, -1, 1, cv2.FILLED)
        rim_hw = unlike_hw & (depth_of(solid_hw > 0) <= _HALO * max(unlike_hw.shape))
        if not rim_hw.any():
            return unlike_hw
        # Part and halo are two heaps of distances; the split between them is this picture's own.
        bound = max(_UNLIKE * self.near.reach, _split(distance_hw[rim_hw]))
        return np.asarray(unlike_hw & ~(rim_hw & (distance_hw <= bound)), np.bool_)


def _distance(values: Plane, mean: NDArray[Any], whitening: NDArray[Any]) -> Plane:
    return np.asarray(np.linalg.norm((values - mean) @ whitening, axis=-1), np.float32)


def _small(image_hwc: NDArray[np.uint8]) -> NDArray[np.uint8]:
    height, width = image_hwc.shape[:2]
    scale = min(_SIDE / max(height, width), 1.0)
    return resize_image(image_hwc, (max(round(height * scale), 1), max(round(width * scale), 1)))


def _looks(image_hwc: NDArray[np.uint8]) -> tuple[Plane, Plane]:
    """Return colour (H, W, 3) of pixels, and colour and contrast (H, W, 4) of neighbourhoods."""
    lab = cv2.cvtColor(image_hwc, cv2.COLOR_RGB2LAB).astype(np.float32)
    sigma = min(image_hwc.shape[:2]) / 64
    mean = cv2.GaussianBlur(lab, (0, 0), sigma)
    variance = cv2.GaussianBlur((lab[..., 0] - mean[..., 0]) ** 2, (0, 0), sigma)
    colour = cv2.GaussianBlur(lab, (0, 0), 0.8)
    return np.asarray(colour, np.float32), np.dstack([mean, np.sqrt(np.maximum(variance, 0))])


def _border(size_hw: tuple[int, ...]) -> Mask:
    thickness = max(1, round(_BORDER * min(size_hw)))
    border_hw = np.ones(size_hw, np.bool_)
    border_hw[thickness:-thickness, thickness:-thickness] = False
    return border_hw


def _smooth(part_hw: Mask) -> Mask:
    """Close small gaps and remove crumbs."""
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5))
    closed = cv2.morphologyEx(part_hw.astype(np.uint8), cv2.MORPH_CLOSE, kernel)
    opened = cv2.morphologyEx(closed, cv2.MORPH_OPEN, kernel)
    _, labels, stats, _ = cv2.connectedComponentsWithStats(opened)
    areas = stats[:, cv2.CC_STAT_AREA]
    areas[0] = 0  # the background
    return np.asarray((areas > _CRUMB * areas.max())[labels])


def _split(values_n: Plane) -> float:
    """Return Otsu's threshold; the farthest twentieth is left out, which would stretch its bins."""
    clipped_n = np.minimum(values_n, np.quantile(values_n, 0.95))
    counts, edges = np.histogram(clipped_n, 128)
    centres = (edges[1:] + edges[:-1]) / 2
    below = np.cumsum(counts) / counts.sum()
    mass = np.cumsum(counts * centres) / counts.sum()
    between = (mass[-1] * below - mass) ** 2 / np.maximum(below * (1 - below), 1e-9)
    return float(centres[np.argmax(between)])
