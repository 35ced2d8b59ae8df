"""What `edgeseg export` says when it cannot do what was asked."""

import shutil
import sys
from pathlib import Path

import pytest

from edgeseg.cli import export_command
from tests.support.commands import fail
from tests.support.export_models import SHORT, data, names, remember_traces, saved

RTX = ("--trt", "--builder", "rtx")


@pytest.fixture(autouse=True)
def traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_traces(monkeypatch, SHORT)


@pytest.fixture
def fitted(tmp_path: Path) -> Path:
    return saved(tmp_path)


def test_random_weights_need_a_word(small_artefact_path: Path, tmp_path: Path) -> None:
    message = fail("export", small_artefact_path, "--out", tmp_path / "x.onnx", code=1)
    assert message.startswith("the backbone has random weights, so its maps mean nothing; fit with")
    assert message.endswith("or pass --allow-random-weights to export it for timing")
    assert names(tmp_path) == []


def test_int8_without_images(fitted: Path) -> None:
    assert fail("export", fitted, "--precision", "int8", code=2) == (
        "--precision int8 needs good images to calibrate on; pass --calibrate FOLDER, "
        "the images the model was fitted on will do"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--out", "x.txt"), "--out x.txt: expected a name ending in .onnx"),
        (
            ("--batch", "2", "--dynamic-batch", "1,2,4"),
            "--batch and --dynamic-batch: give one of them",
        ),
        (
            ("--dynamic-batch", "1,2"),
            "Invalid value for '--dynamic-batch': '1,2': expected min,opt,max such as 1,4,8",
        ),
        (
            ("--dynamic-batch", "4,2,8"),
            "Invalid value for '--dynamic-batch': '4,2,8': expected 1 <= min <= opt <= max",
        ),
        (("--target", "sm86"), "--target: a setting of TensorRT plans; add --trt, or leave it out"),
        (
            ("--builder", "rtx"),
            "--builder: a setting of TensorRT plans; add --trt, or leave it out",
        ),
        (
            ("--workspace", "64"),
            "--workspace: a setting of TensorRT plans; add --trt, or leave it out",
        ),
        (
            ("--optimisation-level", "0"),
            "--optimisation-level: a setting of TensorRT plans; add --trt, or leave it out",
        ),
        (
            ("--dla-core", "0"),
            "--dla-core: a setting of TensorRT plans; add --trt, or leave it out",
        ),
        (
            ("--trt", "--target", "sm86"),
            "--target sm86: TensorRT builds for the GPU of its own computer; leave --target out "
            "and build on the device, or use --builder rtx",
        ),
        (
            (*RTX, "--target", "86"),
            "--target 86: expected a compute capability such as sm86 (8.6) or sm120",
        ),
        (
            (*RTX, "--optimisation-level", "0"),
            "an optimisation level: TensorRT-RTX builds the same plan at each one; leave it out, "
            "or use --builder tensorrt",
        ),
    ],
)
def test_requests_that_cannot_be_meant_are_refused_before_any_work(
    fitted: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.setattr(export_command, "_export", None)
    assert fail("export", fitted, *arguments, code=2) == message
    assert names(fitted.parent) == ["bottle.edgeseg"]


def test_things_that_are_not_there(fitted: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone.edgeseg"
    assert fail("export", gone, code=1).startswith(f"{gone}: no such file; make one with `edgeseg")
    empty = tmp_path / "empty"
    empty.mkdir()
    message = fail("export", fitted, "--precision", "int8", "--calibrate", empty, code=1)
    assert str(empty) in message
    good = tmp_path / "good"
    shutil.copytree(data() / "train" / "good", good)
    message = fail("export", fitted, "--no-verify", "--data", good, code=1)
    assert message.startswith(f"{good}: no test images; evaluation needs a labelled test set")


def test_tensorrt_that_is_not_installed(fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    message = fail("export", fitted, "--trt", "--no-verify", code=1)
    assert message == (
        "TensorRT cannot be imported; install it with `pip install 'edgeseg[trt]'`; "
        "--builder rtx builds plans without a GPU"
    )
    assert names(fitted.parent) == ["bottle.edgeseg"]
    gone = fitted.with_name("gone.edgeseg")
    assert fail("export", gone, "--trt", code=1) == message, "before the artefact is looked at"


def test_what_the_builder_cannot_do(fitted: Path) -> None:
    pytest.importorskip("tensorrt_rtx", reason="needs TensorRT-RTX: pip install edgeseg[trt-rtx]")
    plain = ("export", fitted, *RTX, "--no-verify")
    message = fail(*plain, "--target", "sm61", code=1)
    assert message.startswith("--target sm61: TensorRT-RTX ")
    for_cpu = ("--precision", "int8", "--for", "cpu", "--calibrate", data() / "train" / "good")
    message = fail(*plain, *for_cpu, code=1)
    assert "bottle.onnx: TensorRT-RTX refuses 1 node: " in message
    assert message.endswith("`edgeseg export --for trt`")
    assert "bottle.plan" not in names(fitted.parent)
