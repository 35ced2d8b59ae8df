"""Ground truth of one image: the anomalous pixels, and the size of the region of each."""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError


@dataclass(frozen=True, kw_only=True)
class TrueRegions:
    """The anomalous pixels of one mask, split into 8-connected regions."""

    count: int
    mask_hw: NDArray[np.bool_]
    sizes_p: NDArray[np.uint32]  # (P,): per anomalous pixel in row order, the size of its region


def true_regions(mask_hw: NDArray[Any], *, name: str) -> TrueRegions:
    """Split a mask into regions that touch by an edge or a corner, as MVTec AD counts them."""
    inside_hw = as_mask(mask_hw, name=name)
    if not inside_hw.any():
        return TrueRegions(count=0, mask_hw=inside_hw, sizes_p=np.empty(0, np.uint32))
    labels, labels_hw, stats_lk, _ = cv2.connectedComponentsWithStats(
        inside_hw.view(np.uint8), connectivity=8, ltype=cv2.CV_32S
    )
    area_l = stats_lk[:, cv2.CC_STAT_AREA].astype(np.uint32)  # label 0 is the background
    return TrueRegions(count=labels - 1, mask_hw=inside_hw, sizes_p=area_l[labels_hw[inside_hw]])


def as_mask(mask_hw: NDArray[Any], *, name: str) -> NDArray[np.bool_]:
    """Take a boolean mask, or a uint8 picture of nothing but 0 and 255."""
    mask_hw = np.asarray(mask_hw)
    if mask_hw.ndim != 2 or mask_hw.size == 0:
        raise DatasetError(
            f"{name}: mask of shape {mask_hw.shape}, expected height x width; "
            "read masks as one grey channel"
        )
    if mask_hw.dtype == np.bool_:
        return np.ascontiguousarray(mask_hw)
    if mask_hw.dtype != np.uint8:
        raise DatasetError(
            f"{name}: mask of type {mask_hw.dtype}, expected bool or uint8 with 0 and 255; "
            "pass mask > 127"
        )
    inside_hw: NDArray[np.bool_] = np.ascontiguousarray(mask_hw == 255)
    # A mask that was resized smoothly has grey edges. Any rule for them changes the regions, so
    # whoever resized it has to choose one.
    grey_hw = (mask_hw != 0) & ~inside_hw
    if grey_hw.any():
        raise DatasetError(
            f"{name}: mask with {np.count_nonzero(grey_hw)} pixels other than 0 and 255 "
            f"(first: {mask_hw[grey_hw][0]}), expected none; "
            "resize masks with nearest neighbours, or pass mask > 127"
        )
    return inside_hw
