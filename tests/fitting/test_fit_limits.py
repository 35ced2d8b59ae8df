"""The fit at its limits: hardly any images, unreadable ones, requests that cannot be met."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.data.datasets import open_dataset
from edgeseg.fitting.fitting import FitOptions, fit
from edgeseg.model.artefact import Artefact
from tests.support.small_models import RANDOM, SMALL, fit_small, frames, write_plate


def said_by_fit(data: Path, *, max_bad: int = 0) -> tuple[Artefact, list[str]]:
    lines: list[str] = []
    options = replace(RANDOM, note=lines.append, max_bad=max_bad)
    return fit(open_dataset(data), SMALL, options), lines


def test_a_single_image(tmp_path):
    data = write_plate(tmp_path / "plate", train=1)
    artefact, lines = said_by_fit(data)
    assert np.isfinite(artefact.factors.factor).all()
    assert np.isfinite(artefact.calibration.score_threshold)
    assert artefact.calibration.answered_rate == 1.0
    assert artefact.calibration.method == (
        "the fitted image itself (no other was given), 1 good images"
    )
    assert lines[-1] == (
        "1 good images answer for a false-alarm rate of 100.0%, not 10.0%; 9 would do"
    )
    assert torch.isfinite(artefact.model()(torch.from_numpy(frames(1)))[0]).all()


def test_two_images(tmp_path):
    data = write_plate(tmp_path / "plate", train=2)
    for calibration in ("cross", "holdout"):
        artefact = fit_small(data, config=replace(SMALL, calibration=calibration))
        assert np.isfinite(artefact.calibration.score_threshold)


def test_identical_images(tmp_path):
    """Constant pixels everywhere: the ridge alone measures, and nothing is divided by zero."""
    data = write_plate(tmp_path / "plate", train=4)
    first = (data / "train/good/000.png").read_bytes()
    for path in (data / "train/good").iterdir():
        path.write_bytes(first)
    artefact = fit_small(data, config=replace(SMALL, pool=1, share=1))
    assert np.isfinite(artefact.factors.factor).all()
    assert artefact.calibration.expected_d2 < 1e-6
    assert float(artefact.model()(torch.from_numpy(frames(1, first=50)))[1]) > 0


def test_unreadable_images_stop_the_fit_or_are_skipped(tmp_path):
    data = write_plate(tmp_path / "plate")
    (data / "train/good/003.png").write_bytes(b"not a picture")
    with pytest.raises(DatasetError, match=r"003\.png.*max_bad=1$"):
        fit_small(data)
    artefact, lines = said_by_fit(data, max_bad=1)
    assert artefact.moments.images == 9
    assert artefact.data["unreadable"] == ["003.png"]
    assert sum("003.png" in line and line.startswith("skipped ") for line in lines) == 1


def test_no_images_are_an_error(tmp_path):
    data = write_plate(tmp_path / "plate", train=3)
    for path in (data / "train/good").iterdir():
        path.write_bytes(b"")
    with pytest.raises(DatasetError, match="3 of 3 pictures cannot be read: "):
        fit_small(data, options=FitOptions(max_bad=3))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"size_hw": (100, 96)},
            "size 100x96: both sides must be multiples of 16 for mobilenet_v3_small "
            "with stride 8 and share 2; try 96x96",
        ),
        (
            {"size_hw": (96, 72), "share": 3},  # 24 divides both, 16 does not
            "size 96x72: both sides must be multiples of 48 for mobilenet_v3_small "
            "with stride 8 and share 3; try 96x96",
        ),
        (
            {"layers": (1, 4)},
            "layers=(1, 4): mobilenet_v3_small has layers 1 to 3; choose among them",
        ),
        (
            {"backbone": "vgg"},
            "backbone 'vgg' is unknown; expected one of ('resnet18', 'wide_resnet50_2', "
            "'mobilenet_v3_small', 'mobilenet_v3_large', 'efficientnet_lite0', "
            "'efficientnet_lite1', 'efficientnet_lite2')",
        ),
        (
            {"stride": 12, "share": 1},
            "stride=12: must divide or be divided by 8, the stride of features.3; try 4, 8 or 16",
        ),
    ],
)  # fmt: skip
def test_requests_that_cannot_be_met(plate, options, sentence):
    with pytest.raises(UsageError) as caught:
        fit_small(plate, config=replace(SMALL, **options))
    assert str(caught.value) == sentence
