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

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.bench.latency import turns
from edgeseg.bench.latency.cold_start import cold_start
from edgeseg.bench.latency.runners import open_runner, size_on_disk
from edgeseg.bench.latency.timing import candidates_of
from edgeseg.bench.latency.turns import LatencyCandidate, Schedule, measure_latency
from edgeseg.cli.bench_commands import bench
from edgeseg.runtime.backends.choose import BACKENDS
from edgeseg.runtime.backends.session_options import SessionOptions
from tests.doubles.fakes import BrightnessSession
from tests.support.brightness_model import write_brightness_model

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
    assert runner.arithmetic == "float32"
    (mean,) = runner.run(runner.prepare(FRAME))
    assert float(mean) == pytest.approx(FRAME.mean() / scale, rel=1e-4)


def test_turns_are_taken_by_all(tmp_path: Path) -> None:
    path = write_mean(tmp_path / "mean.onnx", [1, 3, 32, 48])
    timings = measure_latency(
        [
            LatencyCandidate(name="a", path=path),
            LatencyCandidate(name="b", path=path, backend="openvino"),
        ],
        schedule=Schedule(rounds=3, turn=4, warmup=1, streamed=2, fps=1000),
        options=ONE_THREAD,
    )
    assert [timing.key for timing in timings] == ["a on cpu", "b on openvino"]
    assert [timing.spin for timing in timings] == [False, None]
    for timing in timings:
        assert timing.arithmetic == "float32"
        assert timing.host_ms.shape == (3, 4)
        assert timing.streamed_ms.shape == (3, 2)
        for each in (timing.prepare_ms, timing.processor_ms, timing.streamed_processor_ms):
            assert each.shape == (3,)
        assert timing.device_ms is None
        assert (timing.host_ms > 0).all()
        assert (timing.streamed_ms > 0).all()
        assert (timing.processor_ms > 0).all()
    plain = timings[1].to_dict(timings[0])
    json.dumps(plain, allow_nan=False)
    assert plain["ratio"]["low"] <= plain["ratio"]["value"] <= plain["ratio"]["high"]
    assert plain["streamed_ms"]["p50"] == np.median(timings[1].streamed_ms)
    assert timings[0].to_dict(timings[0])["ratio"] == {"value": 1.0, "low": 1.0, "high": 1.0}


class Clock:
    """Stands for the module `time`: a call lasts 5 ms on two threads, or as long as it is told."""

    def __init__(self) -> None:
        self.now_ms = self.busy_ms = 0
        self.starts: list[int] = []

    def perf_counter_ns(self) -> int:
        return self.now_ms * 1_000_000

    def process_time(self) -> float:
        return self.busy_ms / 1e3

    def sleep(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1e3)
        self.busy_ms += 1  # what does not sleep meanwhile

    def run(self, ms: int = 5) -> None:
        self.starts.append(self.now_ms)
        self.now_ms += ms
        self.busy_ms += 2 * ms


def test_a_streamed_frame_comes_when_the_camera_gives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(turns, "time", clock)
    samples = turns._time_calls(clock.run, 3, uncounted=1, period_s=0.02)
    assert clock.starts == [0, 20, 40, 60]
    assert samples.ms == [5.0, 5.0, 5.0]
    assert samples.processor_ms == pytest.approx(11), "up to the next frame"
    clock.starts.clear()
    samples = turns._time_calls(clock.run, 2, uncounted=1)
    assert clock.starts == [80, 85, 90], "back to back"
    assert samples.processor_ms == pytest.approx(10)
    clock.starts.clear()
    turns._time_calls(lambda: clock.run(25), 2, period_s=0.02)
    assert clock.starts == [95, 120], "a frame that is late is followed at once"


def test_a_backend_of_the_registry_is_timed_through_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BACKENDS, "toy", lambda model, options: BrightnessSession())
    path = tmp_path / "part.onnx"
    write_brightness_model(path)
    runner = open_runner(path, backend="toy", options=ONE_THREAD)
    assert (runner.backend, runner.precision, runner.spin) == ("numpy", "fp32", None)
    (map_hw,) = runner.run(runner.prepare(FRAME))
    np.testing.assert_allclose(map_hw, FRAME.mean(axis=2), rtol=1e-6)


def test_a_fresh_process_reports_its_start(tmp_path: Path) -> None:
    path = write_mean(tmp_path / "mean.onnx", [1, 3, 32, 48])
    report = cold_start(path, backend="cpu", options=ONE_THREAD, size_hw=(32, 48), repeats=1)
    assert 0 < report["load_s"] < report["to_first_answer_s"] < report["process_s"]
    assert 0 < report["memory_mb"] < report["peak_mb"]


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
    assert "| first | onnxruntime cpu | not stated | float32 | no |" in run.output
    assert (
        "| p50 ms | p95 ms | p99 ms | FPS | streamed p50 ms | streamed p99 ms | processor ms |"
        in (run.output)
    )
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
    item = LatencyCandidate(name="a", path=path)
    with pytest.raises(UsageError, match="expected one or more, each named once"):
        measure_latency([item, item], schedule=Schedule(), options=ONE_THREAD)
    with pytest.raises(UsageError, match="rounds=0: expected at least 1"):
        Schedule(rounds=0)
    with pytest.raises(UsageError, match="threads=0: expected at least 1"):
        SessionOptions(threads=0)
    with pytest.raises(UsageError, match=r"gone\.onnx: no such model"):
        open_runner(tmp_path / "gone.onnx", backend="cpu", options=ONE_THREAD)
    with pytest.raises(UsageError, match="backend 'toy': expected one of auto, tensorrt, "):
        open_runner(path, backend="toy", options=ONE_THREAD)
    with pytest.raises(UsageError, match="no models to time"):
        candidates_of([], ["cpu"])
    for backend, name in (("cuda", "CUDA"), ("tensorrt", "TensorRT")):
        with pytest.raises(RuntimeFailure, match=f"this ONNX Runtime has no {name} provider"):
            open_runner(path, backend=backend, options=ONE_THREAD)


@pytest.mark.parametrize("module", ["cli.bench_commands", "bench.latency.latency"])
def test_light_to_import(module: str) -> None:
    # latency.latency runs on devices that have neither torch nor matplotlib.
    code = (
        f"import sys, edgeseg.{module};"
        "heavy = {'torch', 'onnx', 'onnxruntime', 'matplotlib', 'openvino'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
