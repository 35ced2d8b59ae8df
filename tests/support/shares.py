"""Parts of one data set, and how far two models are apart."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgeseg.model.artefact import Artefact
from edgeseg.model.moments import Moments
from tests.support.small_models import SMALL, write_plate

TINY = replace(SMALL, size_hw=(64, 64))
# TINY as people type it.
FIT_TINY = [
    "--backbone", "mobilenet_v3_small", "--weights", "random", "--size", "64", "-k", "16",
    "--rank", "10", "--folds", "3", "--false-alarm-rate", "0.1", "--ridge", "1e-6",
    "--ridge-unit", "absolute",
    "--batch-size", "2",
]  # fmt: skip


def write_tiny(folder: Path, *, train: int = 13, seed: int = 0) -> Path:
    """A data set of 64x64."""
    return write_plate(folder, size_hw=TINY.size_hw, train=train, seed=seed)


def part(data: Path, target: Path, places: range) -> Path:
    """A folder with some of the good images of a data set, their dates kept."""
    target.mkdir(parents=True)
    images = sorted((data / "train/good").iterdir())
    for place in places:
        shutil.copy2(images[place], target / images[place].name)
    return target


def assert_same_moments(
    found: Moments | None, expected: Moments | None, *, tolerance: float = 1e-10
) -> None:
    """Equal, relative to the largest value of each kind."""
    assert found is not None
    assert expected is not None
    for name in ("count", "mean", "scatter"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        scale = float(np.abs(theirs).max())
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * scale, err_msg=name)


def assert_same_model(
    found: Artefact, expected: Artefact, *, calibration: bool = True, tolerance: float = 1e-10
) -> None:
    """The same moments to float64's rounding, everything after them to float32's."""
    assert_same_moments(found.moments, expected.moments, tolerance=tolerance)
    scale = float(np.abs(expected.factors.factor).max())
    products = [
        factor @ factor.swapaxes(1, 2) for factor in (found.factors.factor, expected.factors.factor)
    ]
    np.testing.assert_allclose(*products, rtol=0, atol=1e-4 * scale**2)
    ours, theirs = found.factors.shown, expected.factors.shown
    if ours is not None and theirs is not None:
        np.testing.assert_allclose(ours.weight, theirs.weight, rtol=1e-3, atol=1e-6)
        products = [factor @ factor.swapaxes(1, 2) for factor in (ours.factor, theirs.factor)]
        np.testing.assert_allclose(*products, rtol=0, atol=1e-4 * float(products[1].max()))
    assert (ours is None) == (theirs is None)
    assert np.isclose(found.calibration.expected_d2, expected.calibration.expected_d2, rtol=1e-6)
    if not calibration:
        return
    (data, highest), (expected_data, expected_highest) = map(_apart, (found, expected))
    assert data == expected_data
    np.testing.assert_allclose(highest, expected_highest, rtol=1e-4, err_msg="highest scores")
    assert found.history == expected.history
    for name in ("scores", "peaks", "frame_d2", "d2_mean", "d2_std"):
        both = (getattr(one.calibration.good, name) for one in (found, expected))
        np.testing.assert_allclose(*both, rtol=1e-4, atol=1e-5, err_msg=name)
    assert np.isclose(
        found.calibration.score_threshold, expected.calibration.score_threshold, rtol=1e-5
    )
    assert found.calibration.method == expected.calibration.method


def _apart(model: Artefact) -> tuple[dict[str, Any], list[float]]:
    """What is known of the images, and the highest scores, which may differ by rounding."""
    names = [row["image"] for row in model.data["highest"]]
    scores = [row["score"] for row in model.data["highest"]]
    return {**model.data, "highest": names}, scores
