"""Run ONNX files in OpenVINO, on Intel processors."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import RuntimeFailure
from edgeseg.modelfile.metadata import KEY, ModelMetadata
from edgeseg.modelfile.precisions import EXACT, PRECISIONS, Precision
from edgeseg.runtime.backends.base import Outputs, Session
from edgeseg.runtime.backends.model_file import (
    BackendUnavailable,
    file_metadata,
    first_line,
    graph_source,
)
from edgeseg.runtime.backends.session_options import SessionOptions

# Its names of floating points. Without the hint it rounds an fp32 file to bfloat16 on processors
# that have it, and flags the good images of a model whose threshold was found in float32.
_HINTS = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


def read_openvino(model: Path, source: bytes | Path | None = None) -> Any:
    """Read any ONNX or IR file, or its bytes, as OpenVINO's graph, not compiled yet."""
    check_installed()
    import openvino

    try:
        given = source if isinstance(source, bytes) else str(model)
        return openvino.Core().read_model(given)
    except RuntimeError as error:
        raise _cannot_load(model, error) from None


def compile_openvino(graph: Any, options: SessionOptions, *, model: Path) -> Any:
    """Compile a graph for the CPU, for the lowest latency of a single stream.

    All code that runs a graph compiles it here, so that the verified and timed graph is the one
    that runs. It computes in the file's precision, and in float32 where a foreign file states none.
    OpenVINO's threads sleep and wake by their own rules, so `spin` has no effect.
    """
    import openvino

    settings: dict[str, object] = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": options.thread_count,
        "INFERENCE_PRECISION_HINT": _HINTS[_precision(graph, model).arithmetic],
    }
    try:
        return openvino.Core().compile_model(graph, "CPU", settings)
    except RuntimeError as error:
        raise _cannot_load(model, error) from None


def metadata_text(graph: Any) -> str | None:
    """Return our metadata inside a graph; foreign graphs have none."""
    place = ["framework", KEY]  # where OpenVINO keeps the properties of an ONNX file
    return str(graph.get_rt_info(place).value) if graph.has_rt_info(place) else None


def arithmetic(compiled: Any) -> str:
    """Ask OpenVINO for the floating point type in which a compiled graph computes."""
    hint = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
    return next((name for name, short in _HINTS.items() if short == hint), hint)


class OpenVinoSession(Session):
    """An exported ONNX file on the CPU."""

    on_processor = True

    def __init__(self, model: Path, options: SessionOptions) -> None:
        check_installed()
        self.metadata = file_metadata(model, files=options.files)
        graph = read_openvino(model, graph_source(model, self.metadata, options.files))
        compiled = compile_openvino(graph, options, model=model)
        self._request = compiled.create_infer_request()
        self._input = self.metadata.input.name
        used = compiled.get_property("INFERENCE_NUM_THREADS")
        self.backend = f"OpenVINO CPU, {used} thread{'s' if used != 1 else ''}"
        self.arithmetic = arithmetic(compiled)

    def _run(self, frames_nhwc: NDArray[np.uint8]) -> Outputs:
        try:
            # Outputs stay OpenVINO's own memory until the next run: infer() copies them anyway.
            outputs = self._request.infer({self._input: frames_nhwc}, share_outputs=True)
        except RuntimeError as error:
            raise RuntimeFailure(
                f"{self.backend}: inference failed ({first_line(error)})"
            ) from error
        return {name: outputs[name] for name in self.metadata.outputs}


def check_installed() -> None:
    """Refuse at the beginning if OpenVINO is not installed."""
    if importlib.util.find_spec("openvino") is None:
        raise BackendUnavailable("OpenVINO is not installed; `pip install 'edgeseg[openvino]'`")


def _precision(graph: Any, model: Path) -> Precision:
    text = metadata_text(graph)
    name = EXACT if text is None else ModelMetadata.from_json(text, source=str(model)).precision
    if name not in PRECISIONS:
        raise RuntimeFailure(
            f"{model}: precision {name!r}, expected one of {', '.join(PRECISIONS)}; "
            "a newer edgeseg may know it"
        )
    return PRECISIONS[name]


def _cannot_load(model: Path, error: Exception) -> BackendUnavailable:
    return BackendUnavailable(f"{model}: OpenVINO cannot load it ({first_line(error)})")
