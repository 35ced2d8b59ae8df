"""A model that knows defects, as a graph: it decides as the model does, in eight bits too."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgeseg
from edgeseg.export.precision.tolerances import TOLERANCES
from edgeseg.fitting.options import FitOptions
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.vision.images import write_image
from tests.support.export_models import COARSE
from tests.support.small_models import SMALL, frames
from tests.support.striped_parts import defective, write_defects

CONFIG = replace(SMALL, folds=4, k=32, rank=20, ridge=0.1, ridge_unit="mean_square")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("known") / "good"
    for number, image in enumerate(frames(24)):
        write_image(folder / f"{number:03}.png", image)
    return folder


@pytest.fixture(scope="module")
def model(good: Path, tmp_path_factory: pytest.TempPathFactory) -> edgeseg.Model:
    known = write_defects(tmp_path_factory.mktemp("defects"), "grey", range(6))
    options = FitOptions(weights="random", batch_size=4, planted=6)
    return edgeseg.fit(good, preset=CONFIG, known=known, options=options)


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-3), ("int8", 0.2)])
def test_a_graph_scores_as_the_model_does(good, model, tmp_path, monkeypatch, precision, tolerance):
    monkeypatch.setitem(TOLERANCES, "int8", COARSE)  # no one has trained this network
    path = tmp_path / "part.onnx"
    calibrate = None if precision == "fp32" else good
    model.export(path, precision=precision, calibrate=calibrate, allow_random_weights=True)
    images = [defective("grey", 50 + number)[0] for number in range(8)]
    images += list(frames(8, first=400))
    wanted = np.array([model.predict(image).score for image in images])
    with edgeseg.runtime.open(path, allow_random_weights=True) as detector:
        found = np.array([detector.predict(image).score for image in images])
    np.testing.assert_allclose(found, wanted, rtol=tolerance)
    assert found[:8].mean() > found[8:].mean()
    (kind,) = file_metadata(path).known
    assert (kind.kind, kind.pictures) == ("grey", 6)
