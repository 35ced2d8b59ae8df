"""OpenVINO: ONNX files on Intel processors."""

import importlib.util
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgeseg.contract.metadata import KEY
from edgeseg.errors import RuntimeFailure
from edgeseg.runtime.backends.base import Outputs, Session
from edgeseg.runtime.backends.model_file import BackendUnavailable, first_line, onnx_metadata

# Without it OpenVINO rounds an fp32 file to bfloat16 on processors that have it, and flags the good
# images of a model whose threshold was found in float32.
FLOAT32 = {"INFERENCE_PRECISION_HINT": "f32"}


class OpenVinoSession(Session):
    """An ONNX file compiled for the CPU, with the lowest latency of a single stream."""

    def __init__(self, model: Path, *, threads: int | None = None) -> None:
        if importlib.util.find_spec("openvino") is None:
            raise BackendUnavailable("OpenVINO is not installed; `pip install edgeseg[openvino]`")
        import openvino

        settings: dict[str, object] = {"PERFORMANCE_HINT": "LATENCY", **FLOAT32}
        if threads is not None:
            settings["INFERENCE_NUM_THREADS"] = threads
        try:
            core = openvino.Core()
            graph = core.read_model(str(model))
            compiled = core.compile_model(graph, "CPU", settings)
        except RuntimeError as error:
            raise BackendUnavailable(
                f"{model}: OpenVINO cannot load it ({first_line(error)})"
            ) from None
        where = ["framework", KEY]  # where OpenVINO keeps the properties of an ONNX file
        embedded = graph.get_rt_info(where).value if graph.has_rt_info(where) else None
        self.metadata = onnx_metadata(model, embedded)
        self._request = compiled.create_infer_request()
        self._input = self.metadata.input.name
        self._has_grid = "grid" in self.metadata.outputs
        used = compiled.get_property("INFERENCE_NUM_THREADS")
        self.backend = f"OpenVINO CPU, {used} thread{'s' if used != 1 else ''}"

    def _run(self, frames_nhwc: NDArray[np.uint8]) -> Outputs:
        try:
            # Outputs stay OpenVINO's own memory until the next run: infer() copies them anyway.
            found = self._request.infer({self._input: frames_nhwc}, share_outputs=True)
        except RuntimeError as error:
            raise RuntimeFailure(
                f"{self.backend}: inference failed ({first_line(error)})"
            ) from error
        return found["map"], found["score"], found["grid"] if self._has_grid else None
