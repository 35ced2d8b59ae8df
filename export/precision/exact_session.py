"""A graph as it is written, in ONNX Runtime on the CPU: for calibration and verification."""

from typing import Any

from onnx import ModelProto

from edgeseg.export.precision.half import emulated
from edgeseg.runtime.backends.onnxruntime_session import open_onnxruntime
from edgeseg.runtime.backends.session_options import SessionOptions


def exact_session(proto: ModelProto) -> Any:
    """ONNX Runtime without its optimiser: Q/DQ runs as the arithmetic it describes, fp16 rounds.

    That is what TensorRT computes, while a CPU's int8 kernels may saturate on signed activations.
    """
    return open_onnxruntime(emulated(proto).SerializeToString(), SessionOptions(), exact=True)
