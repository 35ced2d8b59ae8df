"""Stand-ins for tensorrt and cuda-python that keep their promises in host memory.

They are strict where the real ones crash: addresses must be allocated, copies must fit, a graph
must be instantiated before it is launched, and nothing may be freed twice.
"""

import ctypes
import enum
import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.brightness_model import PLAN, brightness_metadata, write_brightness_model


def write_plan(
    folder: Path, *, batch: tuple[int, int, int] = (1, 1, 1), content: bytes = b"plan", **plan: Any
) -> Path:
    """A plan, its sidecar and the graph it was built from."""
    metadata = write_brightness_model(
        folder / "part.onnx", metadata=brightness_metadata(batch=batch)
    )
    path = folder / "part.plan"
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    sidecar = replace(metadata, plan=replace(PLAN, **({"plan_sha256": digest} | plan)))
    path.with_suffix(".json").write_text(sidecar.to_json())
    return path


def install_fakes(
    monkeypatch: pytest.MonkeyPatch,
    *,
    batch: int = 1,
    capability: tuple[int, int] = (8, 6),
    driver: bool = True,
    **options: Any,
) -> "tuple[FakeCuda, FakeTrt]":
    """Let TensorRT and CUDA be these stand-ins, with the given properties."""
    cuda = FakeCuda(capability=capability, driver=driver)
    trt = FakeTrt(cuda, batch=batch, **options)
    for name, module in (("tensorrt", trt), ("cuda.bindings.runtime", cuda)):
        module.__spec__ = object()  # type: ignore[attr-defined]  # what find_spec looks for
        monkeypatch.setitem(sys.modules, name, module)
    return cuda, trt


class Status(enum.IntEnum):
    OK = 0
    BAD = 35


class FakeCuda:
    """cuda.bindings.runtime, with ordinary memory as the device."""

    cudaDeviceAttr = SimpleNamespace(
        cudaDevAttrComputeCapabilityMajor="major", cudaDevAttrComputeCapabilityMinor="minor"
    )
    cudaMemcpyKind = SimpleNamespace(cudaMemcpyHostToDevice="up", cudaMemcpyDeviceToHost="down")
    cudaStreamCaptureMode = SimpleNamespace(cudaStreamCaptureModeThreadLocal="local")
    cudaStreamNonBlocking = 1

    def __init__(self, *, capability: tuple[int, int] = (8, 6), driver: bool = True) -> None:
        self._capability, self._driver = capability, driver
        self.memory: dict[int, Any] = {}
        self.calls: list[str] = []
        self.capturing: list[Any] | None = None
        self.graphs: dict[int, list[Any]] = {}

    def _enqueue(self, work: Any) -> None:
        work() if self.capturing is None else self.capturing.append(work)

    def cudaGetErrorString(self, status: Status) -> tuple[Status, bytes]:
        return Status.OK, b"CUDA driver version is insufficient"

    def cudaDeviceGetAttribute(self, name: str, device: int) -> tuple[Any, ...]:
        if not self._driver:
            return Status.BAD, None
        return Status.OK, self._capability[name == "minor"]

    def cudaStreamCreateWithFlags(self, flags: int) -> tuple[Any, ...]:
        return Status.OK, 77

    def cudaStreamDestroy(self, stream: int) -> tuple[Any, ...]:
        self.calls.append("destroy stream")
        return (Status.OK,)

    def cudaMalloc(self, size: int) -> tuple[Any, ...]:
        memory = (ctypes.c_uint8 * size)()
        self.memory[ctypes.addressof(memory)] = memory
        return Status.OK, ctypes.addressof(memory)

    cudaMallocHost = cudaMalloc

    def cudaFree(self, address: int) -> tuple[Any, ...]:
        del self.memory[address]  # a KeyError when freed twice
        return (Status.OK,)

    cudaFreeHost = cudaFree

    def cudaMemcpyAsync(
        self, target: int, origin: int, size: int, kind: str, stream: int
    ) -> tuple[Any, ...]:
        if max(size, 1) > min(len(self.memory[target]), len(self.memory[origin])):
            return Status.BAD, None
        self._enqueue(lambda: ctypes.memmove(target, origin, size))
        return (Status.OK,)

    def cudaStreamSynchronize(self, stream: int) -> tuple[Any, ...]:
        return (Status.BAD if self.capturing is not None else Status.OK,)

    def cudaStreamBeginCapture(self, stream: int, mode: str) -> tuple[Any, ...]:
        self.capturing = []
        return (Status.OK,)

    def cudaStreamEndCapture(self, stream: int) -> tuple[Any, ...]:
        graph, self.capturing = self.capturing, None
        return Status.OK, graph

    def cudaGraphInstantiate(self, graph: list[Any], flags: int) -> tuple[Any, ...]:
        self.graphs[5] = graph
        return Status.OK, 5

    def cudaGraphDestroy(self, graph: list[Any]) -> tuple[Any, ...]:
        return (Status.OK,)

    def cudaGraphLaunch(self, executable: int, stream: int) -> tuple[Any, ...]:
        self.calls.append("launch")
        for work in self.graphs[executable]:
            work()
        return (Status.OK,)

    def cudaGraphExecDestroy(self, executable: int) -> tuple[Any, ...]:
        del self.graphs[executable]
        return (Status.OK,)


