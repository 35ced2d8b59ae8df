"""Metadata of a .onnx file without a library: what onnx itself reads."""

import contextlib
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from edgeseg.base.errors import RuntimeFailure
from edgeseg.modelfile.metadata import KEY, ModelMetadata
from edgeseg.runtime.backends.model_file import file_metadata, write_sidecar
from edgeseg.runtime.backends.onnx_properties import property_text
from tests.support.brightness_model import PLAN, brightness_graph, write_brightness_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_brightness_model(tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_the_text_is_that_of_onnx(model: Path) -> None:
    properties = {item.key: item.value for item in onnx.load(model).metadata_props}
    assert property_text(model) == properties[KEY]


def test_a_graph_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(brightness_graph(None).SerializeToString())
    assert property_text(path) is None
    with pytest.raises(RuntimeFailure, match="no edgeseg metadata inside"):
        file_metadata(path)


@pytest.mark.parametrize("data", [b"\xff" * 30, b"no graph at all", b"\x7f\x01", b"\x3a\x7fx"])
def test_what_is_no_graph(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    with pytest.raises(RuntimeFailure, match="not an ONNX file"):
        property_text(path)


def test_every_cut_is_refused_or_has_no_text(model: Path) -> None:
    data, path = model.read_bytes(), model.with_name("cut.onnx")
    for end in range(0, len(data), 37):
        path.write_bytes(data[:end])
        with contextlib.suppress(RuntimeFailure):
            assert property_text(path) is None


def other(metadata: ModelMetadata) -> ModelMetadata:
    """As a device decides: another threshold, and what must not be taken from a sidecar."""
    threshold = replace(metadata.threshold, score=123.0)
    return replace(metadata, threshold=threshold, name="edited", precision="int8")


def test_a_sidecar_decides_what_a_device_may_decide(model: Path) -> None:
    told = file_metadata(model)
    write_sidecar(model, other(told))
    now = file_metadata(model)
    assert now.threshold.score == 123.0
    assert now == replace(told, threshold=now.threshold), "nothing else"


def test_a_sidecar_is_made_where_there_was_none(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    told = write_brightness_model(path, sidecar=False)
    write_sidecar(path, replace(file_metadata(path), threshold=told.threshold))
    written = ModelMetadata.from_json(path.with_suffix(".json").read_text(), source="m.json")
    assert written == told, "with the hash of the file"


def test_a_sidecar_of_another_file_is_refused(model: Path) -> None:
    model.write_bytes(model.read_bytes() + b"\x12\x01x")  # one more producer_name
    with pytest.raises(RuntimeFailure, match="one of the two was replaced or damaged"):
        file_metadata(model)


def test_the_facts_of_a_plan_stay(model: Path) -> None:
    sidecar = model.with_suffix(".json")
    told = ModelMetadata.from_json(sidecar.read_text(), source="m.json")
    sidecar.write_text(replace(told, plan=PLAN).to_json())
    write_sidecar(model, other(file_metadata(model)))
    assert ModelMetadata.from_json(sidecar.read_text(), source="m.json").plan == PLAN
