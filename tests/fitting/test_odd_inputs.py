"""One sentence about each thing that is odd among good images."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeseg.data.datasets import open_dataset
from edgeseg.decision.calibration import GoodImageScores
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.odd_inputs import foreign_images, foreign_sentence
from edgeseg.vision.images import read_image, resize_image, write_image
from tests.support.shares import TINY, write_tiny
from tests.support.small_models import RANDOM


def said(folder: Path) -> list[str]:
    lines: list[str] = []
    fit(open_dataset(folder), TINY, replace(RANDOM, planted=0, note=lines.append))
    return lines


@pytest.fixture
def good(tmp_path) -> Path:
    """A folder of good images."""
    return write_tiny(tmp_path / "plate", train=9) / "train/good"


def test_ordinary_images_are_passed_over(good):
    assert said(good) == ["fitting on 9 good images of good"]


def test_sizes_and_shapes(good):
    image = read_image(good / "003.png")
    write_image(good / "003.png", resize_image(image, (128, 128)))
    assert said(good)[1] == (
        "pictures of different sizes are scaled to one: 64x64 (8), 128x128 (1), height x width "
        "(pictures); expected one camera at one distance"
    )
    write_image(good / "003.png", resize_image(image, (64, 80)))
    assert said(good)[1] == (
        "pictures of different shapes are stretched to one: 64x64 (8), 64x80 (1), height x width "
        "(pictures); crop them alike, or fit each kind apart"
    )


def test_copies(good):
    shutil.copy(good / "003.png", good / "100.png")
    assert said(good)[1] == (
        "exact copies among 10 pictures: 1, the first is 100.png of 003.png; they are one part, "
        "and count as one"
    )


def test_a_foreign_part(good):
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    write_image(good / "005.png", noise)
    (sentence,) = (line for line in said(good) if "not look like" in line)
    assert sentence.startswith("1 of 9 images does not look like the others, ")
    assert sentence.endswith(
        " times the usual score: 005.png; look at it; --robust drop leaves such images out"
    )


def scores(*values: float, names: bool = True) -> GoodImageScores:
    array = np.array(values, np.float32)
    map_hw = np.ones((2, 2), np.float32)
    images = tuple(f"good/{place}.png" for place in range(len(values))) if names else ()
    return GoodImageScores(
        scores=array, peaks=array, frame_d2=array, d2_mean=map_hw, d2_std=map_hw, images=images
    )


def test_which_images_are_foreign():
    usual = np.exp(np.random.default_rng(0).normal(0, 0.1, 50)).tolist()
    assert foreign_images(scores(*usual)) == []
    assert foreign_images(scores(*usual, 4.0, 9.0)) == [51, 50]
    assert foreign_images(scores(1, 1, 1, 50)) == [], "too few to tell what is usual"
    assert foreign_sentence(scores(*usual, 9.0, names=False)) is None
    many = foreign_sentence(scores(*usual, *[9.0] * 7))
    assert ": 50.png, 51.png, 52.png, 53.png, 54.png, ...; look at them" in many