class FakeTrt:
    """tensorrt, with the brightness model as the only engine."""

    __version__ = "10.3.0"

    class ILogger:
        INTERNAL_ERROR, ERROR, WARNING = 0, 1, 2

    def __init__(
        self,
        cuda: FakeCuda,
        *,
        batch: int,
        loads: bool = True,
        capturable: bool = True,
        host_code: bool = False,
    ):
        self.cuda, self.loads, self.capturable = cuda, loads, capturable
        self.host_code = host_code  # the plan holds some, as a version-compatible one does
        self.shapes = {
            "frames": (batch, 32, 48, 3),
            "map": (batch, 32, 48),
            "score": (batch,),
            "grid": (batch, 4, 6),
        }
        self.enqueued = 0
        self.gain = 1.0  # how this device computes the map, beside the graph
        self.told: list[dict[str, Any]] = []  # when each engine was loaded, and made ready to run

    def nptype(self, dtype: str) -> type:
        return np.uint8 if dtype == "uint8" else np.float32

    def Runtime(self, log: Any) -> Any:
        runtime = SimpleNamespace(engine_host_code_allowed=False)
        self.told.append({})

        def deserialize(data: bytes) -> Any:
            self.told[-1]["plan"] = data
            return self._engine(runtime, log)

        runtime.deserialize_cuda_engine = deserialize
        return runtime

    def _engine(self, runtime: Any, log: Any) -> Any:
        if not self.loads or runtime.engine_host_code_allowed != self.host_code:
            log.log(self.ILogger.WARNING, "only a warning")
            log.log(self.ILogger.ERROR, "Serialization assertion failed")
            return None
        names = list(self.shapes)
        self.told[-1]["host code"] = runtime.engine_host_code_allowed
        return SimpleNamespace(
            num_io_tensors=len(names),
            get_tensor_name=lambda index: names[index],
            get_tensor_shape=lambda name: self.shapes[name],
            get_tensor_dtype=lambda name: "uint8" if name == "frames" else "float32",
            create_execution_context=lambda: FakeContext(self),
        )


class FakeContext:
    """IExecutionContext: computes where the addresses say."""

    def __init__(self, trt: FakeTrt) -> None:
        self._trt, self._told = trt, trt.told[-1]
        self._addresses: dict[str, int] = {}
        self.shape: tuple[int, ...] | None = None

    def set_tensor_address(self, name: str, address: int) -> bool:
        self._addresses[name] = address
        return True

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        self.shape = shape
        self._told.setdefault("shapes", []).append((name, shape))
        return True

    def is_stream_capturable(self, stream: int) -> bool:
        return self._trt.capturable

    def execute_async_v3(self, stream: int) -> bool:
        if self.shape is None or set(self._addresses) != set(self._trt.shapes):
            return False
        self._trt.enqueued += 1
        self._told["enqueued"] = self._told.get("enqueued", 0) + 1
        shape = self.shape
        self._trt.cuda._enqueue(lambda: self._compute(shape))
        return True

    def _view(self, name: str, dtype: type, shape: tuple[int, ...]) -> np.ndarray:
        memory = self._trt.cuda.memory[self._addresses[name]]
        return np.frombuffer(memory, dtype)[: np.prod(shape, dtype=int)].reshape(shape)

    def _compute(self, shape: tuple[int, ...]) -> None:
        count = shape[0]
        maps = self._view("frames", np.uint8, shape).mean(axis=3, dtype=np.float32)
        maps *= self._trt.gain
        self._view("map", np.float32, (count, 32, 48))[:] = maps
        self._view("score", np.float32, (count,))[:] = maps.max(axis=(1, 2))
        cells = maps.reshape(count, 4, 8, 6, 8).mean(axis=(2, 4))
        self._view("grid", np.float32, (count, 4, 6))[:] = cells
