"""The Python API: what it shares with the command line, any size of frame, errors in a sentence."""

import inspect
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial, partialmethod
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
from edgeseg.runtime.scoring.detector import Detector
from edgeseg.vision.images import read_image, resize_image
from tests.support.commands import FIT, succeed
from tests.support.small_models import RANDOM, SIZE_HW, SMALL, frames

PICTURES = "8 or 16 bits, grey (height, width) or in colour (height, width, 3)"
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
    asked = replace(SMALL, size_hw=(64, 64), false_alarm_rate=0.2, backbone="resnet18")
    assert config == replace(asked, map_layers=())  # the best that this backbone has
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
            "one picture (96, 96, 3), expected several: a list, or (N, ...)",
        ),
        (
            np.zeros((1, 96, 96, 3)),
            {},
            UsageError,
            f"image 1: float64 (96, 96, 3), expected {PICTURES}",
        ),
        (
            [[1, 2]],
            {},
            UsageError,
            f"image 1: a list, expected a path, or a numpy array of {PICTURES}",
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
    again, before = (json.dumps(each.header()) for each in (load_artefact(path), model.artefact))
    assert again == before
    assert "forms" not in json.dumps(model.info)  # packed numbers that nobody reads


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
    with pytest.raises(UsageError, match=r"frame: uint8 \(3, 96, 96\), expected 8 or 16 bits"):
        model.predict(np.zeros((3, 96, 96), np.uint8))
    with pytest.raises(UsageError, match=r"frame: a NoneType, .* gives None for a file that it"):
        model.predict(cv2.imread("absent.png"))
    with pytest.raises(DatasetError, match=r"absent\.png: cannot be read"):
        model.predict("absent.png")


def deep(image_hwc: np.ndarray) -> np.ndarray:
    """The same picture in 16 bits."""
    return image_hwc.astype(np.uint16) * 257


@pytest.mark.parametrize(
    "change",
    [
        lambda rgb: rgb,
        deep,
        lambda rgb: np.dstack([rgb, np.full_like(rgb[:, :, :1], 7)]),
        lambda rgb: rgb[:, :, 1],
        lambda rgb: rgb[:, :, 1:2],
        lambda rgb: deep(rgb[:, :, 1]),
    ],
    ids=["8 bits", "16 bits", "alpha", "grey", "one channel", "grey of 16 bits"],
)
def test_an_array_is_judged_as_a_file_of_it(model, tmp_path, change):
    array = change(frames(1)[0])
    colours = array.ndim == 3 and array.shape[2] >= 3
    order = [2, 1, 0, 3][: array.shape[2]] if colours else ...
    assert cv2.imwrite(str(tmp_path / "a.png"), array[..., order] if colours else array)
    theirs, ours = model.predict(tmp_path / "a.png"), model.predict(array)
    assert (theirs.path, ours.path) == (tmp_path / "a.png", None)
    assert ours.score == theirs.score
    np.testing.assert_array_equal(ours.map_hw, theirs.map_hw)


def test_a_list_and_a_folder_give_a_list(model, plate):
    folder = plate / "test"
    paths = sorted(folder.rglob("*.png"))
    scores = [model.predict(path).score for path in paths]
    found = model.predict(folder)
    assert [each.path for each in found] == paths
    assert [each.score for each in found] == scores
    assert [each.score for each in model.predict([str(folder), frames(1)[0]])] == [
        *scores,
        model.predict(frames(1)[0]).score,
    ]
    assert [each.score for each in model.predict(iter(paths[:2]))] == scores[:2]
    assert model.predict([]) == []


def test_all_that_cannot_be_read_is_named_at_once(model, tmp_path):
    with pytest.raises(UsageError, match="no pictures in this folder or below it"):
        model.predict(tmp_path)
    (tmp_path / "a.png").write_bytes(b"")
    (tmp_path / "IMG_1.HEIC").write_bytes(b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic")
    assert cv2.imwrite(str(tmp_path / "b.png"), frames(1)[0])
    with pytest.raises(DatasetError) as refused:
        model.predict(tmp_path)
    assert str(refused.value) == (
        f"2 of 3 pictures cannot be read: {tmp_path / 'IMG_1.HEIC'}: a HEIC picture, which cannot "
        f"be read here; save it as JPEG or PNG; {tmp_path / 'a.png'}: the file is empty (0 bytes)"
    )


def test_the_name_of_an_exported_model_is_refused_before_the_fit(plate, model, tmp_path):
    for act in (
        lambda path: fit(plate, out=path, preset=SMALL, options=RANDOM),
        lambda path: model.save(path),
    ):
        with pytest.raises(UsageError) as refused:
            act(tmp_path / "part.onnx")
        assert str(refused.value) == (
            f"{tmp_path / 'part.onnx'}: `edgeseg fit` writes .edgeseg files, and `edgeseg export` "
            f"makes the .onnx of one; expected a name such as {tmp_path / 'part.edgeseg'}"
        )
    assert list(tmp_path.iterdir()) == []


PUBLIC = [
    *(edgeseg.fit, edgeseg.load, edgeseg.runtime.open, Detector.predict),
    *(Model.predict, Model.evaluate, Model.with_accuracy, Model.save, Model.export),
]


@pytest.mark.parametrize("function", PUBLIC, ids=lambda function: function.__qualname__)
def test_help_explains_every_parameter(function):
    text = str(inspect.getdoc(function))
    explained = {
        name.strip()
        for names in re.findall(r"^([\w, ]+): ", text, re.M)
        for name in names.split(",")
    }
    assert explained == {*inspect.signature(function).parameters} - {"self"}


def test_help_of_fit_has_an_example_that_runs(plate, tmp_path, monkeypatch):
    """Its lines as they are, but for a network that needs no weights."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(plate / "train/good", "parts/good")
    shutil.copytree(plate / "test/good", "parts/today")
    shutil.copy("parts/today/000.png", "parts/today/001.png")
    lines = re.findall(r"^    (\S.*)$", str(inspect.getdoc(edgeseg.fit)), re.M)
    code = "\n".join(line for line in lines if re.match(r"(model = |print\(|model\.)", line))
    monkeypatch.setattr(edgeseg, "fit", partial(fit, preset=SMALL, options=RANDOM))
    monkeypatch.setattr(Model, "export", partialmethod(Model.export, allow_random_weights=True))
    exec(code, {"edgeseg": edgeseg})
    assert {path.name for path in tmp_path.iterdir()} >= {"part.edgeseg", "part.onnx", "part.json"}


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


def test_what_is_not_installed_is_named_with_its_command():
    code = (
        "import sys; sys.modules['safetensors'] = None; import edgeseg\n"
        "print(edgeseg.runtime.open.__name__)\n"
        "try:\n    edgeseg.fit\nexcept ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "open",
        "edgeseg.fit needs safetensors, which is not installed; run: pip install 'edgeseg[teach]'",
    ]


def test_names_that_are_not_there():
    with pytest.raises(AttributeError, match="module 'edgeseg' has no attribute 'laod'"):
        edgeseg.laod  # noqa: B018
    with pytest.raises(AttributeError, match=r"'edgeseg\.runtime' has no attribute 'opne'"):
        edgeseg.runtime.opne  # noqa: B018


def test_the_names_that_are_shown_are_those_to_use():
    names = {name for name in dir(edgeseg) if not name.startswith("__")}
    assert names == {*edgeseg.__all__, "runtime"}
    assert "__version__" in dir(edgeseg)
    assert all(hasattr(edgeseg, name) for name in dir(edgeseg))
