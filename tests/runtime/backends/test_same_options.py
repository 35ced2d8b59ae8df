"""Verification, benchmark, `predict` and stream open every backend in one way.

Each is run as its user runs it, and what reaches the library is written down.
"""

import os
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import edgeseg.runtime
from edgeseg.bench.latency import timing
from edgeseg.bench.latency.runners import open_runner
from edgeseg.cli.bench_commands import bench
from edgeseg.cli.stream_command import stream
from edgeseg.export import sessions
from edgeseg.modelfile.precisions import PRECISIONS
from edgeseg.runtime.backends.choose import BACKENDS, open_session
from edgeseg.runtime.backends.session_options import DEFAULTS, SessionOptions, available_cores
from edgeseg.vision.images import write_image
from tests.doubles.fake_tensorrt_runtime import install_fakes, write_plan
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.commands import succeed

FRAME = np.zeros((32, 48, 3), np.uint8)
SOURCE = "synthetic:fps=0,frames=2,height=64,width=96"
SPINNING = "session.intra_op.allow_spinning"
CORES = "session.intra_op_thread_affinities"
PLAN = "a plan"  # by TensorRT itself, beside the backends that run a graph
OTHER_THREADS = DEFAULTS.thread_count + 1
# Another value of each option, as it is typed and as it is given to a function.
CHANGES: dict[str, tuple[tuple[str, ...], SessionOptions]] = {
    "threads": (("--threads", str(OTHER_THREADS)), SessionOptions(threads=OTHER_THREADS)),
    "spin": (("--spin",), SessionOptions(spin=True)),
}
# Which library, which bytes may be opened at all, and what runs elsewhere: no library is told.
UNHEARD = {"backend", "trust", "files", "allow_random_weights", "backbone"}
# What means nothing to a library: OpenVINO's threads have rules of their own, a plan has none.
DEAF = {("openvino", "spin"), (PLAN, "threads"), (PLAN, "spin")}
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

    class Options(onnxruntime.SessionOptions):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._by_key: dict[str, str] = {}

        def add_session_config_entry(self, key: str, value: str) -> None:
            self._by_key[key] = value
            super().add_session_config_entry(key, value)

        def named(self) -> dict[str, Any]:
            names = [name for name in dir(onnxruntime.SessionOptions) if not name.startswith("_")]
            plain = {name: getattr(self, name) for name in names}
            return {name: value for name, value in plain.items() if not callable(value)} | (
                self._by_key
            )

    class Recording(onnxruntime.InferenceSession):  # type: ignore[misc]
        def __init__(
            self, source: Any, options: Options, providers: Any, enable_fallback: int
        ) -> None:
            written.append({"providers": providers, **options.named()})
            self._claimed = [name for name, _ in providers]
            super().__init__(source, options, providers=["CPUExecutionProvider"])

        def get_providers(self) -> list[str]:
            return self._claimed

    monkeypatch.setattr(onnxruntime, "SessionOptions", Options)
    monkeypatch.setattr(onnxruntime, "InferenceSession", Recording)
    return written


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
def tensorrt_calls(monkeypatch: pytest.MonkeyPatch) -> Written:
    """All that TensorRT is told of a plan, until it runs."""
    _, trt = install_fakes(monkeypatch)
    return trt.told


@pytest.fixture
def calls(backend: str, request: pytest.FixtureRequest) -> Written:
    library = {"openvino": "openvino", PLAN: "tensorrt"}.get(backend, "onnxruntime")
    written: Written = request.getfixturevalue(f"{library}_calls")
    return written


def verified(model: Path, backend: str, *_: str) -> None:
    title = {"cpu": "ONNX Runtime", "openvino": "OpenVINO"}[backend]
    predictors = sessions.backend_predictors(model, precision="fp32", target="cpu", batch=(1, 1, 1))
    predictors[title]()(FRAME[None])


def timed(model: Path, backend: str, *words: str) -> None:
    out = ["--rounds", "2", "--fresh", "--out", str(model.parent / "out")]
    done = CliRunner().invoke(bench, ["latency", str(model), "--backend", backend, *out, *words])
    assert done.exit_code == 0, done.output


def predicted(model: Path, backend: str, *words: str) -> None:
    write_image(model.parent / "frame.png", FRAME)
    succeed("predict", model, model.parent / "frame.png", "--backend", backend, *words)


