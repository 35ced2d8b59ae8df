"""Verification, benchmark, `predict` and stream open every backend in one way.

Each is run as its user runs it, and what reaches the library is written down.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import edgeseg.runtime
from edgeseg.bench.cli.command import bench
from edgeseg.bench.latency import report
from edgeseg.bench.latency.runners import open_runner
from edgeseg.contract.precisions import PRECISIONS
from edgeseg.export.sessions import installed_backends
from edgeseg.runtime.backends.choose import BACKENDS, open_session
from edgeseg.runtime.backends.session_options import DEFAULTS, SessionOptions, available_cores
from edgeseg.runtime.stream import stream
from tests.support.brightness_model import brightness_metadata, write_brightness_model

FRAME = np.zeros((32, 48, 3), np.uint8)
SOURCE = "synthetic:fps=0,frames=2,height=64,width=96"
SPINNING = "session.intra_op.allow_spinning"
CORES = "session.intra_op_thread_affinities"
Written = list[dict[str, Any]]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "part.onnx"
    write_brightness_model(path)
    return path


@pytest.fixture
def onnxruntime_calls(monkeypatch: pytest.MonkeyPatch) -> Written:
    """All that ONNX Runtime is told; it claims to have every provider and runs on the CPU."""
    import onnxruntime

    written: Written = []
    providers = ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: providers)

    class Recording(onnxruntime.InferenceSession):  # type: ignore[misc]
        def __init__(self, source: Any, options: Any, providers: Any, enable_fallback: int) -> None:
            written.append({"providers": providers, **_named(options)})
            self._claimed = [name for name, _ in providers]
            super().__init__(source, options, providers=["CPUExecutionProvider"])

        def get_providers(self) -> list[str]:
            return self._claimed

    monkeypatch.setattr(onnxruntime, "InferenceSession", Recording)
    return written


def _named(options: Any) -> dict[str, Any]:
    """Every option by name; those that are set by key, by their keys."""
    names = [name for name in dir(options) if not name.startswith("_")]
    plain = {name: getattr(options, name) for name in names}
    by_key = {key: _entry(options, key) for key in (SPINNING, CORES)}
    return {name: value for name, value in plain.items() if not callable(value)} | by_key


def _entry(options: Any, key: str) -> str | None:
    try:
        value: str = options.get_session_config_entry(key)
    except RuntimeError:  # it was not set
        return None
    return value


@pytest.fixture
def openvino_calls(monkeypatch: pytest.MonkeyPatch) -> Written:
    """All that OpenVINO is told when it compiles."""
    import openvino

    written: Written = []

    class Recording(openvino.Core):
        def compile_model(self, graph: Any, device: str, settings: dict[str, Any]) -> Any:
            written.append({"device": device, **settings})
            return super().compile_model(graph, device, settings)

    monkeypatch.setattr(openvino, "Core", Recording)
    return written


@pytest.fixture
def calls(backend: str, request: pytest.FixtureRequest) -> Written:
    library = "openvino" if backend == "openvino" else "onnxruntime"
    written: Written = request.getfixturevalue(f"{library}_calls")
    return written


def verified(model: Path, backend: str) -> None:
    title = {"cpu": "ONNX Runtime", "openvino": "OpenVINO"}[backend]
    predictors = installed_backends(model, precision="fp32", target="cpu", batch=(1, 1, 1))
    predictors[title]()(FRAME[None])


def timed(model: Path, backend: str) -> None:
    out = model.parent / "out"
    words = ["latency", str(model), "--backend", backend, "--rounds", "2", "--out", str(out)]
    done = CliRunner().invoke(bench, words)
    assert done.exit_code == 0, done.output


def predicted(model: Path, backend: str) -> None:
    with edgeseg.runtime.open(model, backend=backend) as detector:
        detector.predict(FRAME)


def streamed(model: Path, backend: str) -> None:
    words = [
        "--model",
        str(model),
        "--source",
        "synthetic:fps=0,frames=2,height=64,width=96",
        "--backend",
        backend,
    ]
    done = CliRunner().invoke(stream, words)
    assert done.exit_code == 0, done.output


USERS: tuple[Callable[[Path, str], None], ...] = (verified, timed, predicted, streamed)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fresh process, where nobody writes down what is told; no copies on a GPU, without one."""
    seconds = {"load_s": 1.0, "to_first_answer_s": 1.0, "memory_mb": 1.0}
    monkeypatch.setattr(report, "cold_start", lambda *_, **__: seconds)
    monkeypatch.setattr("edgeseg.bench.latency.runners.OrtRunner.on_device", lambda *_: None)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.usefixtures("in_this_process")
