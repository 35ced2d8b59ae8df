"""A dataset and a model small enough to be made anew in every test run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.config import FitConfig
from edgeseg.data.datasets import open_dataset
from edgeseg.data.synthetic.scene import SceneGenerator, write_dataset
from edgeseg.fitting.fitting import FitOptions, fit
from edgeseg.model.artefact import Artefact

SIZE_HW = (96, 96)
SMALL = FitConfig(
    backbone="mobilenet_v3_small",
    size_hw=SIZE_HW,
    context=1,
    k=16,
    rank=10,
    folds=3,
    false_alarm_rate=0.1,
    ridge=1e-6,
    ridge_unit="absolute",
)
SHOWN = replace(SMALL, map_layers=(1, 2))  # with a map of its own
RANDOM = FitOptions(weights="random", batch_size=4)


def write_plate(
    folder: Path, *, size_hw: tuple[int, int] = SIZE_HW, train: int = 10, seed: int = 0
) -> Path:
    """Ten good images to fit on, three good and one of each defect to test on."""
    write_dataset(folder, size_hw=size_hw, train=train, test_good=3, test_defective=1, seed=seed)
    return folder


def fit_small(data: Path, *, config: FitConfig = SMALL, options: FitOptions = RANDOM) -> Artefact:
    """Fit mobilenet_v3_small with random weights: real code paths, no download."""
    return fit(open_dataset(data), config, replace(options, weights="random"))


def frames(count: int, *, size_hw: tuple[int, int] = SIZE_HW, first: int = 0) -> NDArray[np.uint8]:
    """Good parts (N, H, W, 3), the same for the same arguments."""
    scene = SceneGenerator(size_hw=size_hw)
    return np.stack([scene.good(first + index) for index in range(count)])
