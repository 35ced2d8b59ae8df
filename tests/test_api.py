"""The Python API: what it shares with the command line, any size of frame, errors in a sentence."""

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

import edgeseg
import edgeseg.runtime
from edgeseg.api import Model, fit, load
from edgeseg.base.errors import ArtefactError, DatasetError, UsageError
from edgeseg.data.open_data import Data
from edgeseg.model.artefact import load_artefact
from edgeseg.vision.images import read_image, resize_image
from tests.support.commands import FIT, succeed
from tests.support.small_models import RANDOM, SIZE_HW, SMALL, frames

IN_MEMORY = [{"action": "fit", "images": 10, "from": "part", "when": "1970-01-01T00:00:00Z"}]


@pytest.fixture(scope="module")
def model(small_artefact_path: Path) -> Model:
    return load(small_artefact_path)


# --- fit -------------------------------------------------------------------------------------


def test_fit_is_the_fit_of_the_command_line(plate, tmp_path, small_artefact_path):
    fit(plate, preset=SMALL, options=RANDOM, out=tmp_path / "a.edgeseg")
    succeed("fit", plate, "--out", tmp_path / "b.edgeseg", *FIT, "--batch-size", "4")
    ours, theirs = ((tmp_path / name).read_bytes() for name in ("a.edgeseg", "b.edgeseg"))
    assert ours == theirs == small_artefact_path.read_bytes()


def test_images_in_memory_are_a_folder_of_them(plate, tmp_path):
    """The same model, whether images come from disk, from an array, a generator, RGB or BGR."""
    folder = plate / "train/good"
    images = [read_image(path) for path in sorted(folder.iterdir())]

    def bytes_of(data: Data, *, channels: str = "rgb") -> bytes:
        fitted = fit(data, preset=SMALL, channels=channels, options=RANDOM)
        if data is folder:  # only it knows a name, and the age of its files
            facts = fitted.artefact.data | {"name": "part"}
            for row in facts["highest"]:  # images in memory are counted from 1
                row["image"] = f"{int(row['image'].removesuffix('.png')) + 1:08}.png"
            fitted = Model(replace(fitted.artefact, data=facts, history=IN_MEMORY))
        return fitted.save(tmp_path / "m.edgeseg").read_bytes()

    expected = bytes_of(folder)
    assert bytes_of(images) == expected
    assert bytes_of(np.stack(images)) == expected
    assert bytes_of((image[:, :, ::-1] for image in images), channels="bgr") == expected


def test_images_of_any_size_are_resized_as_files_are(plate):
    large = [cv2.resize(image, (150, 130)) for image in frames(4)]
    config = replace(SMALL, folds=2)
    fitted = fit(large, preset=config, options=RANDOM)
    same = fit([resize_image(x, SIZE_HW) for x in large], preset=config, options=RANDOM)
    known = same.info["data"].pop("camera_hw")
    assert known == [96, 96], "of those that are not resized the camera is known"
    assert fitted.info == same.info
    assert fitted.info["data"]["name"] == "part"


def test_options_override_the_preset(plate):
    fitted = fit(
        plate, preset=SMALL, size_hw=(64, 64), false_alarm_rate=0.2, backbone="resnet18",
        options=RANDOM,
    )  # fmt: skip
    config = fitted.artefact.config
    assert config == replace(SMALL, size_hw=(64, 64), false_alarm_rate=0.2, backbone="resnet18")
    assert repr(fitted) == "<edgeseg model of plate: resnet18, 64x64>"


def test_notes_reach_the_caller(plate):
    said: list[str] = []
    fit(plate, preset=SMALL, options=replace(RANDOM, note=said.append))
    assert said[0] == "fitting on 10 good images of plate"


@pytest.mark.parametrize(
    ("data", "options", "error", "sentence"),
    [
        ([], {}, DatasetError, "no images were given; expected at least one of a good part"),
        (
            np.zeros((96, 96, 3), np.uint8),
            {},
            UsageError,
            "image 1: uint8 (96, 3), expected uint8 (height, width, 3); "
            "repeat a grey one: np.dstack([frame] * 3)",
        ),
        (
            np.zeros((1, 96, 96, 3)),
            {},
            UsageError,
            "image 1: float64 (96, 96, 3), expected uint8 (height, width, 3)",
        ),
        (
            [[1, 2]],
            {},
            UsageError,
            "image 1: a list, expected a numpy array of uint8 (height, width, 3)",
        ),
        ("absent", {}, DatasetError, "absent: no such folder"),
        (
            "x",
            {"preset": "best"},
            UsageError,
            "preset 'best' is unknown; expected one of ('edge', 'paper')",
        ),
        (
            frames(1),
            {"channels": "grey"},
            UsageError,
            "channels='grey': expected 'rgb', or 'bgr' for OpenCV's captures",
        ),
    ],
)
def test_fit_refuses_in_one_sentence(data, options, error, sentence):
    with pytest.raises(error) as caught:
        fit(data, **({"preset": SMALL, "options": RANDOM} | options))
    assert str(caught.value) == sentence


