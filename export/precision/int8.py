"""Quantise to int8: the backbone by ONNX Runtime, the quadratic form with its own scales.

CPUs and TensorRT want different graphs. ONNX Runtime is fastest with unsigned activations, int32
biases and MatMulInteger, all of which TensorRT refuses; TensorRT wants symmetric int8 and runs the
quadratic form in fp16, where 15 MB are nothing to a GPU.
"""

import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantType
from onnxruntime.quantization.calibrate import CalibrationMethod, TensorsData, create_calibrator
from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
from onnxruntime.quantization.quant_utils import save_and_reload_model_with_shape_infer

from edgeseg.base.files import temporary_folder
from edgeseg.export.graph import (
    ancestors,
    check_graph,
    choice_of_variant,
    initializers,
    quadratic_form,
    quiet_logs,
)
from edgeseg.export.precision.exact_session import exact_session
from edgeseg.model.model_metadata import INPUT
from edgeseg.runtime.backends.onnxruntime_session import open_onnxruntime
from edgeseg.runtime.backends.session_options import SessionOptions

# What ONNX Runtime keeps in int8 from one convolution to the next. TensorRT fuses by itself.
_INT8_OPS = {"cpu": ("Conv", "Add", "MaxPool", "AveragePool", "Relu", "Clip"), "trt": ("Conv",)}
# Without VNNI, x86 adds two products of uint8 and int8 in 16 bits and saturates: 2 x 255 x 127 do
# not fit, and the map is garbage. 2 x 255 x 64 do, so weights and factors have seven bits.
_LARGEST_WEIGHT = 64

# A block that never moved on the good images still needs a range: this share of the liveliest.
_LEAST_REACH = 0.02


def quantisable(proto: ModelProto, *, target: str = "trt") -> list[NodeProto]:
    """List the nodes of the backbone and the projection that may become int8, in order."""
    form = quadratic_form(proto)
    choice = {node.output[0] for node in choice_of_variant(proto)}
    return [
        node
        for node in ancestors(proto, form.output[0])
        if node.op_type in _INT8_OPS[target] and node.output[0] not in choice
    ]


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """How the backbone is rounded; docs/method.md says why."""

    ranges: CalibrationMethod = CalibrationMethod.MinMax  # of activations, from good images
    percentile: float = 99.99  # of them, where `ranges` goes by it
    per_channel: bool = True  # a scale for each channel of the weights
    seven_bits: bool = True  # of the weights, for CPUs: see _LARGEST_WEIGHT
    # Nodes that stay as they are.
    spared: Callable[[ModelProto], Collection[str]] = lambda proto: ()


AS_SHIPPED = Rounding()


def first_layers(proto: ModelProto, count: int) -> list[str]:
    """Name the first convolutions of a graph and the nodes between them."""
    names: list[str] = []
    for node in proto.graph.node:
        if node.op_type == "Conv":
            if not count:
                return names
            count -= 1
        names.append(node.name)
    return names


@contextmanager
def _temporary_files() -> Iterator[Path]:
    """Redirect temporary files, the library's too, to a folder that the next run clears."""
    with temporary_folder(Path(tempfile.gettempdir()), name="edgeseg") as folder:
        before, tempfile.tempdir = tempfile.tempdir, str(folder)
        try:
            yield folder
        finally:
            tempfile.tempdir = before


class Quantiser:
    """A quantiser that is calibrated once on good images (N, H, W, 3)."""

    def __init__(
        self,
        proto: ModelProto,
        frames: NDArray[np.uint8],
        *,
        target: str,
        rounding: Rounding = AS_SHIPPED,
    ):
        self._proto, self._target, self._rounding = proto, target, rounding
        with _temporary_files() as folder:
            self._ranges = self._calibrate(frames, folder)
            # With its shapes known the graph is not written to disk and read again for every plan.
            self._shaped = save_and_reload_model_with_shape_infer(proto)

    def _calibrate(self, frames: NDArray[np.uint8], folder: Path) -> TensorsData:
        source = folder / "fp32.onnx"
        augmented = folder / "augmented.onnx"
        source.write_bytes(self._proto.SerializeToString())
        calibrator = create_calibrator(
            source,
            list(_INT8_OPS[self._target]),
            augmented_model_path=str(augmented),
            calibrate_method=self._rounding.ranges,
            extra_options={
                "symmetric": self._target == "trt",
                "percentile": self._rounding.percentile,
            },
        )
        # Its own session would keep all activations until the ranges are taken at the end.
        calibrator.infer_session = open_onnxruntime(augmented, SessionOptions(), exact=True)
        calibrator.collect_data(_Frames(frames, size=batch_size(self._proto)))
        return calibrator.compute_data()

    def quantise(self) -> ModelProto:
        """Copy the graph with its backbone and projection in int8."""
        for_cpu = self._target == "cpu"
        copy = ModelProto()
        copy.CopyFrom(self._shaped)
        kinds = _INT8_OPS[self._target]
        spared = set(self._rounding.spared(copy))
        nodes = quantisable(copy, target=self._target)
        names = [node.name for node in nodes if node.name not in spared]
        quantiser = QDQQuantizer(
            copy,
            per_channel=self._rounding.per_channel,
            reduce_range=for_cpu and self._rounding.seven_bits,
            weight_qType=QuantType.QInt8,
            activation_qType=QuantType.QUInt8 if for_cpu else QuantType.QInt8,
            tensors_range=self._ranges,
            nodes_to_quantize=names,
            nodes_to_exclude=[],
            op_types_to_quantize=list(kinds),
            extra_options={
                "ActivationSymmetric": not for_cpu,
                "WeightSymmetric": True,
                "QuantizeBias": for_cpu,
            },
        )
        with quiet_logs(""):  # the root: it advises a preprocessing that we have done
            quantiser.quantize_model()
        quantiser.model.topological_sort()
        made = quantiser.model.model
        made.producer_name = self._proto.producer_name
        made.producer_version = self._proto.producer_version
        return check_graph(made)


