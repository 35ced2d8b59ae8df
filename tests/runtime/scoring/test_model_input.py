"""Region of interest and resizing."""

import numpy as np
import pytest

from edgeseg.base.errors import UsageError
from edgeseg.runtime.scoring.model_input import fit_into
from edgeseg.vision.geometry import Roi
from edgeseg.vision.images import resize_image


@pytest.mark.parametrize("size_hw", [(31, 47), (64, 64), (2160, 3840), (10, 100), (1, 1)])
@pytest.mark.parametrize("swap", [False, True])
def test_resizing_is_that_of_the_fit(size_hw: tuple[int, int], swap: bool) -> None:
    rng = np.random.default_rng(0)
    image = rng.integers(0, 255, (*size_hw, 3), dtype=np.uint8)
    out = np.empty((64, 64, 3), np.uint8)
    fit_into(image, out, swap=swap)
    expected = resize_image(image, (64, 64))
    assert np.array_equal(out, expected[:, :, ::-1] if swap else expected)


def test_a_cropped_view_is_resized_like_its_copy() -> None:
    rng = np.random.default_rng(0)
    image = rng.integers(0, 255, (100, 120, 3), dtype=np.uint8)
    roi = Roi.parse("7,11,80,60")
    crop = roi.crop(image)
    assert crop.shape == (60, 80, 3)
    assert np.shares_memory(crop, image)
    resized, expected = np.empty((32, 48, 3), np.uint8), np.empty((32, 48, 3), np.uint8)
    fit_into(crop, resized, swap=True)
    fit_into(crop.copy(), expected, swap=True)
    assert np.array_equal(resized, expected)


def test_roi_fits_exactly_or_not_at_all() -> None:
    roi = Roi.parse("7,11,80,60")
    assert str(roi) == "7,11,80,60"
    assert roi.fits((71, 87))
    assert not roi.fits((70, 87))
    assert not roi.fits((71, 86))


@pytest.mark.parametrize("text", ["1,2,3", "a,b,c,d", "1,2,3,4,5", "1.5,0,3,3", ""])
def test_a_roi_that_is_not_four_integers(text: str) -> None:
    with pytest.raises(UsageError, match="expected four integers x,y,w,h"):
        Roi.parse(text)


@pytest.mark.parametrize("text", ["-1,0,3,3", "0,0,0,3"])
def test_a_roi_outside_of_any_frame(text: str) -> None:
    with pytest.raises(UsageError, match="expected x,y of 0 or more and w,h of 1 or more"):
        Roi.parse(text)
