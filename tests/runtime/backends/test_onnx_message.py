"""Other constants in a .onnx file, against the onnx package."""

import io
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgeseg.base.plain import Malformed
from edgeseg.runtime.backends.onnx_message import read_constants, with_constants, with_property
from edgeseg.runtime.backends.onnx_properties import graph_sha256, property_text

SHAPE = (2, 300, 3)  # over 127 and over 16383 bytes: lengths of two and of three digits


def small() -> onnx.ModelProto:
    constants = {"a": np.arange(1800.0).reshape(SHAPE), "ab": np.ones(()), "c": np.zeros((1, 4))}
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "a"], ["y"]), helper.make_node("Add", ["y", "ab"], ["z"])],
        "g",
        [value("x", TensorProto.FLOAT, SHAPE)],
        [value("y", TensorProto.FLOAT, SHAPE), value("z", TensorProto.FLOAT, SHAPE)],
        [numpy_helper.from_array(v.astype(np.float32), name) for name, v in constants.items()],
    )
    graph.initializer.append(numpy_helper.from_array(np.arange(3), "whole"))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    helper.set_model_props(model, {"other": "text", "edgeseg": "{}"})
    return model


def test_constants_are_read(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(small().SerializeToString())
    found = read_constants(path, prefix="a")
    assert {name: values.shape for name, values in found.items()} == {"a": SHAPE, "ab": ()}
    np.testing.assert_array_equal(found["a"].ravel(), np.arange(1800.0))


def test_constants_are_written_and_nothing_else_changes() -> None:
    model = small()
    values = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    written = with_constants(model.SerializeToString(), {"a": values}, outputs=("z",))
    wanted = small()
    wanted.graph.initializer[0].CopyFrom(numpy_helper.from_array(values, "a"))
    del wanted.graph.output[0], wanted.metadata_props[:]
    assert onnx.load_from_string(written) == wanted
    onnx.checker.check_model(onnx.load_from_string(written), full_check=True)


def test_a_property_is_added_that_the_hash_leaves_out(tmp_path: Path) -> None:
    plain = with_constants(small().SerializeToString(), {}, outputs=("y", "z"))
    text = "ä" * 300
    path = tmp_path / "m.onnx"
    path.write_bytes(with_property(plain, "edgeseg", text))
    assert property_text(path) == text
    assert onnx.load(path).metadata_props[0].value == text
    with path.open("rb") as file:
        assert graph_sha256(file) == graph_sha256(io.BytesIO(plain))
        assert graph_sha256(file, key="another") != graph_sha256(io.BytesIO(plain))


@pytest.mark.parametrize(
    ("constants", "reason"),
    [
        ({"a": np.zeros((2, 3), np.float32)}, r"a is float32 \(2, 300, 3\), got float32 \(2, 3\)"),
        ({"a": np.zeros(SHAPE)}, r"got float64 \(2, 300, 3\)"),
        ({"nothing": np.zeros(1, np.float32)}, "no constant nothing"),
        ({"whole": np.zeros(3, np.float32)}, "whole is not stored as float32"),
    ],
)
def test_constants_that_do_not_fit(constants, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        with_constants(small().SerializeToString(), constants, outputs=("y", "z"))


def test_a_file_that_is_cut_off() -> None:
    whole = small().SerializeToString()
    for length in (1, 50, len(whole) // 2, len(whole) - 1):
        with pytest.raises(Malformed):
            with_constants(whole[:length], {"a": np.zeros(SHAPE, np.float32)}, outputs=("y", "z"))