class _Frames(CalibrationDataReader):  # type: ignore[misc]
    """Good images, a batch at a time, as the quantiser asks for them."""

    def __init__(self, frames: NDArray[np.uint8], *, size: int):
        self._batches = _batches(frames, size)

    def get_next(self) -> dict[str, NDArray[np.uint8]] | None:
        """Return the next feed, or None at the end."""
        batch = next(self._batches, None)
        return None if batch is None else {INPUT: batch}


def batch_size(proto: ModelProto) -> int:
    """Return the number of frames that the graph takes at once; 1 where any number is allowed."""
    return int(proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value) or 1


def _batches(frames: NDArray[np.uint8], size: int) -> Iterator[NDArray[np.uint8]]:
    """Split frames into full batches; the last one repeats its own frames."""
    for start in range(0, len(frames), size):
        yield np.resize(frames[start : start + size], (size, *frames.shape[1:]))


def run_exactly(proto: ModelProto, output: str, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Compute one tensor of the graph for all frames, in the arithmetic that the graph states."""
    return np.stack(list(_each_exactly(proto, output, frames)))


def _each_exactly(
    proto: ModelProto, output: str, frames: NDArray[np.uint8]
) -> Iterator[NDArray[np.float32]]:
    session = exact_session(proto)
    size = batch_size(proto)
    for number, batch in enumerate(_batches(frames, size)):
        yield from session.run([output], {INPUT: batch})[0][: len(frames) - number * size]


def quantise_form(proto: ModelProto, *, largest: float | NDArray[np.float32]) -> ModelProto:
    """Replace the score's quadratic form by MatMulInteger: a scale per block and column.

    `largest` is the highest absolute value of the centred embedding on good images, for each block
    or for all; the range of the int8 activations is twice that, so that a defect does not saturate
    at once. Each block has its own scale, so that a block of small values keeps its digits. The
    map's own form stays as it is: OpenVINO takes as long to round it as integers save.
    """
    form = quadratic_form(proto)
    name = form.input[1]
    factor = initializers(proto)[name]
    for constant, value in _rounded_factor(numpy_helper.to_array(factor), largest).items():
        proto.graph.initializer.append(numpy_helper.from_array(value, f"{name}_{constant}"))
    quantised = [f"{name}_uint8", f"{name}_int8", f"{name}_zero"]
    steps = [
        ("QuantizeLinear", [form.input[0], f"{name}_step", f"{name}_zeros"], quantised[0]),
        ("MatMulInteger", quantised, f"{name}_int32"),
        ("Cast", [f"{name}_int32"], f"{name}_float"),
        ("Mul", [f"{name}_float", f"{name}_scale"], form.output[0]),
    ]
    place = list(proto.graph.node).index(form)
    proto.graph.initializer.remove(factor)
    proto.graph.node.remove(form)
    for offset, (kind, inputs, output) in enumerate(steps):
        node = helper.make_node(kind, inputs, [output], name=f"{name}_{kind.lower()}")
        if kind == "Cast":
            node.attribute.append(helper.make_attribute("to", TensorProto.FLOAT))
        if kind == "QuantizeLinear":
            node.attribute.append(helper.make_attribute("axis", 0))
        proto.graph.node.insert(place + offset, node)
    return check_graph(proto)


def _rounded_factor(
    factor_bkr: NDArray[np.float32], largest: float | NDArray[np.float32]
) -> dict[str, NDArray[Any]]:
    tiny = np.finfo(np.float32).tiny
    column = np.abs(factor_bkr).max(axis=1, keepdims=True) / _LARGEST_WEIGHT  # (B, 1, r)
    column = np.maximum(column, tiny)
    reach = np.broadcast_to(np.asarray(largest, np.float32), factor_bkr.shape[:1])  # (B,)
    reach = np.maximum(reach, np.float32(max(float(reach.max()) * _LEAST_REACH, float(tiny))))
    step = (2.0 * reach / 127.0).astype(np.float32)
    return {
        "int8": np.rint(factor_bkr / column).astype(np.int8),
        "scale": (column * step[:, None, None]).astype(np.float32),
        "step": step,
        "zeros": np.full(step.shape, 128, np.uint8),
        "zero": np.asarray(128, np.uint8),
    }
