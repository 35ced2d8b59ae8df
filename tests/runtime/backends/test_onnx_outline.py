"""The outline of a graph, read without onnx, is what onnx itself reads."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgeseg.base.errors import RuntimeFailure
from edgeseg.runtime.backends.onnx_outline import GraphTensor, read_outline
from tests.support import KEPT


def told(value: onnx.ValueInfoProto) -> tuple[str, str, tuple[int | str, ...]]:
    tensor = value.type.tensor_type
    kind = TensorProto.DataType.Name(tensor.elem_type).lower()
    return value.name, kind, tuple(dim.dim_param or dim.dim_value for dim in tensor.shape.dim)


def read(tensor: GraphTensor) -> tuple[str, str, tuple[int | str, ...]]:
    return tensor.name, tensor.kind, tensor.sides


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.onnx")), ids=lambda path: path.name)
def test_all_of_a_graph_is_read_as_onnx_reads_it(path: Path) -> None:
    model = onnx.load(path)
    graph, outline = model.graph, read_outline(path)
    assert outline.opsets == {item.domain or "ai.onnx": item.version for item in model.opset_import}
    assert [(n.name, n.kind, n.domain, n.reads, n.gives) for n in outline.nodes] == [
        (n.name, n.op_type, n.domain or "ai.onnx", tuple(n.input), tuple(n.output))
        for n in graph.node
    ]
    for ours, theirs in (
        (outline.inputs, graph.input),
        (outline.outputs, graph.output),
        (outline.between, graph.value_info),
    ):
        assert list(map(read, ours)) == list(map(told, theirs))
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    assert len(outline.constants) == len(arrays)
    for constant in outline.constants:
        assert constant.sides == arrays[constant.name].shape
        assert constant.bytes == arrays[constant.name].nbytes


def test_sizes_that_vary_and_domains_of_others(tmp_path: Path) -> None:
    path = tmp_path / "other.onnx"
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    node = helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", [value], [result])
    onnx.save(helper.make_model(graph, opset_imports=sets), path)
    outline = read_outline(path)
    assert outline.opsets == {"ai.onnx": 17, "com.microsoft": 1}
    assert outline.nodes[0].domain == "com.microsoft"
    assert (outline.inputs[0].values, outline.inputs[0].bytes) == (None, 0)
    assert str(outline.inputs[0]) == "float [n, 3]"
    assert GraphTensor(name="z", kind="int8", sides=(2, 5)).values == 10


def test_what_is_no_graph(tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    path.write_bytes((KEPT / "part-fp32.onnx").read_bytes()[:-4_000])
    with pytest.raises(RuntimeFailure, match=r"cut.onnx: damaged graph .*; export it again"):
        read_outline(path)
    path.write_bytes(b"")
    with pytest.raises(RuntimeFailure, match="it has no graph"):
        read_outline(path)
