"""Plans: refused before use where they do not fit; buffers and graphs on stand-ins for CUDA.

A real TensorRT-RTX plan is built where the package is installed: building needs no GPU.
"""

import hashlib
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgeseg.base.errors import RuntimeFailure
from edgeseg.modelfile.file_reading import Files
from edgeseg.runtime.backends import choose
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.plan_check import _versions_fit, rebuild
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.backends.tensorrt_session import TensorRtSession
from tests.doubles.fake_tensorrt_runtime import FakeCuda, install_fakes, write_plan
from tests.support.brightness_model import PLAN, brightness_metadata, write_brightness_model

FRAMES = np.random.default_rng(0).integers(0, 255, (5, 32, 48, 3), dtype=np.uint8)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install stand-ins with the given properties."""
    return partial(install_fakes, monkeypatch)


def check(session: Any, count: int) -> None:
    for frame, prediction in zip(FRAMES, session.infer(FRAMES[:count]), strict=False):
        expected = frame.mean(axis=2)
        np.testing.assert_allclose(prediction.map_hw, expected, atol=1e-3)
        assert prediction.score == pytest.approx(expected.max(), abs=1e-3)
        assert prediction.grid_hw.shape == (4, 6)


def test_a_static_plan_runs_as_a_graph(tmp_path: Path, fakes: Any) -> None:
    cuda, trt = fakes()
    with TensorRtSession(write_plan(tmp_path)) as session:
        assert session.backend == "TensorRT 10.3.0, sm86, CUDA graph"
        check(session, 5)
        assert cuda.calls == ["launch"] * 5
        assert trt.enqueued == 2, "once to warm up, once into the graph"
        assert len(cuda.memory) == 8, "four tensors, on both sides, allocated once"
    assert cuda.memory == {}
    assert cuda.graphs == {}
    assert cuda.calls[-1] == "destroy stream"


def test_a_plan_runs_as_it_was_hashed(
    tmp_path: Path, fakes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorRT runs what is in a plan: one that is replaced behind the look at it is not loaded."""
    _, trt = fakes()
    plan, loaded = write_plan(tmp_path), []
    monkeypatch.setattr(TensorRtSession, "_load", keep_loaded(TensorRtSession._load, loaded))

    def reading(self: Files, path: Path) -> bytes:
        data = path.read_bytes()
        path.write_bytes(b"replaced while it was opened")
        return data

    monkeypatch.setattr(Files, "read", reading)
    with open_session(plan, SessionOptions(backend="tensorrt")) as session:
        assert session.model_sha256 == hashlib.sha256(b"plan").hexdigest()
    assert loaded == [b"plan"]
    assert trt.enqueued


def keep_loaded(real: Callable[[TensorRtSession, bytes], Any], loaded: list[bytes]) -> Any:
    def load(session: TensorRtSession, data: bytes) -> Any:
        loaded.append(data)
        return real(session, data)

    return load


def test_a_dynamic_batch_runs_without_a_graph(tmp_path: Path, fakes: Any) -> None:
    cuda, _ = fakes(batch=-1)
    with TensorRtSession(write_plan(tmp_path, batch=(1, 2, 4))) as session:
        assert session.backend == "TensorRT 10.3.0, sm86, dynamic batch"
        for count in (4, 1, 3, 5, 2):
            check(session, count)
        assert len(cuda.memory) == 8
    assert cuda.memory == {}


def test_a_static_batch_is_filled_up(tmp_path: Path, fakes: Any) -> None:
    fakes(batch=2)
    with TensorRtSession(write_plan(tmp_path, batch=(2, 2, 2))) as session:
        check(session, 5)


def test_a_plan_that_cannot_be_captured_runs_and_says_so(tmp_path: Path, fakes: Any) -> None:
    cuda, _ = fakes(capturable=False)
    with TensorRtSession(write_plan(tmp_path)) as session:
        assert session.backend.endswith("no CUDA graph: this plan cannot be captured")
        check(session, 3)
    assert "launch" not in cuda.calls


REBUILD = (
    "build it again on this computer with `edgeseg export part.edgeseg --trt`, "
    "or run the .onnx file"
)


