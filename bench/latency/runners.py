"""Any model file behind one face for timing: our graphs, other people's ONNX, OpenVINO IR, plans.

Nothing here knows what the outputs mean, so a graph without edgeseg metadata is timed like ours.
Libraries are opened by the runtime's own functions: what is timed is what a stream runs.
"""

import json
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.modelfile.metadata import PLAN_SUFFIXES
from edgeseg.runtime.backends import onnxruntime_session, openvino_session
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.model_file import first_line
from edgeseg.runtime.backends.session_options import SessionOptions

Feed = dict[str, NDArray[Any]]
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
    precision: str  # what the file says of itself
    arithmetic: str = "float32"  # what is computed where the file itself does not round
    spin: bool | None = None  # of idle threads; None: the library has no such option
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
    """ONNX Runtime on one of its providers."""

    def __init__(
        self, path: Path, options: SessionOptions, *, device: str, size_hw: tuple[int, int]
    ) -> None:
        session = onnxruntime_session.open_onnxruntime(path, options, device=device)
        self._session, self._device = session, device
        self.backend, self.spin = f"onnxruntime {device}", options.spin
        self.inputs = {
            item.name: (_fixed(item.shape, size_hw), _ort_type(path, item.type))
            for item in session.get_inputs()
        }
        self.precision = _stated(onnxruntime_session.metadata_text(session))
        self._outputs = [item.name for item in session.get_outputs()]

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
        return _CudaRun(self._session, feed, self._outputs)


class _CudaRun(DeviceRun):
    def __init__(self, session: Any, feed: Feed, outputs: list[str]) -> None:
        import onnxruntime as ort

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

    def __init__(self, path: Path, options: SessionOptions, *, size_hw: tuple[int, int]) -> None:
        graph = openvino_session.read_openvino(path)
        self.inputs = {
            port.get_any_name(): (
                _fixed([_dimension(d) for d in port.get_partial_shape()], size_hw),
                np.dtype(port.get_element_type().to_dtype()).type,
            )
            for port in graph.inputs
        }
        try:
            graph.reshape({name: list(shape) for name, (shape, _) in self.inputs.items()})
        except RuntimeError as error:
            reason = first_line(error)
            raise RuntimeFailure(f"{path}: OpenVINO cannot fix its size ({reason})") from None
        self._compiled = openvino_session.compile_openvino(graph, options, model=path)
        self._request = self._compiled.create_infer_request()
        self.backend = "openvino cpu"
        self.precision = _stated(openvino_session.metadata_text(graph))
        self.arithmetic = openvino_session.arithmetic(self._compiled)

    def run(self, feed: Feed) -> list[NDArray[Any]]:
        """All outputs; they stay OpenVINO's memory until the next run."""
        outputs = self._request.infer(feed, share_outputs=True)
        return [outputs[port] for port in self._compiled.outputs]


class SessionRunner(Runner):
    """Our own files through the session of any backend: a plan, or what runs only those."""

    def __init__(self, path: Path, options: SessionOptions, *, backend: str) -> None:
        self._session = open_session(
            path, replace(options, backend=backend, allow_random_weights=True)
        )
        self.backend, self.arithmetic = self._session.backend, self._session.arithmetic
        self.spin = self._session.spin
        self.precision = self._session.metadata.precision
        self.inputs = {"frames": ((1, *self._session.metadata.size_hw, 3), np.uint8)}

    def run(self, feed: Feed) -> list[NDArray[Any]]:
        """The map of one frame."""
        return [self._session.infer(feed["frames"])[0].map_hw]


def open_runner(
    path: Path, *, backend: str, options: SessionOptions, size_hw: tuple[int, int] = (256, 256)
) -> Runner:
    """Load a model; `size_hw` is used where the file leaves its image size open."""
    if not path.is_file():
        raise UsageError(f"{path}: no such model; expected .onnx, OpenVINO's .xml or a .plan")
    if path.suffix in PLAN_SUFFIXES:
        return SessionRunner(path, options, backend="tensorrt")
    if backend == "openvino" or path.suffix == ".xml":
        return OpenVinoRunner(path, options, size_hw=size_hw)
    if backend in onnxruntime_session.DEVICES:
        return OrtRunner(path, options, device=backend, size_hw=size_hw)
    return SessionRunner(path, options, backend=backend)


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


def _stated(metadata: str | None) -> str:
    return "not stated" if metadata is None else str(json.loads(metadata)["precision"])
