"""Build the reference forward as one self-contained ONNX graph."""

import copy
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import onnx
import torch
from onnx import ModelProto, NodeProto, TensorProto, external_data_helper, helper, shape_inference
from torch import nn

from edgeseg.base.errors import ExportError
from edgeseg.base.files import file_sha256, write_target
from edgeseg.model.model_metadata import INPUT
from edgeseg.model.reference import ReferenceModel
from edgeseg.modelfile.metadata import KEY, ModelMetadata
from edgeseg.modelfile.versions import Change, replacing
from edgeseg.runtime.backends.onnx_properties import graph_sha256

OPSET = 18  # reductions take their axes as inputs; every compiler we target reads it
GRIDS = ("grid", "map_grid", "apart")  # outputs that can be left out
# The names of the buffers that only a quadratic form reads, so that passes can find its node: the
# score's, and the map's own.
FACTOR, MAP_FACTOR = "factor", "map_factor"
MAP_WEIGHT, COUNTED = "map_weight", "counted"  # constants of the map too
MEANS = "variant_means"  # constants of variants
VARIANT_WEIGHT, VARIANT_BIAS = "variant_weight", "variant_bias"
# protobuf refuses messages over 2 GiB; stay clear of it.
LARGEST_FILE = 2_000_000_000


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """Shape of the graph's input and outputs."""

    batch: tuple[int, int, int] = (1, 1, 1)  # min, opt, max; static when all are equal
    grid_output: bool = True
    fold_scale: bool = True  # move the scale of the input into the first convolution

    def __post_init__(self) -> None:
        low, likely, high = self.batch
        if not 1 <= low <= likely <= high:
            raise ExportError(f"batch {self.batch}: expected min <= opt <= max, from 1")


def build_graph(
    model: ReferenceModel, options: GraphOptions, *, size_hw: tuple[int, int]
) -> ModelProto:
    """Trace the model and clean the graph: no stack traces, no zero-size reshapes, no leftovers."""
    traced = copy.deepcopy(model)
    if options.fold_scale:
        fold_scale(traced)
    low, _, high = options.batch
    frames = torch.zeros(max(low, 2 if low < high else 1), *size_hw, 3, dtype=torch.uint8)
    dynamic = {0: torch.export.Dim("batch", min=low, max=high)} if low < high else None
    with warnings.catch_warnings(), quiet_logs("torch.onnx", "onnxscript", "onnx_ir"):
        warnings.simplefilter("ignore")  # about the exporter's own internals
        program = torch.onnx.export(
            traced,
            (frames,),
            dynamo=True,
            opset_version=OPSET,
            input_names=[INPUT],
            output_names=list(model.outputs),
            dynamic_shapes=(dynamic,) if dynamic else None,
            external_data=False,
            verbose=False,
        )
    if program is None:
        raise ExportError("the exporter of torch returned no graph; report the torch version")
    proto = program.model_proto
    if not options.grid_output:
        kept = [output for output in proto.graph.output if output.name not in GRIDS]
        del proto.graph.output[:]
        proto.graph.output.extend(kept)
    return clean(proto)


def fold_scale(model: ReferenceModel) -> None:
    """Move the input's scale into the first convolution: exact, since zero padding stays zero.

    The offset cannot follow: a padded pixel would no longer be the mean colour.
    """
    first = next(module for module in model.backbone.modules() if isinstance(module, nn.Conv2d))
    if model.preprocess.scale is None:
        return
    first.weight.data = first.weight.data * model.preprocess.scale.view(1, -1, 1, 1)
    model.preprocess.scale = None


def clean(proto: ModelProto) -> ModelProto:
    """Remove debug information, check the graph and infer every shape."""
    for node in proto.graph.node:
        node.ClearField("doc_string")
        del node.metadata_props[:]
        if node.op_type == "Reshape":  # no dimension is 0 here, and not every parser knows it
            kept = [item for item in node.attribute if item.name != "allowzero"]
            del node.attribute[:]
            node.attribute.extend(kept)
    for value in [*proto.graph.input, *proto.graph.output, *proto.graph.value_info]:
        del value.metadata_props[:]
    del proto.graph.metadata_props[:]
    del proto.metadata_props[:]
    proto.graph.ClearField("doc_string")
    proto.graph.name = "edgeseg"
    proto.producer_name, proto.producer_version = "edgeseg", ""
    del proto.functions[:]
    return check_graph(proto)


def check_graph(proto: ModelProto) -> ModelProto:
    """Run onnx.checker and strict shape inference; return the graph with its shapes."""
    del proto.graph.value_info[:]
    if is_large(proto):  # neither check takes such a message; save_graph checks the file
        return proto
    try:
        inferred = shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)
        onnx.checker.check_model(inferred, full_check=True)
    except (onnx.checker.ValidationError, shape_inference.InferenceError) as error:
        raise ExportError(f"the graph is not valid ONNX: {error}") from None
    return inferred


