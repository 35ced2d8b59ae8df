"""Any model file behind one face for timing: our graphs, other people's ONNX, OpenVINO IR, plans.

Nothing here knows what the outputs mean, so a graph without edgeseg metadata is timed like ours.
"""

import importlib.util
import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.metadata import KEY
from edgeseg.errors import RuntimeFailure, UsageError
from edgeseg.runtime.backends.openvino_session import FLOAT32

Feed = dict[str, NDArray[Any]]
BACKENDS = ("cpu", "cuda", "openvino", "tensorrt")
_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
_ERRORS_ONLY = 3  # of ONNX Runtime's severities
_ORT_TYPES = {
    "tensor(uint8)": np.uint8,
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}


class Runner(ABC):
    """A loaded model that can be fed and run."""

    backend: str
    precision: str  # what the file says of itself, or how its input is typed
    inputs: dict[str, tuple[tuple[int, ...], Any]]  # name -> shape, dtype

    @abstractmethod
    def run(self, feed: Feed) -> list[NDArray[Any]]:
        """All outputs for one feed."""

    def on_device(self, feed: Feed) -> "DeviceRun | None":
        """A run whose buffers stay on the GPU, where there is one."""
        return None

    @property
    def size_hw(self) -> tuple[int, int]:
        """Height and width of the image input."""
        for shape, _ in self.inputs.values():
            if len(shape) == 4:
                return (shape[1], shape[2]) if shape[3] == 3 else (shape[2], shape[3])
        raise UsageError(f"inputs {self.inputs}: none has four dimensions, expected an image")

    def prepare(self, frame_hwc: NDArray[np.uint8]) -> Feed:
        """What the graph wants instead of a uint8 frame; ours want the frame itself."""
        return {
            name: _as_input(frame_hwc, shape, dtype) for name, (shape, dtype) in self.inputs.items()
        }


class DeviceRun(ABC):
    """Runs on buffers that are on the GPU already; `run` returns when the GPU is done."""

    @abstractmethod
    def run(self) -> None:
        """One frame without copies between host and device."""


class OrtRunner(Runner):
    """ONNX Runtime on the CPU or through CUDA."""

    def __init__(self, path: Path, *, device: str, threads: int, size_hw: tuple[int, int]) -> None:
        ort = _require("onnxruntime", extra="gpu" if device == "cuda" else "cpu")
        provider = _PROVIDERS[device]
        if provider not in ort.get_available_providers():
            raise RuntimeFailure(
                f"{path}: this ONNX Runtime has no {provider}; install edgeseg[gpu], or use "
                "--backend cpu"
            )
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = _ERRORS_ONLY
        try:
            self._session = ort.InferenceSession(str(path), options, providers=[provider])
        except Exception as error:  # ONNX Runtime's classes have no common base
            raise RuntimeFailure(f"{path}: ONNX Runtime cannot load it ({_first(error)})") from None
        if self._session.get_providers()[0] != provider:
            raise RuntimeFailure(f"{path}: {provider} did not start; are its libraries installed?")
        self._ort, self._device = ort, device
        self.backend = f"onnxruntime {device}"
        self.inputs = {
            item.name: (_fixed(item.shape, size_hw), _ort_type(path, item.type))
            for item in self._session.get_inputs()
        }
        own = self._session.get_modelmeta().custom_metadata_map.get(KEY)
        self.precision = json.loads(own)["precision"] if own else "not stated"
        self._outputs = [item.name for item in self._session.get_outputs()]

    def run(self, feed: Feed) -> list[NDArray[Any]]:
        """All outputs, copied to the host."""
        outputs: list[NDArray[Any]] = self._session.run(self._outputs, feed)
        return outputs

    def named(self, feed: Feed) -> dict[str, NDArray[Any]]:
        """Outputs by name, for accuracy."""
        return dict(zip(self._outputs, self.run(feed), strict=True))

    def on_device(self, feed: Feed) -> DeviceRun | None:
        """Inputs and outputs bound to CUDA memory; None on a CPU."""
        if self._device != "cuda":
            return None
        return _CudaRun(self._ort, self._session, feed, self._outputs)


class _CudaRun(DeviceRun):
    def __init__(self, ort: Any, session: Any, feed: Feed, outputs: list[str]) -> None:
        self._session, self._binding = session, session.io_binding()
        self._held = {
            name: ort.OrtValue.ortvalue_from_numpy(array, "cuda", 0) for name, array in feed.items()
        }
        for name, value in self._held.items():
            self._binding.bind_ortvalue_input(name, value)
        for name in outputs:
            self._binding.bind_output(name, "cuda", 0)

    def run(self) -> None:
        """One frame, waited for."""
        self._session.run_with_iobinding(self._binding)
        self._binding.synchronize_outputs()


