"""Run TensorRT and TensorRT-RTX plans: named tensors, page-locked buffers, a CUDA graph."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import RuntimeFailure
from edgeseg.modelfile.file_reading import DISK, Files
from edgeseg.runtime.backends.base import Outputs, Session
from edgeseg.runtime.backends.cuda_memory import Cuda, MirroredArray, load_cuda
from edgeseg.runtime.backends.model_file import BackendUnavailable, plan_metadata
from edgeseg.runtime.backends.plan_check import builder_name, check_gpu, import_builder, rebuild


class TensorRtSession(Session):
    """A plan that was built for this GPU and this version of TensorRT."""

    def __init__(self, model: Path, *, files: Files = DISK) -> None:
        self._model = model
        self.metadata = plan_metadata(model, files=files)
        self._trt = import_builder(model, self.metadata)
        self._cuda = Cuda(load_cuda())
        check_gpu(model, self.metadata, self._cuda.capability)
        self._log = _make_log(self._trt)
        self._runtime = self._trt.Runtime(self._log)  # must outlive the engine
        if self.metadata.plan_facts.version_compatible:
            # Such a plan brings its own small runtime, which TensorRT runs only if told to.
            self._runtime.engine_host_code_allowed = True
        self._engine = self._load(files.read(model))
        self._context = self._engine.create_execution_context()
        self._input = self.metadata.input.name
        self._outputs = list(self.metadata.outputs)
        self._arrays = {name: self._allocate(name) for name in self._tensors()}
        self._graph: Any = None
        self._count = 0
        self._set_count(self.max_batch)
        self._enqueue()  # a first run outside of capture: TensorRT allocates lazily
        self._cuda.synchronise()
        smallest, _, largest = self.metadata.input.batch
        how = "dynamic batch"
        if smallest == largest:
            try:
                self._graph, how = self._capture(), "CUDA graph"
            except RuntimeFailure as error:
                how = f"no CUDA graph: {error}"
        self.backend = (
            f"{builder_name(self.metadata)} {self._trt.__version__}, {self._cuda.capability}, {how}"
        )

    def _load(self, data: bytes) -> Any:
        validity = getattr(self._runtime, "get_engine_validity", None)  # TensorRT-RTX has it
        if validity is not None:
            verdict, bits = validity(data)
            if verdict == self._trt.EngineValidity.INVALID:
                raise BackendUnavailable(
                    f"{self._model}: this GPU, driver or version cannot run it "
                    f"({self._reasons(bits)}); {rebuild(self._model, self.metadata)}"
                )
        engine = self._runtime.deserialize_cuda_engine(data)
        if engine is None:
            raise BackendUnavailable(
                f"{self._model}: TensorRT cannot load it ({self._log.last()}); "
                f"{rebuild(self._model, self.metadata)}"
            )
        return engine

    def _reasons(self, bits: int) -> str:
        known = self._trt.EngineInvalidityDiagnostics.__members__.items()
        names = [name.lower().replace("_", " ") for name, flag in known if int(bits) & int(flag)]
        return ", ".join(names) or self._log.last()

    def _tensors(self) -> list[str]:
        """List all tensors of the engine, after checking that the expected ones exist."""
        names = [self._engine.get_tensor_name(i) for i in range(self._engine.num_io_tensors)]
        missing = {self._input, *self._outputs} - set(names)
        if missing:
            raise RuntimeFailure(
                f"{self._model}: tensors {names}, expected also {sorted(missing)}; "
                f"{rebuild(self._model, self.metadata)}"
            )
        return names

    def _allocate(self, name: str) -> MirroredArray:
        shape = tuple(self._engine.get_tensor_shape(name))
        dtype = np.dtype(self._trt.nptype(self._engine.get_tensor_dtype(name)))
        if any(size < 1 for size in shape[1:]):
            raise RuntimeFailure(
                f"{self._model}: {name} has shape {shape}, expected only the batch to be dynamic"
            )
        array = MirroredArray(self._cuda, (self.max_batch, *shape[1:]), dtype)
        self._context.set_tensor_address(name, array.device)
        return array

    def _set_count(self, count: int) -> None:
        if count == self._count:
            return
        shape = (count, *self.metadata.size_hw, 3)
        if not self._context.set_input_shape(self._input, shape):
            raise RuntimeFailure(f"TensorRT refuses a batch of {count} ({self._log.last()})")
        self._count = count

    def _enqueue(self) -> None:
        """Enqueue upload, inference and download on one stream, without waiting."""
        self._arrays[self._input].upload(self._count)
        if not self._context.execute_async_v3(int(self._cuda.stream)):
            raise RuntimeFailure(f"TensorRT: inference failed ({self._log.last()})")
        for name in self._outputs:
            self._arrays[name].download(self._count)

    def _capture(self) -> Any:
        """Capture upload, inference and download as one CUDA graph, launched by one call."""
        capturable = getattr(self._context, "is_stream_capturable", None)  # TensorRT-RTX has it
        if capturable is not None and not capturable(int(self._cuda.stream)):
            raise RuntimeFailure("this plan cannot be captured")
        mode = self._cuda.runtime.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        self._cuda.call("cudaStreamBeginCapture", self._cuda.stream, mode)
        try:
            self._enqueue()
        finally:
            graph = self._cuda.call("cudaStreamEndCapture", self._cuda.stream)
        executable = self._cuda.call("cudaGraphInstantiate", graph, 0)
        self._cuda.call("cudaGraphDestroy", graph)
        return executable

    def _run(self, frames_nhwc: NDArray[np.uint8]) -> Outputs:
        count = len(frames_nhwc)
        self._arrays[self._input].array[:count] = frames_nhwc
        if self._graph is not None:
            self._cuda.call("cudaGraphLaunch", self._graph, self._cuda.stream)
        else:
            self._set_count(count)
            self._enqueue()
        self._cuda.synchronise()
        return {
            name: self._arrays[name].array[:count].astype(np.float32, copy=False)
            for name in self._outputs
        }

    def close(self) -> None:
        """Release everything in the order of its dependencies."""
        self._cuda.synchronise()
        if self._graph is not None:
            self._cuda.call("cudaGraphExecDestroy", self._graph)
            self._graph = None
        self._context = self._engine = self._runtime = None
        while self._arrays:
            self._arrays.popitem()[1].free()
        self._cuda.close()


def _make_log(trt: Any) -> Any:
    """Make a logger that keeps errors for our own messages, and prints nothing."""

    class PlanLog(trt.ILogger):  # type: ignore[misc]  # its base is known only now
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self._errors: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            if severity in (trt.ILogger.INTERNAL_ERROR, trt.ILogger.ERROR):
                self._errors = [*self._errors[-3:], message]

        def last(self) -> str:
            return self._errors[-1].splitlines()[0][:300] if self._errors else "no reason given"

    return PlanLog()
