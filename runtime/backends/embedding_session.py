"""Open a graph for one of its outputs: the embedding that a fit uses."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.computer import has_cuda
from edgeseg.base.errors import RuntimeFailure
from edgeseg.runtime.backends.model_file import BackendUnavailable, first_line
from edgeseg.runtime.backends.onnxruntime_session import open_onnxruntime
from edgeseg.runtime.backends.session_options import SessionOptions

Run = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


def open_embeddings(model: Path, output: str, options: SessionOptions) -> Run:
    """Return a function that computes the output of a batch.

    The backend is the first one that `auto` would take for a graph.
    """
    for device in ("cuda", "cpu") if has_cuda() else ("cpu",):
        try:
            return _onnxruntime(open_onnxruntime(model, options, device=device), output)
        except BackendUnavailable as error:
            reason = error
    if find_spec("openvino") is None:
        raise reason
    return _openvino(model, output, options)


def _onnxruntime(session: Any, output: str) -> Run:
    import onnxruntime

    how = onnxruntime.RunOptions()
    how.only_execute_path_to_fetches = True  # what stands behind the embedding is blank
    name = session.get_inputs()[0].name

    def run(frames_nhwc: NDArray[np.uint8]) -> NDArray[np.float32]:
        try:
            (values,) = session.run([output], {name: frames_nhwc}, how)
        except Exception as error:  # ONNX Runtime's own classes have no common base
            raise RuntimeFailure(f"inference failed ({first_line(error)})") from error
        return np.asarray(values)

    return run


def _openvino(model: Path, output: str, options: SessionOptions) -> Run:
    from edgeseg.runtime.backends.openvino_session import compile_openvino, read_openvino

    compiled = compile_openvino(read_openvino(model), options, model=model)
    return lambda frames_nhwc: np.array(compiled(frames_nhwc)[output])
