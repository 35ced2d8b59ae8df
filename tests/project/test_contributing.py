"""CONTRIBUTING.md does what it says: its eight examples are taken from the page and run."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import edgeseg.runtime
from edgeseg.api import fit, load
from edgeseg.data.datasets import LAYOUTS, open_dataset
from edgeseg.decision.metric_registry import METRICS
from edgeseg.export.precision.makers import MAKERS
from edgeseg.export.precision.tolerances import TOLERANCES
from edgeseg.model.backbones import BACKBONES, backbone_spec
from edgeseg.model.feature_extractor import Backbone
from edgeseg.modelfile.precisions import PRECISIONS
from edgeseg.runtime.backends.choose import BACKENDS, open_session
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.capture.sources import SOURCES, parse_source
from edgeseg.runtime.settings.adapter_kinds import ADAPTERS
from edgeseg.runtime.settings.sink_kinds import SINKS
from tests.support.brightness_model import write_brightness_model
from tests.support.commands import FIT, succeed
from tests.support.documents import REPO, blocks, section, text_of
from tests.support.small_models import RANDOM, SMALL, frames

PAGE = text_of("CONTRIBUTING.md")
HEADINGS = re.findall(r"^## (Add an? .+)$", PAGE, re.M)
REGISTRIES = (
    BACKBONES, LAYOUTS, BACKENDS, SOURCES, SINKS, ADAPTERS, METRICS, PRECISIONS, MAKERS, TOLERANCES,
)  # fmt: skip


def example(heading: str) -> str:
    """The one block of Python under a heading."""
    ((language, code),) = blocks(section(PAGE, heading))
    assert language == "python"
    return code


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """What an example adds is taken away again."""
    kept = [(registry, dict(registry)) for registry in REGISTRIES]
    yield
    for registry, before in kept:
        registry.clear()
        registry.update(before)


@pytest.mark.parametrize("heading", HEADINGS)
def test_examples_are_short(heading):
    assert len(example(heading).splitlines()) < 45


def test_every_registry_has_its_example_and_its_row():
    assert len(HEADINGS) == 8
    for heading in HEADINGS:
        assert f"| {heading.removeprefix('Add ')} | " in PAGE


def test_files_and_names_on_the_page_are_there():
    for name in re.findall(r"`((?:edgeseg|export|runtime|tests|bench)/[\w./]+\.\w+)", PAGE):
        assert (REPO / name).exists(), name
    assert "\nBACKENDS: " in text_of("runtime/backends/choose.py")


def test_a_backbone(plate, tmp_path, monkeypatch):
    exec(example("Add a backbone"), {})
    (tmp_path / "weights").mkdir()
    monkeypatch.setenv("EDGESEG_WEIGHTS", str(tmp_path / "weights"))
    network = Backbone(backbone_spec("toy"), layers=(1, 2, 3))
    torch.save(network.state_dict(), tmp_path / "weights/toy.pth")
    model = fit(plate, preset=SMALL, backbone="toy", out=tmp_path / "toy.edgeseg")
    assert model.info["features"] == 8 + 12 + 16
    assert model.info["weights"]["source"] == "toy.pth"
    (frame,) = frames(1)
    assert load(tmp_path / "toy.edgeseg").predict(frame).score == model.predict(frame).score
    options = [*FIT, "--backbone", "toy", "--weights", tmp_path / "weights/toy.pth"]
    succeed("fit", plate, "--out", tmp_path / "same.edgeseg", *options)
    assert load(tmp_path / "same.edgeseg").info == model.info


def test_a_dataset(plate, tmp_path):
    root = _toy_dataset(plate, tmp_path / "toy")
    exec(example("Add a dataset"), {})
    dataset = open_dataset(root)
    assert (dataset.layout, len(dataset.train)) == ("toy", 10)
    assert [sample.label for sample in dataset.test] == [1, 0]
    model = fit(root, preset=SMALL, options=RANDOM)
    assert model.evaluate(root).anomalies == 1
    shutil.rmtree(root / "ok")
    (root / "ok").mkdir()
    with pytest.raises(edgeseg.EdgesegError, match="the layout toy expects ok/, test/ and marks/"):
        open_dataset(root)


def _toy_dataset(plate: Path, root: Path) -> Path:
    shutil.copytree(plate / "train/good", root / "ok")
    mask = next((plate / "ground_truth").rglob("*.png"))
    bad = plate / "test" / mask.parent.name / f"{mask.stem.removesuffix('_mask')}.png"
    for folder in ("test", "marks"):
        (root / folder).mkdir()
    shutil.copy(bad, root / "test/bad.png")
    shutil.copy(mask, root / "marks/bad.png")
    shutil.copy(plate / "test/good/000.png", root / "test/good.png")
    return root


def test_a_backend(tmp_path):
    path = tmp_path / "part.onnx"
    write_brightness_model(path)
    exec(example("Add a backend"), {})
    frames_nhwc = np.random.default_rng(0).integers(0, 255, (3, 32, 48, 3), dtype=np.uint8)
    with (
        open_session(path, SessionOptions(backend="toy")) as ours,
        open_session(path, SessionOptions(backend="cpu")) as theirs,
    ):
        for one, other in zip(ours.infer(frames_nhwc), theirs.infer(frames_nhwc), strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-3)
            np.testing.assert_allclose(one.map_hw, other.map_hw, atol=1e-3)
            np.testing.assert_allclose(one.grid_hw, other.grid_hw, atol=1e-3)
    with edgeseg.runtime.open(path, backend="toy") as detector:
        assert detector.backend == "ONNX reference"


def test_a_backend_that_is_not_there(tmp_path):
    path = tmp_path / "part.onnx"
    write_brightness_model(path)
    with pytest.raises(edgeseg.EdgesegError) as caught:
        edgeseg.runtime.open(path, backend="toy")
    assert str(caught.value) == (
        "backend 'toy': expected one of auto, tensorrt, cuda, cpu, openvino"
    )


@pytest.fixture
def brightness(tmp_path):
    """A model of 32x48 frames for the stream."""
    write_brightness_model(tmp_path / "part.onnx")
    return tmp_path / "part.onnx"


def test_a_source(brightness):
    exec(example("Add a source"), {})
    spec = parse_source("grey:5")
    assert (spec.kind, spec.live) == ("grey", False)
    done = succeed("stream", "--model", brightness, "--source", "grey:5").output
    assert "frames: 5 in = 5 scored" in done
    with pytest.raises(edgeseg.EdgesegError, match="or grey:COUNT"):
        parse_source("black:5")


def test_a_sink(brightness, tmp_path):
    exec(example("Add a source") + example("Add a sink"), {})
    tally = tmp_path / "tally.txt"
    succeed("stream", "--model", brightness, "--source", "grey:3", "--tally", tally)
    assert tally.read_text() == "3 frames\n"
    assert "--tally" in succeed("stream", "--help").output


def test_an_adapter(brightness, tmp_path):
    exec(example("Add a source") + example("Add an adapter"), {})
    slips = tmp_path / "slips.txt"
    source = ("--source", "grey:3", "--trigger", "hardware")
    succeed("stream", "--model", brightness, *source, "--slips", slips)
    assert slips.read_text() == "1 good\n2 good\n3 good\n"


def test_a_metric(plate, tmp_path):
    exec(example("Add a metric"), {})
    model = fit(plate, preset=SMALL, options=RANDOM, out=tmp_path / "m.edgeseg")
    assert model.evaluate(plate).summary()["margin"] < 1
    shown = succeed("eval", tmp_path / "m.edgeseg", plate, "--store").output
    assert "margin" in shown
    assert "margin" in load(tmp_path / "m.edgeseg").info["accuracy"][0]


def test_a_precision(plate, tmp_path):
    exec(example("Add a precision"), {})
    model = fit(plate, preset=SMALL, options=RANDOM)
    path = model.export(tmp_path / "m.onnx", precision="toy16", allow_random_weights=True)
    with open_session(path, SessionOptions(backend="cpu", allow_random_weights=True)) as session:
        assert session.metadata.precision == "toy16"
        (frame,) = frames(1)
        assert session.infer(frame[None])[0].score == pytest.approx(
            model.predict(frame).score, rel=0.02
        )
