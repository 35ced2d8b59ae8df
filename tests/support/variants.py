"""A part in two colours, in folders of their names, and a model of both."""

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.config import FitConfig
from edgeseg.data.datasets import open_dataset
from edgeseg.data.synthetic.scene import SceneGenerator
from edgeseg.fitting.fitting import fit
from edgeseg.model.artefact import Artefact
from edgeseg.vision.images import write_image
from tests.support.shares import TINY
from tests.support.small_models import RANDOM

COLOURS = {"blue": (0.7, 0.8, 1.0), "red": (1.0, 0.8, 0.7)}
# Cells that share Gaussians, and a map of its own: all that a head can have.
WITH_MAP = replace(TINY, share=2, map_layers=(1, 2))
_FOLDER = tempfile.TemporaryDirectory(prefix="edgeseg-tests-")


def coloured(
    colour: str, index: int, *, size_hw: tuple[int, int] = TINY.size_hw
) -> NDArray[np.uint8]:
    """A good part (H, W, 3) of one colour; parts of a colour differ, and none is of both."""
    place = index + 100 * sorted(COLOURS).index(colour)
    return (SceneGenerator(size_hw=size_hw).good(place) * COLOURS[colour]).astype(np.uint8)


def write_colours(folder: Path, *, each: int = 7) -> Path:
    """Good parts in blue/ and red/."""
    for colour in COLOURS:
        for index in range(each):
            write_image(folder / colour / f"{index:03}.png", coloured(colour, index))
    return folder


@cache
def colours() -> Path:
    return write_colours(Path(_FOLDER.name) / "colours")


@cache
def two_colours(config: FitConfig = TINY) -> Artefact:
    """A model of both."""
    return fit(open_dataset(colours(), variants=True), config, RANDOM)
