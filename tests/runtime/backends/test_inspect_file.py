"""`edgeseg info` of graphs and plans."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.files import file_sha256
from edgeseg.data.datasets import open_dataset
from edgeseg.export import graph
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.backends.inspect_file import describe
from tests.support import KEPT
from tests.support.brightness_model import PLAN, write_brightness_model
from tests.support.commands import fail, succeed
from tests.support.export_models import SHORT, SHOWN, artefact, data, remember_traces, traced
from tests.support.small_graphs import write_graph

K, RANK, BLOCKS = 16, 10, 8 * 8  # 16x16 cells, four of which share a Gaussian


@pytest.fixture(autouse=True)
def traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_traces(monkeypatch, SHORT)


def export(out: Path, *, precision: str = "fp32", target: str = "cpu") -> ModelMetadata:
    options = ExportOptions(precision=precision, target=target, verify=False)
    exported = export_onnx(artefact(SHORT), out, options=options, good=open_dataset(data()))
    return exported.metadata


def write_plan(onnx_path: Path, metadata: ModelMetadata) -> Path:
    """A plan as `edgeseg export --trt` leaves it, with the plan itself made up."""
    plan = onnx_path.with_suffix(".plan")
    plan.write_bytes(b"vtrt" + bytes(1000))
    told = replace(metadata, plan=replace(PLAN, builder="rtx", plan_sha256=file_sha256(plan)))
    plan.with_suffix(".json").write_text(told.to_json())
    return plan


@pytest.mark.parametrize(
    ("precision", "target", "expected"),
    [
        ("fp32", "cpu", K * RANK * BLOCKS * 4),
        ("fp16", "cpu", K * RANK * BLOCKS * 2),
        ("int8", "trt", K * RANK * BLOCKS * 2),
        ("int8", "cpu", K * RANK * BLOCKS * 1 + RANK * BLOCKS * 4),  # and a scale a column
    ],
)
def test_the_bytes_that_the_quadratic_form_reads(
    tmp_path: Path, precision: str, target: str, expected: int
) -> None:
    export(tmp_path / "short.onnx", precision=precision, target=target)
    found = describe(tmp_path / "short.onnx")["quadratic_form_bytes_per_frame"]
    assert found == expected


@pytest.mark.parametrize(("precision", "size"), [("fp32", 4), ("fp16", 2)])
def test_a_map_of_its_own_reads_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str, size: int
) -> None:
    remember_traces(monkeypatch, SHOWN)
    out = tmp_path / "shown.onnx"
    options = ExportOptions(precision=precision, verify=False)
    told = export_onnx(artefact(SHOWN), out, options=options, good=open_dataset(data())).metadata
    facts, shown = describe(out), artefact(SHOWN).factors.shown
    assert shown is not None
    assert facts["quadratic_form_bytes_per_frame"] == size * (K * RANK * BLOCKS + shown.factor.size)
    assert facts["outputs"]["map_grid"] == facts["outputs"]["grid"] == "float [1, 16, 16]"
    plan = write_plan(out, told)
    out.unlink()
    assert describe(plan)["outputs"] == facts["outputs"], "the sidecar knows them, too"


def test_the_facts_of_a_graph(tmp_path: Path) -> None:
    out = tmp_path / "short.onnx"
    told = export(out)
    facts = describe(out)
    assert facts["inputs"] == {"frames": "uint8 [1, 64, 64, 3]"}
    assert facts["outputs"] == {
        "map": "float [1, 64, 64]",
        "score": "float [1]",
        "grid": "float [1, 16, 16]",
        "apart": f"float [1, 256, {told.k}]",
    }
    assert facts["size_bytes"] == out.stat().st_size
    assert facts["operators"]["Conv"] == 12
    assert sum(facts["operators"].values()) == len(traced(SHORT).graph.node)
    assert facts["metadata"]["threshold"].pop("method") == told.threshold.method
    shown = json.loads(replace(told, onnx_sha256=None).to_json())
    shown["reasons"] = {name: shown["reasons"][name] for name in ("layers", "usual")}
    assert facts["metadata"] == shown


def test_a_graph_over_two_gigabytes_is_counted_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "short.onnx"
    export(out)
    one = describe(out)
    monkeypatch.setattr(graph, "LARGEST_FILE", 100_000)
    export(out)
    two = describe(out)
    parts = [out.stat().st_size, out.with_name("short.onnx.data").stat().st_size]
    assert two["size_bytes"] == sum(parts)
    assert two["size_bytes"] == pytest.approx(one["size_bytes"], rel=0.05)
    told = two["metadata"]
    assert told["data_sha256"] == file_sha256(out.with_name("short.onnx.data"))
    assert told["graph_sha256"] != one["metadata"]["graph_sha256"], "the weights are elsewhere"
    same = {"size_bytes": 0, "metadata": 0}
    assert {**two, **same} == {**one, **same}


def test_a_plan_and_the_graph_it_was_built_from(tmp_path: Path) -> None:
    out = tmp_path / "short.onnx"
    plan = write_plan(out, export(out))
    facts, graph_facts = describe(plan), describe(out)
    for name in ("inputs", "outputs", "operators", "quadratic_form_bytes_per_frame"):
        assert facts[name] == graph_facts[name], name
    assert facts["size_bytes"] == 1004
    assert facts["metadata"]["plan"]["targets"] == ["sm86"]
    assert facts["metadata"]["onnx_sha256"] == file_sha256(out)


@pytest.mark.parametrize("change", ["gone", "another"])
def test_a_plan_without_its_graph(tmp_path: Path, change: str) -> None:
    out = tmp_path / "short.onnx"
    plan = write_plan(out, export(out))
    before = describe(plan)
    if change == "gone":
        out.unlink()
    else:
        write_graph(out)
    facts = describe(plan)
    assert facts["inputs"] == before["inputs"], "the sidecar knows them, too"
    assert facts["outputs"] == before["outputs"]
    assert facts["operators"] == ("unknown: short.onnx, which it was built from, is not beside it")
    assert "quadratic_form_bytes_per_frame" not in facts


def test_a_plan_of_any_batch(tmp_path: Path) -> None:
    out = tmp_path / "small.onnx"
    plan = write_plan(out, write_graph(out, batch=(1, 2, 4)))
    out.unlink()
    assert describe(plan)["inputs"] == {"frames": "uint8 [batch, 32, 48, 3]"}
    assert describe(plan)["outputs"]["score"] == "float [batch]"


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.onnx")), ids=lambda path: path.name)
def test_a_graph_is_read_as_onnx_reads_it(path: Path) -> None:
    """The device has no onnx: this is its own reader of the outline."""
    proto, facts = onnx.load(path).graph, describe(path)
    for told, values in (("inputs", proto.input), ("outputs", proto.output)):
        assert facts[told] == {value.name: shape_of(value) for value in values}
    assert facts["operators"] == Counter(node.op_type for node in proto.node)


def shape_of(value: onnx.ValueInfoProto) -> str:
    tensor = value.type.tensor_type
    sides = ", ".join(str(dim.dim_param or dim.dim_value) for dim in tensor.shape.dim)
    return f"{TensorProto.DataType.Name(tensor.elem_type).lower()} [{sides}]"


def test_a_foreign_graph(tmp_path: Path) -> None:
    path = tmp_path / "other.onnx"
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    node = helper.make_node("Add", ["x", "one"], ["y"])
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    onnx.save(helper.make_model(helper.make_graph([node], "g", [value], [output], [one])), path)
    facts = describe(path)
    assert facts["inputs"] == {"x": "float [n, 3]"}
    assert facts["operators"] == {"Add": 1}
    assert facts["quadratic_form_bytes_per_frame"] == 0
    assert facts["metadata"] == "none: this file was not exported by edgeseg"


def test_files_that_cannot_be_described(tmp_path: Path) -> None:
    def fails(name: str, content: bytes | None, match: str) -> None:
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(RuntimeFailure, match=match):
            describe(path)

    fails("no.onnx", None, "no.onnx: no such file; make one with `edgeseg export`")
    fails("text.onnx", b"not a graph at all", r"text.onnx: not an ONNX file \(.*export it again")
    fails("empty.onnx", b"", r"empty.onnx: not an ONNX file \(it has no graph\); export it again")
    fails("lone.plan", b"vtrt", "lone.plan: its sidecar lone.json is missing; a plan says nothing")
    (tmp_path / "bad.json").write_text("{")
    fails("bad.plan", b"vtrt", "bad.json: its edgeseg metadata cannot be used: not JSON")
    (tmp_path / "old.json").write_text('{"schema": 0}')
    fails("old.plan", b"vtrt", "old.json: its edgeseg metadata .*: schema 0, expected 2")


def test_the_command_prints_all_of_it(tmp_path: Path) -> None:
    out = tmp_path / "short.onnx"
    plan = write_plan(out, export(out))
    for path in (out, plan):
        text = succeed("info", path).stdout
        assert text.startswith(f"{path} (")
        for line in (
            "frames               uint8 [1, 64, 64, 3]",
            "map                  float [1, 64, 64]",
            "Conv                 12",
            f"quadratic_form_bytes_per_frame {K * RANK * BLOCKS * 4}",
            f"size_bytes           {path.stat().st_size}",
            "precision            fp32",
            "d2_mean              16 x 16 values",
        ):
            assert line in text, line
    facts: dict[str, Any] = json.loads(succeed("info", plan, "--json").stdout)
    assert facts.pop("signature") == {"signed": "no"}
    assert facts == json.loads(json.dumps(describe(plan)))
    assert facts["metadata"]["threshold"]["score"] == artefact(SHORT).calibration.score_threshold


def test_errors_of_the_command_are_one_line(tmp_path: Path) -> None:
    gone = tmp_path / "gone.onnx"
    assert fail("info", gone, code=1) == f"{gone}: no such file; make one with `edgeseg export`"


def test_what_was_decided_since_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    told = write_brightness_model(path)
    moved = replace(told, threshold=replace(told.threshold, score=123.0))
    path.with_suffix(".json").write_text(moved.to_json())
    assert describe(path)["metadata"]["threshold"]["score"] == 123.0
    path.with_suffix(".json").write_text(replace(moved, onnx_sha256="0" * 64).to_json())
    with pytest.raises(RuntimeFailure, match="one of the two was replaced or damaged"):
        describe(path)  # the sidecar of another file
    path.with_suffix(".json").unlink()
    assert describe(path)["metadata"]["threshold"]["score"] == 200.0