def set_metadata(proto: ModelProto, metadata: ModelMetadata) -> None:
    """Write the metadata into the file, where every runtime can read it."""
    del proto.metadata_props[:]
    helper.set_model_props(proto, {KEY: metadata.to_json()})


def is_large(proto: ModelProto) -> bool:
    """Whether the graph is too large for one message; ByteSize itself fails beyond 2 GiB."""
    return sum(len(tensor.raw_data) for tensor in proto.graph.initializer) > LARGEST_FILE


def save_graph(proto: ModelProto, path: Path) -> None:
    """Write the file in one step; a graph over 2 GB keeps its weights in NAME.onnx.data.

    The metadata inside get the hash of the rest of the file.
    """
    with replace_graph(proto, path):
        pass


@contextmanager
def replace_graph(proto: ModelProto, path: Path) -> Iterator[tuple[Change, Path]]:
    """Write a graph as `save_graph` does; yield the change and the file before its renaming."""
    path = write_target(path)
    data = f"{path.name}.data"
    large = is_large(proto)
    with replacing(path.parent) as change:
        staged = change.path(path.name)
        if large:
            _write_pair(proto, staged, change.path(data))
        else:
            staged.write_bytes(_message_with_hash(proto))
        yield change, staged
    if not large:
        path.with_name(data).unlink(missing_ok=True)  # of a larger graph that had this name before


def _message_with_hash(proto: ModelProto, *, data_sha256: str | None = None) -> bytes:
    """Serialise the message, with its own hash in our metadata if it has any."""
    written: bytes = proto.SerializeToString(deterministic=True)
    ours = [item for item in proto.metadata_props if item.key == KEY]
    for item in ours:
        metadata = ModelMetadata.from_json(item.value, source="the graph")
        digest = graph_sha256(io.BytesIO(written))
        item.value = replace(metadata, graph_sha256=digest, data_sha256=data_sha256).to_json()
    return bytes(proto.SerializeToString(deterministic=True)) if ours else written


def _write_pair(proto: ModelProto, path: Path, data: Path) -> None:
    split = ModelProto()
    split.CopyFrom(proto)  # writing moves the weights out of the message
    external_data_helper.convert_model_to_external_data(split, location=data.name)
    external_data_helper.write_external_data_tensors(split, str(path.parent))
    path.write_bytes(_message_with_hash(split, data_sha256=file_sha256(data)))
    try:
        onnx.checker.check_model(path, full_check=True)
    except (onnx.checker.ValidationError, shape_inference.InferenceError) as error:
        raise ExportError(f"the graph is not valid ONNX: {error}") from None


def quadratic_form(proto: ModelProto) -> NodeProto:
    """Find the node that multiplies every location's embedding with its factor."""
    return quadratic_forms(proto)[0]


def quadratic_forms(proto: ModelProto) -> list[NodeProto]:
    """Find the nodes that multiply embeddings with factors: the score's, and the map's own."""
    products = [node for node in proto.graph.node if node.op_type == "MatMul"]
    forms = [node for name in (FACTOR, MAP_FACTOR) for node in products if name in node.input]
    if not forms or FACTOR not in forms[0].input:
        raise ExportError("the graph has no quadratic form; it is not one that edgeseg traced")
    return forms


def choice_of_variant(proto: ModelProto) -> list[NodeProto]:
    """Find the nodes that choose a variant; sums of so many products stay in fp32."""
    taken = next((node for node in proto.graph.node if MEANS in node.input), None)
    if taken is None:  # of one product
        return []
    chain = ancestors(proto, taken.input[1])
    centring = next(node for node in reversed(chain) if node.op_type == "Sub")
    centred = {node.output[0] for node in ancestors(proto, centring.input[0])}
    return [node for node in chain if node.output[0] not in centred]


def ancestors(proto: ModelProto, tensor: str) -> list[NodeProto]:
    """List the nodes that a tensor depends on, in the order of execution."""
    wanted, makers = {tensor}, []
    for node in reversed(proto.graph.node):
        if wanted.intersection(node.output):
            wanted.update(node.input)
            makers.append(node)
    return makers[::-1]


def initializers(proto: ModelProto) -> dict[str, TensorProto]:
    """Return the graph's constants by name."""
    return {tensor.name: tensor for tensor in proto.graph.initializer}


@contextmanager
def quiet_logs(*names: str) -> Iterator[None]:
    """Silence the loggers of other packages, so that users read only our own messages."""
    levels = {name: logging.getLogger(name).level for name in names}
    try:
        for name in names:
            logging.getLogger(name).setLevel(logging.ERROR)
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
