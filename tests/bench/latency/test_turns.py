"""Timing of any graph: inputs of every kind, turns, cold starts, and the command."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

from edgeseg.bench.cli.command import bench
from edgeseg.bench.latency.cold_start import cold_start
from edgeseg.bench.latency.report import candidates_of
from edgeseg.bench.latency.runners import open_runner, size_on_disk
from edgeseg.bench.latency.turns import Candidate, Schedule, measure_latency
from edgeseg.errors import RuntimeFailure, UsageError
from edgeseg.runtime.backends.session_options import SessionOptions

ONE_THREAD = SessionOptions(threads=1)
FRAME = np.random.default_rng(0).integers(0, 256, (32, 48, 3), np.uint8)


def write_mean(path: Path, shape: list[int | str], kind: int = TensorProto.FLOAT) -> Path:
    """A graph that averages its input: someone else's model, without our metadata."""
    nodes = [
        helper.make_node("Cast", ["image"], ["x"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["x"], ["mean"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "mean",
        [helper.make_tensor_value_info("image", kind, shape)],
        [helper.make_tensor_value_info("mean", TensorProto.FLOAT, [])],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


@pytest.mark.parametrize("backend", ["cpu", "openvino"])
@pytest.mark.parametrize(
    ("shape", "kind", "scale"),
    [
        ([1, 3, 32, 48], TensorProto.FLOAT, 255),
        (["N", 3, "H", "W"], TensorProto.FLOAT, 255),
        ([1, 32, 48, 3], TensorProto.UINT8, 1),
        ([2, 3, 32, 48], TensorProto.FLOAT, 255),
    ],
)
def test_any_image_input_is_fed(
    tmp_path: Path, backend: str, shape: list[int | str], kind: int, scale: int
) -> None:
    path = write_mean(tmp_path / "mean.onnx", shape, kind)
    runner = open_runner(path, backend=backend, options=ONE_THREAD, size_hw=(32, 48))
    assert runner.size_hw == (32, 48)
    assert runner.precision == "not stated"
    (found,) = runner.run(runner.prepare(FRAME))
    assert float(found) == pytest.approx(FRAME.mean() / scale, rel=1e-4)


def test_turns_are_taken_by_all(tmp_path: Path) -> None:
    path = write_mean(tmp_path / "mean.onnx", [1, 3, 32, 48])
    found = measure_latency(
        [Candidate(name="a", path=path), Candidate(name="b", path=path, backend="openvino")],
        schedule=Schedule(rounds=3, turn=4, warmup=1),
        options=ONE_THREAD,
    )
    assert [timing.key for timing in found] == ["a on cpu", "b on openvino"]
    for timing in found:
        assert timing.host_ms.shape == (3, 4)
        assert timing.prepare_ms.shape == (3,)
        assert timing.device_ms is None
        assert (timing.host_ms > 0).all()
    plain = found[1].to_dict(found[0])
    json.dumps(plain, allow_nan=False)
    assert plain["ratio"]["low"] <= plain["ratio"]["value"] <= plain["ratio"]["high"]
    assert found[0].to_dict(found[0])["ratio"] == {"value": 1.0, "low": 1.0, "high": 1.0}


def test_a_fresh_process_reports_its_start(tmp_path: Path) -> None:
    path = write_mean(tmp_path / "mean.onnx", [1, 3, 32, 48])
    found = cold_start(path, backend="cpu", options=ONE_THREAD, size_hw=(32, 48), repeats=1)
    assert 0 < found["load_s"] < found["to_first_answer_s"] < found["process_s"]
    assert 0 < found["memory_mb"] < found["peak_mb"]


def test_a_fresh_process_that_fails_says_why(tmp_path: Path) -> None:
    path = tmp_path / "torn.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(RuntimeFailure, match=r"a fresh process cannot run it .*cannot load it"):
        cold_start(path, backend="cpu", options=ONE_THREAD, size_hw=(32, 48), repeats=1)


def test_external_tensors_count_as_size(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"12345")
    (tmp_path / "m.onnx.data").write_bytes(b"123")
    (tmp_path / "ir.xml").write_bytes(b"1")
    (tmp_path / "ir.bin").write_bytes(b"1234")
    assert size_on_disk(tmp_path / "m.onnx") == 8
    assert size_on_disk(tmp_path / "ir.xml") == 5


def test_candidates_are_models_on_the_backends_that_can_run_them(tmp_path: Path) -> None:
    for name in ("a/model.onnx", "b/model.onnx", "b/ir.xml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    models = [tmp_path / name for name in ("a/model.onnx", "b/model.onnx", "b/ir.xml")]
    assert [item.key for item in candidates_of(models, ["cpu", "openvino"])] == [
        "a/model on cpu",
        "a/model on openvino",
        "b/model on cpu",
        "b/model on openvino",
        "ir on openvino",
    ]


def test_the_command_writes_the_report_and_resumes(tmp_path: Path) -> None:
    first = write_mean(tmp_path / "first.onnx", [1, 3, 32, 48])
    second = write_mean(tmp_path / "second.onnx", [1, 64, 64, 3], TensorProto.UINT8)
    words = ["latency", "--models", str(first), str(second), "--rounds", "2", "--threads", "1"]
    words += ["--out", str(tmp_path / "out")]
    run = CliRunner().invoke(bench, words)
    assert run.exit_code == 0, run.output
    assert "| first | onnxruntime cpu |" in run.output
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"report.md", "report.json", "report.html", "latency.png", ".gitignore"} <= names
    again = CliRunner().invoke(bench, words)
    assert "3 of 3 results are there already" in again.output
    # Another file under the same name is another model.
    write_mean(first, [1, 3, 64, 48])
    third = CliRunner().invoke(bench, words)
    assert "1 of 3 results are there already" in third.output


def test_mistakes_are_named(tmp_path: Path) -> None:
    path = write_mean(tmp_path / "mean.onnx", [1, 3, 32, 48])
    item = Candidate(name="a", path=path)
    with pytest.raises(UsageError, match="expected one or more, each named once"):
        measure_latency([item, item], schedule=Schedule(), options=ONE_THREAD)
    with pytest.raises(UsageError, match="rounds=0: expected at least 1"):
        Schedule(rounds=0)
    with pytest.raises(UsageError, match=r"gone\.onnx: no such model"):
        open_runner(tmp_path / "gone.onnx", backend="cpu", options=ONE_THREAD)
    with pytest.raises(UsageError, match="backend 'toy': expected one of auto, tensorrt, "):
        open_runner(path, backend="toy", options=ONE_THREAD)
    with pytest.raises(UsageError, match="no models to time"):
        candidates_of([], ["cpu"])
    for backend, name in (("cuda", "CUDA"), ("tensorrt", "TensorRT")):
        with pytest.raises(RuntimeFailure, match=f"this ONNX Runtime has no {name} provider"):
            open_runner(path, backend=backend, options=ONE_THREAD)


@pytest.mark.parametrize("module", ["cli.command", "latency.report"])
def test_light_to_import(module: str) -> None:
    # latency.report runs on devices that have neither torch nor matplotlib.
    code = (
        f"import sys, edgeseg.bench.{module};"
        "heavy = {'torch', 'onnx', 'onnxruntime', 'matplotlib', 'openvino'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
