"""The study of precisions: what is cut off a graph, what is compared with what, and a small run."""

from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import numpy_helper

from edgeseg.bench.harness.report import read_report
from edgeseg.bench.latency.turns import Schedule
from edgeseg.bench.studies.precision import precisions
from edgeseg.bench.studies.precision.head_share import at_taps
from edgeseg.bench.studies.precision.precision_tables import Measured, tables_of
from edgeseg.bench.studies.precision.precisions import Study, run_study
from edgeseg.contract.metrics import stored_metrics
from edgeseg.errors import ExportError
from edgeseg.export.precision.int8 import Quantiser
from tests.support.bench_tables import by_column
from tests.support.export_models import (
    SHORT,
    artefact,
    data_with_model,
    frames,
    good_frames,
    remember_traces,
    run,
    traced,
)


def test_the_cut_graph_gives_the_feature_maps() -> None:
    images = frames(1)
    model = artefact(SHORT).model()
    with torch.no_grad():
        maps = model.backbone(model.preprocess(torch.from_numpy(images)))
    found = run(at_taps(traced(SHORT)), images)
    assert list(found) == [f"tap_{number}" for number in range(len(maps))]
    for value, wanted in zip(found.values(), maps, strict=True):
        np.testing.assert_allclose(value, wanted.numpy(), rtol=1e-3, atol=1e-3)


def test_a_rounded_graph_is_cut_at_the_same_places() -> None:
    proto = Quantiser(traced(SHORT), good_frames(4), target="cpu").quantise()
    cut = at_taps(proto)
    exact = run(at_taps(traced(SHORT)), frames(1))
    found = run(cut, frames(1))
    assert {name: value.shape for name, value in found.items()} == {
        name: value.shape for name, value in exact.items()
    }
    names = {tensor.name for tensor in cut.graph.initializer}
    assert not any(name.startswith("embedding.") or name == "factor" for name in names)


def test_a_graph_of_others_is_refused() -> None:
    proto = traced(SHORT)
    for node in proto.graph.node:
        node.input[:] = [name.replace("embedding.kernel_", "w_") for name in node.input]
    for tensor in proto.graph.initializer:
        name = tensor.name.replace("embedding.kernel_", "w_")
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), name))
    with pytest.raises(ExportError, match="the graph has no projection of features"):
        at_taps(proto)


def result(**changed: float) -> dict[str, object]:
    figures = {metric.key: 0.9 for metric in stored_metrics()} | changed
    return {
        "size_bytes": 2_000_000,
        "form": "all of it",
        "refused": {},
        "accuracy": {"cpu": figures},
        "head_error": {"ONNX Runtime": 0.001},
    }


def test_a_precision_is_compared_where_both_were_exported() -> None:
    measured = Measured(
        categories=("a", "b"),
        backbones=("net",),
        precisions=("fp32", "int8"),
        results={
            "a net fp32": result(),
            "b net fp32": result(pro=0.5),
            "a net int8": result(recall=0.89),
            "b net int8": {"refused_all": "int8.onnx: disagrees"},
        },
    )
    exact, rounded = measured.means()
    assert (exact.accuracy["pro"], rounded.accuracy["pro"]) == (pytest.approx(0.7), 0.9)
    assert rounded.change["pro"] == 0.0, "on `a` alone, which both have"
    assert rounded.change["recall"] == pytest.approx(-0.01)
    assert list(measured.findings()) == ["net int8 on cpu, 1 categories: loses recall -0.0100."]
    forms = next(table for table in tables_of(measured) if "export" in table.title)
    assert [row["exported as"] for row in by_column(forms)] == ["all of it", "all of it", "refused"]


def test_heads_of_an_earlier_run_did_not_say_whether_threads_spin() -> None:
    row = {
        **{"model": "net fp32", "backend": "onnxruntime cpu", "arithmetic": "float32"},
        **{"frame_ms": 9.0, "backbone_ms": 8.0, "head": "0.11 (0.10 to 0.12)", "head_share": 0.11},
    }
    for heads, said in (((row,), False), ((row | {"spin": {"spin": "no"}},), True)):
        measured = Measured(categories=(), backbones=(), precisions=(), results={}, heads=heads)
        (shown,) = by_column(list(tables_of(measured))[-1])
        assert ("spin" in shown) == said


def test_the_share_of_a_head_is_held_against_its_goal() -> None:
    shares = {"resnet18 fp32": 0.12, "resnet18 int8": 0.1248, "other fp32": 0.5}
    heads = [
        {"model": model, "backend": "onnxruntime cpu", "head_share": share}
        for model, share in shares.items()
    ]
    measured = Measured(categories=(), backbones=(), precisions=(), results={}, heads=heads)
    assert list(measured.findings()) == [
        "resnet18 fp32 in onnxruntime cpu: the head takes 0.120 of the frame, goal at most 0.12: "
        "met.",
        "resnet18 int8 in onnxruntime cpu: the head takes 0.125 of the frame, goal at most 0.12: "
        "missed.",
    ]


def test_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remember_traces(monkeypatch, SHORT)
    lines: list[str] = []
    monkeypatch.setattr(precisions, "note", lines.append)
    dataset = data_with_model(tmp_path, SHORT)
    study = Study(
        out=tmp_path,
        datasets=(dataset,),
        backbones=(SHORT.backbone,),
        precisions=("fp32",),
        backends=("cpu",),
        threads=1,
        config=SHORT,
    )
    schedule = Schedule(rounds=2, turn=1, warmup=1, streamed=1, fps=1000)
    report = run_study(study, schedule, fresh=False)
    (row,) = by_column(report.tables[0])
    assert (row["precision"], row["categories"], row["PRO - fp32"]) == ("fp32", 1, 0.0)
    (head,) = by_column(report.tables[-1])
    assert (head["model"], head["arithmetic"]) == (f"{SHORT.backbone} fp32", "float32")
    assert head["spin"] == "no"
    assert read_report(tmp_path).tables == report.tables
    lines.clear()
    assert run_study(study, schedule, fresh=False).tables == report.tables
    assert "1 of 1 results are there already" in lines