def test_all_give_a_library_the_same_options(model: Path, backend: str, calls: Written) -> None:
    # A GPU's rounding is not verified here: an export runs on computers without one.
    users = USERS if backend in ("cpu", "openvino") else USERS[1:]
    for user in users:
        user(model, backend)
    names = [user.__name__ for user in users]
    assert dict(zip(names, calls, strict=True)) == dict.fromkeys(names, calls[0])


@pytest.mark.parametrize("backend", ["cpu", "openvino"])
def test_it_is_noticed_when_one_of_them_changes_alone(
    model: Path, backend: str, calls: Written
) -> None:
    for options in (DEFAULTS, SessionOptions(threads=DEFAULTS.thread_count + 1)):
        open_session(model, backend=backend, options=options).close()
        open_runner(model, backend=backend, options=options)
    first, same, changed, changed_too = calls
    assert first == same != changed == changed_too


@pytest.mark.parametrize(("spin", "text"), [(False, "0"), (True, "1")])
def test_spinning_is_one_option(
    model: Path, onnxruntime_calls: Written, in_this_process: None, spin: bool, text: str
) -> None:
    flag = "--spin" if spin else "--no-spin"
    rest = [
        "--model",
        str(model),
        "--source",
        "synthetic:fps=0,frames=1,height=64,width=96",
        "--backend",
        "cpu",
    ]
    assert CliRunner().invoke(stream, [flag, *rest]).exit_code == 0
    words = ["latency", flag, str(model), "--rounds", "2", "--out", str(model.parent / "out")]
    table = CliRunner().invoke(bench, words).output
    with edgeseg.runtime.open(model, backend="cpu", threads=2, spin=spin) as detector:
        assert detector.backend == "ONNX Runtime CPU, 2 threads" + spin * ", spinning"
    assert [call[SPINNING] for call in onnxruntime_calls] == [text] * 3
    assert f"| fp32 | float32 | {'yes' if spin else 'no'} |" in table
    assert SessionOptions.spin is False


@pytest.mark.parametrize("precision", PRECISIONS)
def test_openvino_computes_in_what_the_precision_of_the_file_says(
    tmp_path: Path, openvino_calls: Written, precision: str
) -> None:
    """Its default is bfloat16 where a processor has it, which is not what was verified."""
    path = tmp_path / "part.onnx"
    write_brightness_model(path, metadata=replace(brightness_metadata(), precision=precision))
    with open_session(path, backend="openvino") as session:
        computed_in = session.arithmetic
    runner = open_runner(path, backend="openvino", options=DEFAULTS)
    assert (runner.precision, runner.arithmetic, runner.spin) == (precision, computed_in, None)
    hint = "bf16" if precision == "bf16" else "f32"
    assert {call["INFERENCE_PRECISION_HINT"] for call in openvino_calls} == {hint}
    if hint == "f32":  # which every processor has
        assert computed_in == PRECISIONS[precision].arithmetic == "float32"


@pytest.mark.parametrize(
    ("cores", "threads", "helpers"),
    [
        ({2, 5, 7}, None, (5, 7)),
        ({2, 5, 7}, 3, (5, 7)),
        ({2, 5, 7}, 2, ()),  # where they run best is the system's to say
        ({2, 5, 7}, 4, ()),
        ({3}, None, ()),
    ],
)
def test_helping_threads_have_a_core_each_where_they_fill_all(
    monkeypatch: pytest.MonkeyPatch, cores: set[int], threads: int | None, helpers: tuple[int, ...]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores)
    assert SessionOptions(threads=threads).helper_cores == helpers


def test_cores_that_the_system_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert DEFAULTS.helper_cores == ()
    assert DEFAULTS.thread_count == os.cpu_count()


def test_onnxruntime_is_told_the_cores_of_its_helping_threads(
    model: Path, onnxruntime_calls: Written
) -> None:
    for threads in (None, available_cores() + 1):
        options = SessionOptions(threads=threads)
        open_session(model, backend="cpu", options=options).close()
    own = ";".join(str(core + 1) for core in DEFAULTS.helper_cores) or None
    assert [call[CORES] for call in onnxruntime_calls] == [own, None]