class OpenVinoRunner(Runner):
    """OpenVINO on the CPU, from ONNX or its own IR."""

    def __init__(self, path: Path, *, threads: int, size_hw: tuple[int, int]) -> None:
        openvino = _require("openvino", extra="openvino")
        core = openvino.Core()
        try:
            model = core.read_model(str(path))
            self.inputs = {
                port.get_any_name(): (
                    _fixed([_dimension(d) for d in port.get_partial_shape()], size_hw),
                    np.dtype(port.get_element_type().to_dtype()).type,
                )
                for port in model.inputs
            }
            model.reshape({name: list(shape) for name, (shape, _) in self.inputs.items()})
            settings = {
                "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_NUM_THREADS": threads,
                **FLOAT32,
            }
            self._compiled = core.compile_model(model, "CPU", settings)
        except RuntimeError as error:
            raise RuntimeFailure(f"{path}: OpenVINO cannot load it ({_first(error)})") from None
        self._request = self._compiled.create_infer_request()
        self.backend = "openvino cpu"
        where = ["framework", KEY]
        own = model.get_rt_info(where).value if model.has_rt_info(where) else None
        self.precision = json.loads(own)["precision"] if own else "not stated"

    def run(self, feed: Feed) -> list[NDArray[Any]]:
        """All outputs; they stay OpenVINO's memory until the next run."""
        found = self._request.infer(feed, share_outputs=True)
        return [found[port] for port in self._compiled.outputs]


class PlanRunner(Runner):
    """A TensorRT plan through the runtime's own session: upload, run, download."""

    def __init__(self, path: Path) -> None:
        from edgeseg.runtime.backends.base import open_session

        self._session = open_session(path, backend="tensorrt", allow_random_weights=True)
        self.backend = self._session.backend
        self.precision = self._session.metadata.precision
        self.inputs = {"frames": ((1, *self._session.metadata.size_hw, 3), np.uint8)}

    def run(self, feed: Feed) -> list[NDArray[Any]]:
        """The map of one frame."""
        return [self._session.infer(feed["frames"])[0].map_hw]


def open_runner(
    path: Path, *, backend: str, threads: int, size_hw: tuple[int, int] = (256, 256)
) -> Runner:
    """Load a model; `size_hw` is used where the file leaves its image size open."""
    if not path.is_file():
        raise UsageError(f"{path}: no such model; expected .onnx, OpenVINO's .xml or a .plan")
    if backend not in BACKENDS:
        raise UsageError(f"backend {backend!r}: expected one of {BACKENDS}")
    if path.suffix in (".plan", ".engine"):
        return PlanRunner(path)
    if backend == "openvino" or path.suffix == ".xml":
        return OpenVinoRunner(path, threads=threads, size_hw=size_hw)
    if backend == "tensorrt":
        raise UsageError(f"{path}: --backend tensorrt runs .plan files; build one with --trt")
    return OrtRunner(path, device=backend, threads=threads, size_hw=size_hw)


def size_on_disk(path: Path) -> int:
    """Bytes of a model with the files that belong to it: external tensors, OpenVINO's .bin."""
    beside = [path.with_suffix(".bin")] if path.suffix == ".xml" else [Path(f"{path}.data")]
    return sum(part.stat().st_size for part in [path, *beside] if part.is_file())


def _fixed(shape: list[Any], size_hw: tuple[int, int]) -> tuple[int, ...]:
    """Fill open dimensions: a batch of one frame, the given size of an image."""
    filled = [size if isinstance(size, int) and size > 0 else None for size in shape]
    if len(filled) == 4:
        channels_last = filled[3] == 3
        default = (1, *size_hw, 3) if channels_last else (1, 3, *size_hw)
        return tuple(d if s is None else s for s, d in zip(filled, default, strict=True))
    return tuple(1 if size is None else size for size in filled)


def _dimension(dimension: Any) -> int | None:
    return int(dimension.get_length()) if dimension.is_static else None


def _as_input(frame_hwc: NDArray[np.uint8], shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """The frame in the layout and type of an input; an input that is no image gets zeros."""
    if len(shape) != 4 or 3 not in (shape[1], shape[3]):
        return np.zeros(shape, dtype)
    values = frame_hwc if np.issubdtype(dtype, np.integer) else frame_hwc.astype(dtype) / 255
    if shape[3] != 3:
        values = values.transpose(2, 0, 1)
    whole = np.broadcast_to(values[None], shape)
    return np.ascontiguousarray(whole, dtype=dtype)


def _ort_type(path: Path, name: str) -> Any:
    if name not in _ORT_TYPES:
        raise RuntimeFailure(f"{path}: an input of {name}, expected one of {tuple(_ORT_TYPES)}")
    return _ORT_TYPES[name]


def _require(module: str, *, extra: str) -> Any:
    if importlib.util.find_spec(module) is None:
        raise RuntimeFailure(f"{module} is not installed; run: pip install 'edgeseg[{extra}]'")
    return importlib.import_module(module)


def _first(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
