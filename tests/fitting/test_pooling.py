"""How far neighbours are merged is chosen from good images alone, and stored as a number."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgeseg.base.errors import UsageError
from edgeseg.config import AUTO, FitConfig
from edgeseg.data.datasets import open_dataset
from edgeseg.fitting.fitting import fit
from edgeseg.vision.images import write_image
from tests.support.commands import succeed
from tests.support.small_models import RANDOM, SMALL

# Features of random weights are small, so that a usual ridge would hide how parts differ.
CHOOSING = replace(SMALL, pool=AUTO, share=1, ridge=1e-4, ridge_unit="mean_square")


def write_parts(folder: Path, *, shift: int, count: int = 24) -> Path:
    """The same part with a little noise, moved by up to so many pixels."""
    rng = np.random.default_rng(0)
    part = cv2.resize(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8), (128, 128))
    for number in range(count):
        y, x = rng.integers(-shift, shift + 1, 2) + 16
        noise = rng.normal(0, 2, (96, 96, 3))
        picture = np.clip(part[y : y + 96, x : x + 96] + noise, 0, 255)
        write_image(folder / f"{number:03}.png", picture.astype(np.uint8))
    return folder


@pytest.mark.parametrize(("shift", "pool", "word"), [(0, 3, "lie alike"), (12, 5, "jitter")])
def test_three_where_parts_lie_alike_and_five_where_they_jitter(
    tmp_path: Path, shift: int, pool: int, word: str
) -> None:
    said: list[str] = []
    data = open_dataset(write_parts(tmp_path / "good", shift=shift))
    artefact = fit(data, CHOOSING, replace(RANDOM, note=said.append, planted=0))
    assert artefact.config.pool == pool
    assert any(line.startswith(f"pool auto: {pool}; parts {word}: ") for line in said)
    given = fit(data, replace(CHOOSING, pool=pool), replace(RANDOM, planted=0))
    assert given.config == artefact.config
    assert given.calibration.score_threshold == artefact.calibration.score_threshold


def test_few_images_leave_it_at_three(tmp_path: Path) -> None:
    said: list[str] = []
    data = open_dataset(write_parts(tmp_path / "good", shift=0, count=4))
    artefact = fit(data, CHOOSING, replace(RANDOM, note=said.append, planted=0))
    assert artefact.config.pool == 3
    assert "pool auto: 3; 4 images are too few to tell" in said


def test_the_command_takes_a_number_or_auto() -> None:
    assert "--pool N|AUTO" in succeed("fit", "--help").output.replace("auto", "AUTO")
    with pytest.raises(UsageError, match="pool=2: expected an odd number, to have a centre"):
        FitConfig(pool=2)
