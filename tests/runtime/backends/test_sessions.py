"""Backends that run here, against numpy; refusals and fall-backs."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeseg.base.errors import EdgesegError, RuntimeFailure, UsageError
from edgeseg.base.files import file_sha256
from edgeseg.modelfile.file_reading import Files
from edgeseg.runtime.backends import choose
from edgeseg.runtime.backends.base import warm_up
from edgeseg.runtime.backends.choose import BACKENDS, open_session
from edgeseg.runtime.backends.model_file import first_line
from edgeseg.runtime.backends.onnxruntime_session import OrtSession
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.vision.images import write_image
from tests.doubles.fakes import BrightnessSession
from tests.support.brightness_model import (
    brightness_graph,
    brightness_metadata,
    write_brightness_model,
)
from tests.support.commands import succeed

FRAMES = np.random.default_rng(0).integers(0, 255, (5, 32, 48, 3), dtype=np.uint8)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "part.onnx"
    write_brightness_model(path)
    return path


@pytest.mark.parametrize("backend", ["cpu", "openvino", "auto"])
@pytest.mark.parametrize("batch", [(1, 1, 1), (1, 2, 4), (3, 3, 3), (2, 4, 8)])
def test_scores_are_those_of_numpy_for_any_batch(
    tmp_path: Path, backend: str, batch: tuple[int, int, int]
) -> None:
    path = tmp_path / "part.onnx"
    write_brightness_model(path, metadata=brightness_metadata(batch=batch))
    with open_session(path, SessionOptions(backend=backend, threads=1)) as session:
        predictions = session.infer(FRAMES)
    assert len(predictions) == len(FRAMES)
    for frame, prediction in zip(FRAMES, predictions, strict=True):
        expected = frame.mean(axis=2)
        np.testing.assert_allclose(prediction.map_hw, expected, atol=1e-3)
        assert prediction.score == pytest.approx(expected.max(), abs=1e-3)
        cells = expected.reshape(4, 8, 6, 8).mean(axis=(1, 3))
        np.testing.assert_allclose(prediction.grid_hw, cells, atol=1e-3)


@pytest.mark.parametrize("backend", ["cpu", "openvino"])
def test_predictions_survive_the_next_run(model: Path, backend: str) -> None:
    with open_session(model, SessionOptions(backend=backend, threads=1)) as session:
        (first,) = session.infer(FRAMES[:1])
        kept = first.map_hw.copy(), first.grid_hw.copy()
        session.infer(FRAMES[1:2])
    assert np.array_equal(first.map_hw, kept[0])
    assert np.array_equal(first.grid_hw, kept[1])


@pytest.mark.parametrize("backend", ["cpu", "openvino"])
def test_what_is_hashed_is_what_runs(
    model: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    """A file is read once: replaced behind the look at its hash, it is still the one that runs."""
    if backend == "openvino":
        pytest.importorskip("openvino", reason="needs OpenVINO: pip install edgeseg[openvino]")
    whole, read = model.read_bytes(), []

    def reading(self: Files, path: Path) -> bytes:
        data = path.read_bytes()
        read.append(path)
        path.write_bytes(b"replaced while it was opened")
        return data

    monkeypatch.setattr(Files, "read", reading)
    with open_session(model, SessionOptions(backend=backend)) as session:
        assert session.model_sha256 == hashlib.sha256(whole).hexdigest()
        assert session.infer(FRAMES[:1])
    assert sorted(read) == sorted({model, model.with_suffix(".json")})


def test_a_file_without_a_sidecar_has_a_hash(model: Path) -> None:
    model.with_suffix(".json").unlink()
    with open_session(model, SessionOptions(backend="cpu")) as session:
        assert session.model_sha256 == file_sha256(model)


def test_a_session_knows_the_hash_of_the_file_that_runs(model: Path) -> None:
    with open_session(model, SessionOptions(backend="cpu")) as session:
        assert session.model_sha256 == file_sha256(model)


def test_frames_are_split_and_filled_to_the_graphs_batch() -> None:
    session = BrightnessSession(brightness_metadata(batch=(2, 2, 2)))
    assert len(session.infer(FRAMES)) == 5
    assert session.batches == [2, 2, 2], "the last one was filled up, and its filler dropped"
    assert session.infer(FRAMES[:0]) == []


def test_a_model_without_a_grid(tmp_path: Path) -> None:
    path = tmp_path / "part.onnx"
    write_brightness_model(path, metadata=brightness_metadata(outputs=("map", "score")))
    for backend in ("cpu", "openvino"):
        with open_session(path, SessionOptions(backend=backend)) as session:
            assert session.infer(FRAMES[:1])[0].grid_hw is None


def test_auto_says_nothing_of_what_this_computer_cannot_have(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    monkeypatch.setattr(choose, "has_cuda", lambda: False)
    with open_session(model, SessionOptions(threads=2), note=notes.append):
        assert notes == ["part.onnx runs on ONNX Runtime CPU, 2 threads, float32, no spin"]


def test_auto_says_what_it_takes_and_why(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(choose, "has_cuda", lambda: True)
    with open_session(model, SessionOptions(threads=2), note=notes.append) as session:
        assert session.backend == "ONNX Runtime CPU, 2 threads"
    assert notes == [
        f"{model}: this ONNX Runtime has no TensorRT provider; install `edgeseg[gpu]`, "
        "or use backend=cpu",
        f"{model}: this ONNX Runtime has no CUDA provider; install `edgeseg[gpu]`, "
        "or use backend=cpu",
        "part.onnx runs on ONNX Runtime CPU, 2 threads, float32, no spin",
    ]


def test_a_precision_that_is_not_computed_here_is_mentioned_before_the_first_frame(
    tmp_path: Path,
) -> None:
    path, notes = tmp_path / "part.onnx", []
    write_brightness_model(path, metadata=replace(brightness_metadata(), precision="bf16"))
    with open_session(path, SessionOptions(backend="cpu"), note=notes.append):
        assert notes[-1] == (
            "part.onnx is a bf16 file, and here it is computed in float32: its threshold was "
            "found in bfloat16; run it in OpenVINO on a processor that has bfloat16, or export fp32"
        )


ON_A_PROCESSOR = (
    "part.onnx is a fp16 file, and here a processor runs it, which does not round as fp16 says and "
    "as it was verified; run it on a GPU, or export fp32"
)


@pytest.mark.parametrize("backend", ["cpu", "openvino"])
def test_fp16_on_a_processor_is_mentioned_before_the_first_frame(
    tmp_path: Path, backend: str
) -> None:
    path, notes = tmp_path / "part.onnx", []
    write_brightness_model(path, metadata=replace(brightness_metadata(), precision="fp16"))
    open_session(path, SessionOptions(backend=backend), note=notes.append).close()
    assert notes[-1] == ON_A_PROCESSOR
    write_image(tmp_path / "frame.png", FRAMES[0])
    source = ("--source", str(tmp_path / "frame.png"))
    said = succeed("stream", "--model", path, *source, "--backend", backend).stderr.splitlines()
    assert ON_A_PROCESSOR in said
    said = succeed("predict", path, tmp_path / "frame.png", "--backend", backend).stderr
    assert ON_A_PROCESSOR in said.splitlines()


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_other_precisions_run_as_they_say(tmp_path: Path, precision: str) -> None:
    path, notes = tmp_path / "part.onnx", []
    write_brightness_model(path, metadata=replace(brightness_metadata(), precision=precision))
    open_session(path, SessionOptions(backend="cpu"), note=notes.append).close()
    assert len(notes) == 1


@pytest.mark.parametrize("backend", ["cpu", "openvino"])
def test_int8_for_tensorrt_on_a_processor_is_mentioned(tmp_path: Path, backend: str) -> None:
    path, notes = tmp_path / "part.onnx", []
    metadata = replace(brightness_metadata(), precision="int8", target="trt")
    write_brightness_model(path, metadata=metadata)
    open_session(path, SessionOptions(backend=backend), note=notes.append).close()
    assert notes[-1] == (
        "part.onnx is an int8 file for TensorRT, and here a processor runs it, whose sums of its "
        "eight bits overflow where it has no VNNI: scores may be wrong; run it on a GPU, or export "
        "it for CPUs"
    )


def test_a_gpu_rounds_as_fp16_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, notes = BrightnessSession(replace(brightness_metadata(), precision="fp16")), []
    monkeypatch.setitem(BACKENDS, "toy", lambda model, options: session)
    write_brightness_model(tmp_path / "part.onnx")
    open_session(tmp_path / "part.onnx", SessionOptions(backend="toy"), note=notes.append).close()
    assert notes == ["part.onnx runs on numpy, float32"]


def test_a_backend_that_was_asked_for_is_not_replaced(model: Path) -> None:
    with pytest.raises(RuntimeFailure, match="no CUDA provider"):
        open_session(model, SessionOptions(backend="cuda"))


def test_a_provider_that_does_not_start_is_noticed(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnxruntime

    # What ONNX Runtime does when libcudnn is missing: it lists the provider, then runs on the CPU.
    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: providers)
    real = onnxruntime.InferenceSession
    asked: list[object] = []

    def falls_back(
        path: str, options: object, providers: list[object], enable_fallback: int
    ) -> object:
        asked.append(providers[0])
        return real(path, options, providers=["CPUExecutionProvider"])

    monkeypatch.setattr(onnxruntime, "InferenceSession", falls_back)
    with pytest.raises(RuntimeFailure, match="the CUDA provider did not start"):
        OrtSession(model, SessionOptions(), device="cuda")
    assert asked == [("CUDAExecutionProvider", {"use_tf32": "0"})], "float32 is not rounded to TF32"


def test_threads_are_named(model: Path) -> None:
    with open_session(model, SessionOptions(backend="cpu", threads=1)) as session:
        assert session.backend == "ONNX Runtime CPU, 1 thread"
    with open_session(model, SessionOptions(backend="openvino", threads=1)) as session:
        assert session.backend == "OpenVINO CPU, 1 thread"


def test_a_model_without_metadata_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "foreign.onnx"
    path.write_bytes(brightness_graph(None).SerializeToString())
    for backend in ("cpu", "openvino"):
        with pytest.raises(RuntimeFailure, match=r"no edgeseg metadata inside.*`edgeseg export`"):
            open_session(path, SessionOptions(backend=backend))


@pytest.mark.parametrize("backend", ["auto", "cpu", "openvino"])
def test_a_model_that_is_not_its_sidecars_is_refused(model: Path, backend: str) -> None:
    other = brightness_metadata(threshold=1.0)
    model.write_bytes(brightness_graph(other).SerializeToString())
    with pytest.raises(RuntimeFailure, match=r"as in part\.json; one of the two was replaced"):
        open_session(model, SessionOptions(backend=backend))


def test_a_model_may_come_without_a_sidecar(model: Path) -> None:
    model.with_suffix(".json").unlink()
    open_session(model, SessionOptions(backend="cpu")).close()


def test_random_weights_need_permission(tmp_path: Path) -> None:
    path = tmp_path / "part.onnx"
    write_brightness_model(path, metadata=brightness_metadata(random_weights=True))
    with pytest.raises(RuntimeFailure, match=r"random weights.*allow_random_weights=True"):
        open_session(path, SessionOptions(backend="cpu"))
    open_session(path, SessionOptions(backend="cpu", allow_random_weights=True)).close()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.onnx", None, "absent.onnx: no such model; `edgeseg export` writes"),
        ("model.pt", b"x", "model.pt: expected a .onnx or .plan file"),
        ("broken.onnx", b"x" * 100, "broken.onnx: no edgeseg metadata inside"),
        ("alone.plan", b"x", "alone.plan: no alone.json beside it that describes a plan"),
    ],
)
def test_files_that_are_no_models(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    backend = "tensorrt" if name.endswith("plan") else "cpu"
    with pytest.raises(EdgesegError) as error:
        open_session(tmp_path / name, SessionOptions(backend=backend))
    assert message in str(error.value)


def test_frames_of_another_size_are_refused(model: Path) -> None:
    with (
        open_session(model, SessionOptions(backend="cpu")) as session,
        pytest.raises(UsageError, match=r"expected uint8 \(N, 32, 48, 3\)"),
    ):
        session.infer(FRAMES[:, :16])


def test_warm_up_runs_the_batch_that_will_be_used() -> None:
    session = BrightnessSession(brightness_metadata(batch=(1, 4, 4)))
    warm_up(session, batch=3)
    assert session.batches == [3, 3, 3]


def test_what_is_wrong_comes_before_where_in_a_library() -> None:
    where = "Exception from src/core.cpp:132:\nException from src/plugin.cpp:59:\n"
    assert first_line(RuntimeError(f"{where}Check 'axis' failed\nmore\n")) == "Check 'axis' failed"
    assert first_line(RuntimeError(where)) == "RuntimeError"