@pytest.mark.parametrize(
    ("plan", "options", "message"),
    [
        (
            {"builder_version": "10.2.0"},
            {},
            "built with TensorRT 10.2.0, and 10.3.0 is installed; " + REBUILD,
        ),
        ({}, {"capability": (7, 5)}, "built for sm86, and this GPU is sm75; " + REBUILD),
        ({}, {"capability": (8, 9)}, "built for sm86, and this GPU is sm89; " + REBUILD),
        (
            {"targets": ["sm86"], "hardware_compatible": True},
            {"capability": (8, 0)},
            "built for sm86, and this GPU is sm80",
        ),
        ({}, {"driver": False}, "cudaDeviceGetAttribute failed (CUDA driver version is insuff"),
        ({}, {"loads": False}, "TensorRT cannot load it (Serialization assertion failed)"),
        ({"builder": "tvm"}, {}, "built by 'tvm', expected one of tensorrt, rtx"),
        ({"plan_sha256": "0" * 64}, {}, "expected 000000000000... as in part.json"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(
    tmp_path: Path, fakes: Any, plan: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    fakes(**options)
    with pytest.raises(RuntimeFailure) as error:
        open_session(write_plan(tmp_path, **plan), SessionOptions(backend="tensorrt"))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("plan", "options"),
    [
        ({"hardware_compatible": True}, {"capability": (8, 9)}),
        ({"builder_version": "10.0.1", "version_compatible": True}, {"host_code": True}),
        ({"builder_version": "10.3.0.26"}, {}),
        ({"targets": ["sm75", "sm86"]}, {}),
    ],
)
def test_a_compatible_plan_is_taken(
    tmp_path: Path, fakes: Any, plan: dict[str, Any], options: dict[str, Any]
) -> None:
    fakes(**options)
    with TensorRtSession(write_plan(tmp_path, **plan)) as session:
        check(session, 1)


def test_the_rebuild_command_is_that_of_the_plan() -> None:
    metadata = replace(brightness_metadata(), precision="int8", plan=replace(PLAN, builder="rtx"))
    assert (
        "`edgeseg export part.edgeseg --trt --builder rtx --precision int8 --calibrate GOOD_IMAGES`"
        in rebuild(Path("/models/part.plan"), metadata)
    )


def test_versions() -> None:
    assert _versions_fit("1.7.1", "1.7.1.116", compatible=False)
    assert not _versions_fit("1.7.0", "1.7.1.116", compatible=False)
    assert not _versions_fit("10.4.0", "10.3.0", compatible=True), "older runtimes never fit"
    assert not _versions_fit("9.3.0", "10.3.0", compatible=True), "nor other major versions"


def test_auto_falls_back_to_the_graph_beside_the_plan(
    tmp_path: Path, fakes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes(driver=False)
    monkeypatch.setattr(choose, "has_cuda", lambda: False)
    notes: list[str] = []
    with open_session(
        write_plan(tmp_path), SessionOptions(threads=1), note=notes.append
    ) as session:
        assert session.backend == "ONNX Runtime CPU, 1 thread"
    assert "cudaDeviceGetAttribute failed" in notes[0]
    assert notes[1] == "part.plan runs on ONNX Runtime CPU, 1 thread, float32, no spin"


def test_auto_does_not_excuse_a_damaged_plan(tmp_path: Path, fakes: Any) -> None:
    fakes()
    path = write_plan(tmp_path)
    path.write_bytes(b"damaged")
    with pytest.raises(RuntimeFailure, match="one of the two was replaced or damaged"):
        open_session(path)


def test_auto_does_not_take_a_graph_that_is_another_model(tmp_path: Path, fakes: Any) -> None:
    fakes(driver=False)
    path = write_plan(tmp_path)
    path.with_suffix(".onnx").write_bytes(b"another")
    with pytest.raises(RuntimeFailure, match="cudaDeviceGetAttribute failed"):
        open_session(path)


@pytest.fixture(scope="module")
def real_plan(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Built by TensorRT-RTX for a GPU that need not be here."""
    trt = pytest.importorskip("tensorrt_rtx")
    model = tmp_path_factory.mktemp("rtx") / "part.onnx"
    write_brightness_model(model)
    log = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(log)
    network = builder.create_network(0)
    assert trt.OnnxParser(network, log).parse(model.read_bytes())
    config = builder.create_builder_config()
    config.num_compute_capabilities = 1
    config.set_compute_capability(trt.ComputeCapability.SM86, 0)
    return bytes(builder.build_serialized_network(network, config))


def test_a_real_plan_on_a_computer_without_a_gpu(tmp_path: Path, real_plan: bytes) -> None:
    trt = pytest.importorskip("tensorrt_rtx")
    from cuda.bindings import runtime

    if int(runtime.cudaGetDeviceCount()[0]) == 0:
        pytest.skip("this computer has a GPU")
    path = write_plan(
        tmp_path, content=real_plan, builder="rtx", builder_version=str(trt.__version__)
    )
    with pytest.raises(RuntimeFailure, match="CUDA: cudaDeviceGetAttribute failed"):
        open_session(path, SessionOptions(backend="tensorrt"))


def test_the_real_loader_is_reached_and_its_reason_quoted(
    tmp_path: Path, real_plan: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    trt = pytest.importorskip("tensorrt_rtx")
    if int(__import__("cuda.bindings.runtime", fromlist=["x"]).cudaGetDeviceCount()[0]) == 0:
        pytest.skip("this computer has a GPU")
    # A stand-in for CUDA claims that there is a GPU; TensorRT-RTX itself finds none.
    monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", FakeCuda())
    version = str(trt.__version__)
    for content, reason in ((real_plan, "CUDA"), (b"no plan" * 999, "malformed engine")):
        path = write_plan(tmp_path, content=content, builder="rtx", builder_version=version)
        with pytest.raises(RuntimeFailure, match="this GPU, driver or version cannot run") as error:
            open_session(path, SessionOptions(backend="tensorrt"))
        assert reason in str(error.value)


@pytest.mark.gpu
def test_a_real_plan_on_a_real_gpu(tmp_path: Path, real_plan: bytes) -> None:
    trt = pytest.importorskip("tensorrt_rtx")
    from cuda.bindings import runtime

    if int(runtime.cudaGetDeviceCount()[0]) != 0:
        pytest.skip("needs a CUDA device")
    path = write_plan(
        tmp_path, content=real_plan, builder="rtx", builder_version=str(trt.__version__), targets=[]
    )
    with TensorRtSession(path) as session:
        check(session, 5)
