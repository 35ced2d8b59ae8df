"""Exported models in programs: the same verdicts as the fitted model's, without torch."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

import edgeseg.runtime
from edgeseg.api import Model, load
from edgeseg.base.errors import ExportError, UsageError
from edgeseg.decision.judgement import JudgedPrediction, judge
from edgeseg.decision.prediction import Prediction
from edgeseg.export.calibration_frames import calibration_frames
from edgeseg.modelfile.metadata import TileLayout
from edgeseg.runtime.backends.base import Session
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.runtime.backends.onnxruntime_session import OrtSession
from edgeseg.vision.geometry import View
from edgeseg.vision.images import images_in, read_image
from tests.support import HANGS_S
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.commands import succeed
from tests.support.small_models import frames
from tests.support.thresholds import made_up_thresholds


@pytest.fixture(scope="module")
def model(small_artefact_path: Path) -> Model:
    return load(small_artefact_path)


@pytest.fixture(scope="module")
def exported(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "part.onnx"
    assert model.export(path, allow_random_weights=True) == path
    return path


def test_the_device_says_what_the_model_says(model, exported):
    (frame,) = frames(1)
    large = cv2.resize(frame, (300, 200))
    with edgeseg.runtime.open(exported, allow_random_weights=True, threads=1) as detector:
        for picture in (frame, large):
            here, there = model.predict(picture), detector.predict(picture)
            assert type(here) is type(there) is JudgedPrediction
            assert there.score == pytest.approx(here.score, rel=1e-3)
            assert (there.threshold, there.verdict) == (here.threshold, here.verdict)
            assert there.p_value == here.p_value is not None
            assert there.anomalous == here.anomalous
            np.testing.assert_allclose(there.map_hw, here.map_hw, rtol=1e-2, atol=1e-3)
            assert len(there.regions) == len(here.regions)
        swapped = detector.predict(large[:, :, ::-1], channels="bgr")
        assert swapped.score == pytest.approx(there.score, rel=1e-5)
        assert repr(detector) == "<edgeseg detector of plate: ONNX Runtime CPU, 1 thread>"


def test_calibrating_here_finds_the_scores_of_the_model(model, exported, plate, tmp_path):
    part = Path(shutil.copy(exported, tmp_path / "part.onnx"))
    shutil.copy(exported.with_suffix(".json"), tmp_path / "part.json")
    good = images_in(plate / "test" / "good")
    here = ("--backend", "cpu", "--allow-random-weights", "--rate", 0.3)
    succeed("calibrate", part, plate / "test" / "good", *here)
    stored = file_metadata(part)
    results = [model.predict(read_image(path)) for path in good]
    expected = sorted(result.score for result in results)
    np.testing.assert_allclose(stored.good_scores.scores, expected, rtol=1e-3)
    peaks = sorted(float(result.map_hw.max()) for result in results)
    np.testing.assert_allclose(stored.good_scores.peaks, peaks, rtol=1e-2)
    assert stored.drift.mean_hw.shape == stored.grid_hw
    with edgeseg.runtime.open(part, allow_random_weights=True, backend="cpu") as detector:
        assert detector.threshold == stored.threshold.score != model.threshold


def test_int8_is_calibrated_on_images_or_a_folder(model, plate, tmp_path, monkeypatch):
    """The same frames either way; what export makes of them is tested with export."""
    given: list[np.ndarray] = []
    monkeypatch.setattr(
        "edgeseg.export.onnx_export.export_onnx",
        # Here and now: the dataset is closed when the export is over.
        lambda artefact, out, *, good, **_: given.append(calibration_frames(good, artefact.config)),
    )
    images = [read_image(path) for path in sorted((plate / "train/good").iterdir())]
    for data in (plate, images, plate / "train/good"):
        model.export(tmp_path / "m.onnx", precision="int8", calibrate=data)
    np.testing.assert_array_equal(given[0], np.stack(images))
    for other in given[1:]:
        np.testing.assert_array_equal(given[0], other)


def test_export_refuses_in_one_sentence(model, tmp_path):
    with pytest.raises(UsageError, match=r"m\.plan: expected a name ending in \.onnx"):
        model.export(tmp_path / "m.plan")
    with pytest.raises(ExportError, match="the backbone has random weights"):
        model.export(tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


def test_regions_and_verdict_of_a_known_map(tmp_path):
    """The map of this model is the brightness of the frame."""
    path = tmp_path / "bright.onnx"
    write_brightness_model(path, metadata=brightness_metadata(size_hw=(32, 48), threshold=200.0))
    frame = np.zeros((64, 96, 3), np.uint8)
    frame[20:40, 10:30] = 255
    with edgeseg.runtime.open(path, backend="cpu") as detector:
        bright = detector.predict(frame)
        (region,) = bright.regions
        assert region.box_xywh == (10, 20, 20, 20)  # pixels of the frame, not of the map
        assert (bright.anomalous, bright.threshold, bright.score) == (True, 200.0, 255.0)
        dark = detector.predict(frame // 2)
        assert (dark.anomalous, dark.regions) == (False, ())
    with edgeseg.runtime.open(path, backend="cpu", threshold=100.0) as detector:
        assert detector.predict(frame // 2).anomalous


def test_a_frame_is_cut_where_the_model_was_fitted_on_tiles(tmp_path):
    """Brightness knows no tiles, so the map is that of the whole frame."""
    path = tmp_path / "bright.onnx"
    tiles = TileLayout(frame_hw=(64, 96), overlap=8)
    write_brightness_model(path, metadata=replace(brightness_metadata(), tiles=tiles))
    frame = np.random.default_rng(0).integers(0, 255, (64, 96, 3), dtype=np.uint8)
    with edgeseg.runtime.open(path, backend="cpu") as detector:
        result = detector.predict(frame[:, :, ::-1], channels="bgr")
    np.testing.assert_allclose(result.map_hw, frame.mean(axis=2), atol=1e-3)


def test_a_score_that_is_no_number_is_no_good_part():
    raw = Prediction(map_hw=np.full((4, 4), np.nan, np.float32), score=float("nan"))
    limits = made_up_thresholds(1.0)
    assert judge(raw, thresholds=limits, view=View(frame_hw=(4, 4), size_hw=(4, 4))).anomalous


@pytest.mark.parametrize("threshold", [float("nan"), float("inf"), float("-inf")])
def test_a_model_whose_threshold_is_refused_is_closed_again(tmp_path, monkeypatch, threshold):
    closed: list[Session] = []
    monkeypatch.setattr(OrtSession, "close", lambda self: closed.append(self))
    path = tmp_path / "bright.onnx"
    write_brightness_model(path, metadata=brightness_metadata())
    with pytest.raises(UsageError, match=f"^threshold={threshold}: expected a finite number"):
        edgeseg.runtime.open(path, backend="cpu", threshold=threshold)
    assert len(closed) == 1


# --- in a process of its own -------------------------------------------------------------------


def python(code: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_device_needs_no_torch(exported):
    code = (
        "import sys, numpy, edgeseg\n"
        "before = {'torch', 'onnx', 'cv2'} & set(sys.modules)\n"
        "with edgeseg.runtime.open(sys.argv[1], allow_random_weights=True) as detector:\n"
        "    detector.predict(numpy.zeros((50, 60, 3), numpy.uint8))\n"
        "print(before, {'torch', 'onnx', 'safetensors'} & set(sys.modules))\n"
    )
    assert python(code, exported) == "set() set()\n"


def test_five_lines(plate, tmp_path):
    """Twice `fit`, after `load`: the function keeps its name whatever else is imported."""
    code = (
        "import sys, edgeseg\n"
        "from edgeseg.data.synthetic.scene import SceneGenerator\n"
        "small = edgeseg.FitConfig(backbone='mobilenet_v3_small', size_hw=(64, 64), k=8)\n"
        "options = edgeseg.FitOptions(weights='random')\n"
        "for name in 'ab':\n"
        "    model = edgeseg.fit(sys.argv[1], preset=small, out=sys.argv[2], options=options)\n"
        "    model = edgeseg.load(sys.argv[2])\n"
        "result = model.predict(SceneGenerator(size_hw=(80, 90)).good(0))\n"
        "assert isinstance(model, edgeseg.Model)\n"
        "assert isinstance(result, edgeseg.JudgedPrediction)\n"
        "print(result.map_hw.shape)\n"
    )
    assert python(code, plate, tmp_path / "m.edgeseg") == "(64, 64)\n"
