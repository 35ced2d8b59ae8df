"""`edgeseg calibrate`: the threshold of exactly what runs here."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgeseg import runtime
from edgeseg.decision.foreign import LEAST, MARGIN, map_floor
from edgeseg.decision.operating_point import conformal_threshold
from edgeseg.modelfile.metadata import ModelMetadata, TileLayout
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.vision.images import images_in, read_image, write_image
from tests.doubles.fake_tensorrt_runtime import install_fakes, write_plan
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.commands import fail, succeed
from tests.support.retakes import pictured, resting

COUNT = 30
CPU = ("--backend", "cpu", "--threads", 1)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_brightness_model(tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Grey pictures of another size than the model's, each with a spot of its own."""
    folder = tmp_path / "good"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for index in range(COUNT):
        picture = np.full((64, 96, 3), 100, np.uint8)
        y, x = rng.integers(0, 40), rng.integers(0, 60)
        picture[y : y + 20, x : x + 30] = rng.integers(110, 180)
        write_image(folder / f"{index:02}.png", picture)
    return folder


def resized(path: Path, metadata: ModelMetadata) -> np.ndarray:
    height, width = metadata.size_hw
    small = cv2.resize(read_image(path), (width, height), interpolation=cv2.INTER_AREA)
    return small.mean(axis=2)


def test_scores_threshold_and_baseline_are_those_of_the_images(model: Path, good: Path):
    succeed("calibrate", model, good, "--rate", 0.1, *CPU)
    stored = file_metadata(model)
    maps = np.stack([resized(path, stored) for path in images_in(good)])
    scores = np.sort(maps.max(axis=(1, 2)))
    np.testing.assert_allclose(stored.good_scores.scores, scores, atol=1.0)
    kept = list(stored.good_scores.scores)
    assert stored.threshold.score == conformal_threshold(kept, false_alarm_rate=0.1).value
    assert stored.good_scores.peaks == stored.good_scores.scores, "the score is the highest pixel"
    floors = [map_floor(map_hw) for map_hw in maps]
    limit = max(MARGIN * max(floors), LEAST * stored.threshold.score)
    assert stored.threshold.foreign == pytest.approx(limit, rel=0.02)
    rows, columns = stored.grid_hw
    cells = maps.reshape(COUNT, rows, 8, columns, 8).mean(axis=(2, 4))
    np.testing.assert_allclose(stored.drift.mean_hw, (cells**2).mean(axis=0), rtol=0.02)
    np.testing.assert_allclose(stored.drift.std_hw, (cells**2).std(axis=0), rtol=0.05, atol=60)
    assert stored.drift.frame_mean == pytest.approx((cells**2).mean(), rel=0.02)


@pytest.mark.parametrize(
    ("backend", "named"),
    [
        ("cpu", "ONNX Runtime CPU, 1 thread"),
        ("openvino", "OpenVINO CPU, 1 thread"),
        ("tensorrt", "TensorRT 10.3.0, sm86, CUDA graph"),
    ],
)
def test_what_it_writes_is_what_runs_and_what_it_says(
    tmp_path: Path, good: Path, backend: str, named: str, monkeypatch: pytest.MonkeyPatch
):
    install_fakes(monkeypatch)
    plan = write_plan(tmp_path)
    model = plan if backend == "tensorrt" else plan.with_suffix(".onnx")
    told = file_metadata(plan).plan
    words = ("--backend", backend, "--threads", 1)
    printed = succeed("calibrate", model, good, "--rate", 0.1, *words)
    assert f"split-conformal on {named}, 30 good images" in printed.stdout
    assert "calibrate on others" in printed.stderr
    assert file_metadata(plan).plan == told, "the plan beside it still is what it was"
    paths = images_in(good)
    with runtime.open(model, backend=backend, threads=1) as detector:
        results = [detector.predict(read_image(path)) for path in paths]
        stored = detector.metadata
    assert sorted(result.score for result in results) == list(stored.good_scores.scores)
    assert sum(result.anomalous for result in results) <= 0.1 * COUNT
    scores = np.array([result.score for result in results])
    expected = [(1 + np.count_nonzero(scores >= score)) / (COUNT + 1) for score in scores]
    assert [result.p_value for result in results] == expected
    (decision,) = stored.history
    assert (decision.action, decision.images, decision.precision) == ("calibrate", COUNT, "fp32")
    assert decision.backend == named
    assert (decision.before, decision.after) == (200.0, stored.threshold.score)


def test_another_rate_needs_no_images(model: Path, good: Path):
    succeed("calibrate", model, good, "--rate", 0.1, *CPU)
    succeed("threshold", model, "--rate", 0.2)
    succeed("calibrate", model, good, *CPU)
    stored = file_metadata(model)
    assert stored.threshold.requested_rate == 0.2, "the stored one"
    assert [entry.action for entry in stored.history] == ["calibrate", "threshold", "calibrate"]


