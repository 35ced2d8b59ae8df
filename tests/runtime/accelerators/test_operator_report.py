"""`edgeseg info --operators`: what it lists is what onnx counts, and what it says of hardware."""

import json
from collections import Counter
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgeseg.runtime.accelerators.operator_report import describe_operators
from edgeseg.runtime.accelerators.tables import accelerators
from tests.support import KEPT
from tests.support.commands import fail, succeed
from tests.support.small_graphs import write_graph

GRAPHS = sorted(KEPT.glob("*.onnx"))


def verdicts(path: Path) -> dict[str, str]:
    return {row["key"]: row["verdict"] for row in describe_operators(path)["accelerators"]}


@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.name)
def test_operators_are_those_that_onnx_counts(path: Path) -> None:
    graph, facts = onnx.load(path).graph, describe_operators(path)
    counts = Counter(node.op_type for node in graph.node)
    assert {row["name"]: row["count"] for row in facts["operators"]} == counts
    for row in facts["operators"]:
        assert sum(row["where"].values()) == row["count"], "each has its place"
    arrays = [numpy_helper.to_array(tensor) for tensor in graph.initializer]
    assert facts["constants"]["count"] == len(arrays)
    assert facts["constants"]["bytes"] == sum(array.nbytes for array in arrays)
    assert facts["constants"]["largest"]["bytes"] == max(array.nbytes for array in arrays)
    told = {row["name"]: (row["shape"], row["bytes"]) for row in facts["constants"]["each"]}
    expected = dict(zip((tensor.name for tensor in graph.initializer), arrays, strict=True))
    assert told == {name: (list(each.shape), each.nbytes) for name, each in expected.items()}
    for row in facts["constants"]["each"]:
        assert row["type"] == expected[row["name"]].dtype.name.replace("float32", "float")
    assert facts["dynamic"] == []
    for row in facts["accelerators"]:
        unsure = sum(row["refused"].values()) + sum(row["unknown"].values())
        assert row["operators_there"] + row["further"] <= row["operators"] - unsure


def test_what_each_accelerator_gets_of_a_mobilenet() -> None:
    facts = {row["key"]: row for row in describe_operators(KEPT / "part-fp32.onnx")["accelerators"]}
    assert facts["tensorrt"]["verdict"].startswith("TensorRT: all ")
    assert facts["rknn"]["verdict"].startswith("RKNN: backbone (5 of 6 convolutions) there, head")
    assert facts["rknn"]["refused"] == {"TopK": 1}
    assert facts["rknn"]["crossing"] == ["getitem_6 float [1, 16, 16, 16]"]
    assert facts["rknn"]["bytes"] == 16 * 16 * 16, "a byte each, as it comes back from int8"
    assert "it does not take HardSwish" in facts["coral"]["verdict"]
    assert "nothing public says whether it takes HardSwish" in facts["hailo"]["verdict"]
    assert facts["hailo"]["refused"] == {}, "its list is not public"


def test_an_integer_graph_is_not_for_tools_that_round_by_themselves() -> None:
    told = verdicts(KEPT / "part-int8-trt.onnx")
    assert told["tensorrt"].startswith("TensorRT: all ")
    told = verdicts(KEPT / "part-int8.onnx")
    assert "MatMulInteger" in told["tensorrt"]
    assert told["tensorrt"].endswith("give it an fp32 export or one with --for trt")


def test_shapes_that_are_not_fixed_are_said_where_they_matter(tmp_path: Path) -> None:
    path = tmp_path / "any.onnx"
    write_graph(path, batch=(1, 2, 4))
    facts = describe_operators(path)
    assert facts["dynamic"] == ["frames"]
    told = {row["key"]: row["verdict"] for row in facts["accelerators"]}
    for key, verdict in told.items():
        static = next(each.static for each in accelerators() if each.key == key)
        assert ("export without --dynamic-batch" in verdict) == bool(static)


def test_a_foreign_graph_of_another_opset(tmp_path: Path) -> None:
    path = tmp_path / "other.onnx"
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph([node], "g", [value], [result])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    told = verdicts(path)
    assert told["hailo"] == "Hailo: all 1 operators there; nothing to cut"
    assert told["rknn"].endswith("it takes opset any to 19, and this is 21")
    assert told["tensorrt"] == "TensorRT: all 1 operators there; nothing to cut"


def test_the_command_prints_a_table_verdicts_and_sources() -> None:
    path = KEPT / "part-fp32.onnx"
    text = succeed("info", path, "--operators").stdout
    lines = text.splitlines()
    assert lines[0].split() == [
        *("operator", "count", "Hailo", "RKNN", "Coral", "QNN", "TensorRT", "where")
    ]
    (row,) = (line.split() for line in lines if line.startswith("TopK"))
    assert row == ["TopK", "1", "?", "no", "?", "yes", "yes", "head", "1"]
    for line in ("opset       ai.onnx 18", "shapes      fixed", "nothing was run on such hardware"):
        assert line in text
    for accelerator in accelerators():
        for paper in accelerator.documents:
            assert paper.version in text, "the source is named with its version"
    facts = json.loads(succeed("info", path, "--operators", "--json").stdout)
    assert facts == json.loads(json.dumps(describe_operators(path)))


def test_files_without_a_graph(tmp_path: Path) -> None:
    artefact = KEPT / "part.edgeseg"
    line = fail("info", artefact, "--operators", code=2)
    assert line == (
        "--operators: part.edgeseg has no graph yet; give the .onnx file of `edgeseg export`"
    )
    gone = tmp_path / "gone.onnx"
    assert "no such file; make one with `edgeseg export`" in fail(
        "info", gone, "--operators", code=1
    )
    plan = tmp_path / "lone.plan"
    plan.write_bytes(b"vtrt")
    assert "lone.onnx, which it was built from, is not beside it" in fail(
        "info", plan, "--operators", code=1
    )


def test_the_table_is_complete_and_in_order() -> None:
    table = accelerators()
    assert [each.key for each in table] == ["hailo", "rknn", "coral", "qnn", "tensorrt"]
    for each in table:
        assert list(each.takes) == sorted(set(each.takes)), each.key
        assert not set(each.takes) & set(each.refuses)
        assert set(each.conditions) <= set(each.takes)
        assert each.documents
        assert all(paper.version and paper.at for paper in each.documents)
