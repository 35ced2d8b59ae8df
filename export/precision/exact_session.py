"""ONNX Runtime on the CPU, for calibration and verification."""

import onnxruntime
from onnx import ModelProto

from edgeseg.export.precision.half import emulated


def session_options() -> onnxruntime.SessionOptions:
    """Quiet, and without a pool: memory of large frames must be free again for the reference."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = False
    return options


def exact_options() -> onnxruntime.SessionOptions:
    """Without the optimiser: what the graph describes, node by node."""
    options = session_options()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def exact_session(proto: ModelProto) -> onnxruntime.InferenceSession:
    """ONNX Runtime without its optimiser: Q/DQ runs as the arithmetic it describes, fp16 rounds.

    That is what TensorRT computes, while a CPU's int8 kernels may saturate on signed activations.
    """
    options = exact_options()
    model = emulated(proto).SerializeToString()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
