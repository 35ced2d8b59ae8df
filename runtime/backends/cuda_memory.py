"""Wrap the few CUDA calls that a session needs, through NVIDIA's own bindings."""

import ctypes
import importlib
import math
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.runtime.backends.model_file import BackendUnavailable


def load_cuda() -> ModuleType:
    """Import NVIDIA's runtime bindings, under the name that their version uses."""
    for name in ("cuda.bindings.runtime", "cuda.cudart"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise BackendUnavailable("cuda-python is not installed; `pip install 'edgeseg[trt]'`")


class Cuda:
    """CUDA calls that raise instead of returning a status, on one stream."""

    def __init__(self, runtime: Any) -> None:
        self.runtime = runtime
        # Asked first: without a driver every other call fails with less telling errors.
        major, minor = (
            self.call("cudaDeviceGetAttribute", getattr(runtime.cudaDeviceAttr, name), 0)
            for name in ("cudaDevAttrComputeCapabilityMajor", "cudaDevAttrComputeCapabilityMinor")
        )
        self.capability = f"sm{major}{minor}"
        self.stream = self.call("cudaStreamCreateWithFlags", runtime.cudaStreamNonBlocking)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the runtime; return its value, or None if it has none."""
        status, *values = getattr(self.runtime, name)(*arguments)
        if int(status) != 0:
            text = self.runtime.cudaGetErrorString(status)[1]
            words = text.decode() if isinstance(text, bytes) else str(text)
            raise BackendUnavailable(f"CUDA: {name} failed ({words})")
        return values[0] if values else None

    def synchronise(self) -> None:
        """Wait for the stream."""
        self.call("cudaStreamSynchronize", self.stream)

    def close(self) -> None:
        """Destroy the stream."""
        self.call("cudaStreamDestroy", self.stream)


class MirroredArray:
    """A page-locked array on the host and its twin on the device, allocated once."""

    def __init__(self, cuda: Cuda, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._cuda = cuda
        self._bytes = math.prod(shape) * dtype.itemsize
        # Page-locked memory is what makes copies asynchronous, and a graph needs fixed addresses.
        self._host = int(cuda.call("cudaMallocHost", self._bytes))
        self.device = int(cuda.call("cudaMalloc", self._bytes))
        memory = (ctypes.c_uint8 * self._bytes).from_address(self._host)
        self.array: NDArray[Any] = np.ctypeslib.as_array(memory).view(dtype).reshape(shape)

    def upload(self, count: int) -> None:
        """Enqueue a copy of the first `count` rows to the device."""
        kind = self._cuda.runtime.cudaMemcpyKind.cudaMemcpyHostToDevice
        self._copy(self.device, self._host, count, kind)

    def download(self, count: int) -> None:
        """Enqueue a copy of the first `count` rows from the device."""
        kind = self._cuda.runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
        self._copy(self._host, self.device, count, kind)

    def _copy(self, target: int, source: int, count: int, kind: Any) -> None:
        size = self._bytes // len(self.array) * count
        self._cuda.call("cudaMemcpyAsync", target, source, size, kind, self._cuda.stream)

    def free(self) -> None:
        """Free both arrays; they must not be used any more."""
        del self.array
        self._cuda.call("cudaFreeHost", self._host)
        self._cuda.call("cudaFree", self.device)