def streamed(model: Path, backend: str, *words: str) -> None:
    named = ["--model", str(model), "--source", SOURCE, "--backend", backend]
    done = CliRunner().invoke(stream, [*named, *words])
    assert done.exit_code == 0, done.output


User = Callable[..., None]
USERS: tuple[User, ...] = (verified, timed, predicted, streamed)


def users_of(backend: str) -> tuple[User, ...]:
    """A GPU's rounding is not verified here: an export runs on computers without one."""
    return USERS if backend in ("cpu", "openvino") else USERS[1:]


def file_of(backend: str, model: Path) -> tuple[Path, str]:
    """What is run, and the backend that is asked for."""
    return (write_plan(model.parent), "tensorrt") if backend == PLAN else (model, backend)


def told(user: User, calls: Written) -> dict[str, Any]:
    """What a user's one session was opened with."""
    calls.clear()
    user()
    (only,) = calls
    return dict(only)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fresh process, where nobody writes down what is told; no copies on a GPU, without one."""
    seconds = {"load_s": 1.0, "to_first_answer_s": 1.0, "memory_mb": 1.0}
    monkeypatch.setattr(timing, "cold_start", lambda *_, **__: seconds)
    monkeypatch.setattr("edgeseg.bench.latency.runners.OrtRunner.on_device", lambda *_: None)


@pytest.mark.parametrize("backend", [*BACKENDS, PLAN])
@pytest.mark.usefixtures("in_this_process")
def test_all_give_a_library_the_same_options(model: Path, backend: str, calls: Written) -> None:
    path, name = file_of(backend, model)
    heard = {user.__name__: told(partial(user, path, name), calls) for user in users_of(backend)}
    first = heard["streamed"]
    assert first, "nothing was written down"
    assert heard == dict.fromkeys(heard, first)


def test_every_option_is_changed_here() -> None:
    assert {item.name for item in fields(SessionOptions)} == {*CHANGES, *UNHEARD}


@pytest.mark.parametrize("option", CHANGES)
@pytest.mark.parametrize("backend", [*BACKENDS, PLAN])
@pytest.mark.usefixtures("in_this_process")
def test_it_is_noticed_when_one_of_them_changes_alone(
    model: Path, backend: str, option: str, calls: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every user in turn opens its session with another value, all others as they are."""
    path, name = file_of(backend, model)
    words, changed = CHANGES[option]
    usual = told(partial(streamed, path, name), calls)
    for user in users_of(backend):
        with monkeypatch.context() as alone:
            if user is verified:  # an export has no such options
                alone.setattr(sessions, "SessionOptions", lambda: changed)
            other = told(partial(user, path, name, *words), calls)
        assert (other == usual) == ((backend, option) in DEAF), f"{user.__name__} alone"


@pytest.mark.parametrize(("spin", "text"), [(False, "0"), (True, "1")])
@pytest.mark.usefixtures("in_this_process")
def test_spinning_is_one_option(
    model: Path, onnxruntime_calls: Written, spin: bool, text: str
) -> None:
    flag = "--spin" if spin else "--no-spin"
    for user in (streamed, predicted, timed):
        user(model, "cpu", flag)
    with edgeseg.runtime.open(model, backend="cpu", threads=2, spin=spin) as detector:
        assert detector.backend == "ONNX Runtime CPU, 2 threads"
        words = "spin" if spin else "no spin"
        assert detector.runs_on == f"ONNX Runtime CPU, 2 threads, float32, {words}"
    assert [call[SPINNING] for call in onnxruntime_calls] == [text] * 4
    table = (model.parent / "out" / "report.md").read_text(encoding="utf-8")
    assert f"| fp32 | float32 | {'yes' if spin else 'no'} |" in table
    assert SessionOptions.spin is False


@pytest.mark.parametrize("precision", PRECISIONS)
def test_openvino_computes_in_what_the_precision_of_the_file_says(
    tmp_path: Path, openvino_calls: Written, precision: str
) -> None:
    """Its default is bfloat16 where a processor has it, which is not what was verified."""
    path = tmp_path / "part.onnx"
    write_brightness_model(path, metadata=replace(brightness_metadata(), precision=precision))
    with open_session(path, SessionOptions(backend="openvino")) as session:
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
        open_session(model, replace(options, backend="cpu")).close()
    own = ";".join(str(core + 1) for core in DEFAULTS.helper_cores) or None
    assert [call.get(CORES) for call in onnxruntime_calls] == [own, None]
