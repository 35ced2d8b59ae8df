"""What changed at a place: planted changes are named, and good parts show none."""

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.vision.good_look import GoodLook, LookSums

SIDE = 128
SPOT = (slice(50, 70), slice(50, 70))


def good(seed: int) -> NDArray[np.uint8]:
    """A textured disc on an even background."""
    rng = np.random.default_rng(seed)
    picture = np.full((SIDE, SIDE, 3), 30, np.float32)
    y, x = np.mgrid[:SIDE, :SIDE]
    disc = (y - 64) ** 2 + (x - 64) ** 2 < 45**2
    stripes = 130 + 25 * np.sin(x / 1.5)[..., None] + rng.normal(0, 3, (SIDE, SIDE, 1))
    picture = np.where(disc[..., None], stripes, picture)
    return np.clip(picture, 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def look() -> GoodLook:
    sums = LookSums()
    for seed in range(12):
        sums.add(good(seed))
    found = sums.look()
    assert found is not None
    return found


def region() -> NDArray[np.bool_]:
    mask = np.zeros((SIDE, SIDE), np.bool_)
    mask[SPOT] = True
    return mask


def changed(change: str | None) -> NDArray[np.uint8]:
    picture = good(99).astype(np.float32)
    if change in ("darker", "lighter"):
        picture[SPOT] += 40 if change == "lighter" else -40
    elif change == "colour":
        picture[SPOT] += (50, -25, -25)
    elif change == "blurred":
        picture[SPOT] = cv2.GaussianBlur(picture, (0, 0), 5)[SPOT]
    elif change == "finer":
        noise = np.random.default_rng(5).normal(0, 60, (20, 20, 1))
        picture[SPOT] = np.clip(picture[SPOT] + noise, 0, 255)
    elif change == "missing":
        picture[SPOT] = 30
    return np.clip(picture, 0, 255).astype(np.uint8)


@pytest.mark.parametrize(
    "change", ["darker", "lighter", "colour", "blurred", "finer", "missing", None]
)
def test_a_change_has_its_name(look: GoodLook, change: str | None):
    assert look.change(changed(change), region()) == change


def test_the_same_after_packing(look: GoodLook):
    again = GoodLook(mean=look.mean, spread=look.spread)
    assert again.change(changed("darker"), region()) == "darker"


def test_no_region_and_a_single_picture_say_nothing(look: GoodLook):
    assert look.change(changed("darker"), np.zeros((SIDE, SIDE), np.bool_)) is None
    sums = LookSums()
    sums.add(good(0))
    assert sums.look() is None
