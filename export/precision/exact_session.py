"""Run a graph as it is written, in ONNX Runtime on the CPU, for calibration and verification."""

from typing import Any

from onnx import ModelProto

from edgeseg.export.precision.half import emulate_half
from edgeseg.runtime.backends.onnxruntime_session import open_onnxruntime
from edgeseg.runtime.backends.session_options import SessionOptions


def exact_session(proto: ModelProto) -> Any:
    """Open ONNX Runtime without its optimiser: Q/DQ runs as arithmetic, and fp16 is rounded.

    That is what TensorRT computes, while a CPU's int8 kernels may saturate on signed activations.
    """
    return open_onnxruntime(emulate_half(proto).SerializeToString(), SessionOptions(), exact=True)