def test_a_place_that_cannot_be_written_is_noticed_first(plate, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="File exists"):
        fit(plate, preset=SMALL, out=tmp_path / "file" / "m.edgeseg", options=RANDOM)


# --- load, save, predict -----------------------------------------------------------------------


def test_save_and_load_give_the_same_model(model, tmp_path, small_artefact_path):
    path = model.save(tmp_path / "again.edgeseg")
    assert path.read_bytes() == small_artefact_path.read_bytes()
    assert load(path).info == model.info
    assert json.loads(json.dumps(model.info)) == load_artefact(path).header()


def test_load_refuses_what_is_no_artefact(tmp_path):
    with pytest.raises(ArtefactError, match="no such file"):
        load(tmp_path / "none.edgeseg")
    with pytest.raises(UsageError) as caught:
        load("part.onnx")
    assert str(caught.value) == (
        "part.onnx: an exported model, expected a file of edgeseg fit; run it with "
        "`edgeseg stream`, or with edgeseg.runtime.open in Python"
    )


def test_predict_is_the_command(model, plate, small_artefact_path, tmp_path):
    image = next(path for path in (plate / "test").rglob("*.png") if path.parent.name != "good")
    out = succeed("predict", small_artefact_path, image, "--out", tmp_path, "--json", "-q").stdout
    row, ours = json.loads(out), model.predict(read_image(image))
    assert (row["score"], row["threshold"], row["anomalous"]) == (
        ours.score,
        ours.threshold,
        ours.anomalous,
    )
    assert model.threshold == ours.threshold


def test_predict_takes_any_size_and_either_order(model):
    (frame,) = frames(1)
    expected = model.predict(frame)
    assert expected.map_hw.shape == SIZE_HW
    assert model.predict(frame[:, :, ::-1], channels="bgr").score == expected.score
    large = cv2.resize(frame, (300, 200))
    resized = model.predict(resize_image(large, SIZE_HW))
    assert model.predict(large).score == resized.score
    assert model.predict(large).map_hw.shape == SIZE_HW


def test_predict_refuses_what_is_no_frame(model):
    with pytest.raises(UsageError, match=r"frame: uint8 \(3, 96, 96\), expected uint8 \(height"):
        model.predict(np.zeros((3, 96, 96), np.uint8))
    with pytest.raises(UsageError, match=r"frame: a str, expected a numpy array"):
        model.predict("image.png")


def test_evaluate_is_the_command(model, plate, small_artefact_path, tmp_path):
    succeed("eval", small_artefact_path, plate, "--json", tmp_path / "r.json")
    theirs = json.loads((tmp_path / "r.json").read_text())
    ours = json.loads(json.dumps(model.evaluate(plate).to_dict()))
    for values in (ours, theirs):
        values.pop("seconds")
    assert ours.items() <= theirs.items()


def test_a_model_of_tiles(plate):
    config = replace(SMALL, size_hw=(64, 64), frame_hw=SIZE_HW, overlap=16)
    fitted = fit(plate, preset=config, options=RANDOM)
    scores: dict[str, float] = {}
    fitted.evaluate(plate, visit=lambda sample, *rest: scores.update({str(sample.image): rest[-2]}))
    for path, score in scores.items():
        result = fitted.predict(read_image(Path(path)))
        assert result.map_hw.shape == SIZE_HW
        assert result.score == pytest.approx(score, rel=1e-5)


def test_names_that_are_not_there():
    with pytest.raises(AttributeError, match="module 'edgeseg' has no attribute 'laod'"):
        edgeseg.laod  # noqa: B018


def test_the_names_that_are_shown_are_those_to_use():
    names = {name for name in dir(edgeseg) if not name.startswith("__")}
    assert names == {*edgeseg.__all__, "runtime"}
    assert "__version__" in dir(edgeseg)
    assert all(hasattr(edgeseg, name) for name in dir(edgeseg))