def test_the_numbers_of_the_backend_that_runs_decide(
    tmp_path: Path, good: Path, monkeypatch: pytest.MonkeyPatch
):
    """A device that scores lower than the reference gets a lower threshold."""
    _, trt = install_fakes(monkeypatch)
    plan = write_plan(tmp_path)
    words = ("--rate", 0.1, "--backend", "tensorrt")
    succeed("calibrate", plan, good, *words)
    usual = file_metadata(plan)
    trt.gain = 0.5
    succeed("calibrate", plan, good, *words)
    halved = file_metadata(plan)
    assert halved.threshold.score == pytest.approx(usual.threshold.score / 2, abs=1e-3)
    assert halved.drift.frame_mean == pytest.approx(usual.drift.frame_mean / 4, rel=1e-3)
    assert [entry.action for entry in halved.history] == ["calibrate", "calibrate"]


def test_too_few_images_are_told_and_answer_for_what_they_can(model: Path, good: Path):
    printed = succeed("calibrate", model, good, *CPU)
    assert "30 good images answer for a false-alarm rate of 3.2%, not 1.0%; 99 would do" in (
        printed.stderr
    )
    stored = file_metadata(model).threshold
    assert stored.false_alarm_rate == 1 / 31
    assert stored.requested_rate == 0.01


def test_tiles_are_cut_as_in_the_stream(tmp_path: Path, good: Path):
    model = tmp_path / "tiled.onnx"
    metadata = brightness_metadata(batch=(1, 1, 4))
    metadata = replace(metadata, tiles=TileLayout(frame_hw=(64, 96), overlap=0))
    write_brightness_model(model, metadata=metadata)
    printed = succeed("calibrate", model, good, "--rate", 0.1, *CPU)
    assert "its drift baseline stays" in printed.stderr
    stored = file_metadata(model)
    highest = sorted(float(read_image(path).mean(axis=2).max()) for path in images_in(good))
    np.testing.assert_allclose(stored.good_scores.scores, highest, atol=1e-3)
    assert stored.drift == metadata.drift


def test_unreadable_images_and_mistakes(model: Path, good: Path, tmp_path: Path):
    (good / "broken.png").write_bytes(b"no picture")
    printed = succeed("calibrate", model, good, "--rate", 0.1, *CPU)
    assert "skipped" in printed.stderr
    assert file_metadata(model).good_scores.count == COUNT
    (tmp_path / "empty").mkdir()
    assert "no images there" in fail("calibrate", model, tmp_path / "empty", *CPU, code=2)
    assert "--rate 7.0: expected above 0" in fail("calibrate", model, good, "--rate", 7, code=2)


def test_no_torch_and_no_onnx(model: Path, good: Path):
    code = (
        "import sys\n"
        "from edgeseg.cli.group import cli\n"
        f"cli(['calibrate', {str(model)!r}, {str(good)!r}, '--backend', 'cpu', '-q'],"
        " standalone_mode=False)\n"
        "print({'torch', 'onnx', 'safetensors'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_copies_of_one_file_promise_nothing(model: Path, good: Path, tmp_path: Path):
    first = (good / "00.png").read_bytes()
    copies = tmp_path / "copies"
    copies.mkdir()
    for index in range(100):
        (copies / f"{index:03}.png").write_bytes(first)
    said = succeed("calibrate", model, copies, "--rate", 0.01, *CPU)
    assert "exact" not in said.stdout
    assert "promises nothing: all pictures show one part, and 99 different parts" in said.stdout
    stored = file_metadata(model)
    assert (stored.threshold.images, stored.threshold.parts) == (100, 1)
    assert stored.threshold.false_alarm_rate == 1.0
    assert (stored.good_scores.count, stored.good_scores.pictures) == (1, 100)
    assert stored.good_scores.scores == (), "one part is no evidence of others"
    assert "no scores of good images" in fail("threshold", model, code=1)


def test_pictures_of_one_part_count_once(model: Path, tmp_path: Path):
    folder = tmp_path / "frames"
    for place, picture in enumerate(pictured(15, 8, size=64, again=resting)):
        write_image(folder / f"{place:03}.png", picture)
    said = succeed("calibrate", model, folder, "--rate", 0.02, *CPU)
    stored = file_metadata(model)
    assert (stored.threshold.images, stored.threshold.parts) == (120, 15)
    assert stored.threshold.grouping == "pictures"
    assert stored.threshold.false_alarm_rate == pytest.approx(1 / 16)
    assert "120 good images of 15 different parts; answers for 6.25 % false alarms" in said.stdout
    assert "not exact: near-copies among 120" in said.stdout
    assert "eight fits of ten alarm at 0.7 % to 14 %" in said.stdout
    assert "49 different parts would do" in said.stderr
    assert stored.history[-1].images == 120
    text = succeed("threshold", model).stdout
    assert "120 good images of 15 different parts" in text
    told = succeed("calibrate", model, folder, "--rate", 0.02, "--group-by", "none", *CPU).stdout
    assert "120 good images; answers for 2 % false alarms" in told
    assert "exact (split conformal)" in told
    assert "expected auto, none, folder" in fail(
        "calibrate", model, folder, "--group-by", "parts", *CPU, code=2
    )
