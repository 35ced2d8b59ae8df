"""Ways of rounding a backbone: which ranges, which bits, and which layers stay in fp32."""

from collections.abc import Callable, Collection

from onnx import ModelProto, NodeProto
from onnxruntime.quantization.calibrate import CalibrationMethod

from edgeseg.contract.precisions import EXACT
from edgeseg.export.graph import ancestors
from edgeseg.export.precision.int8 import AS_SHIPPED, Rounding, first_layers

WHOLE = "all int8"  # which is shipped where a backbone has no `exact_layers`


def _makers_of(proto: ModelProto, kinds: Collection[str]) -> list[NodeProto]:
    """Convolutions whose output goes into one of these operations."""
    readers = {name: node for node in proto.graph.node for name in node.input}
    return [
        node
        for node in proto.graph.node
        if node.op_type == "Conv" and _kind(readers.get(node.output[0])) in kinds
    ]


def _kind(node: NodeProto | None) -> str:
    return "" if node is None else str(node.op_type)


def before_hard_swish(proto: ModelProto) -> list[str]:
    """Convolutions in front of a hard-swish, whose negative side is a narrow dip."""
    return [node.name for node in _makers_of(proto, ("HardSwish",))]


def squeeze_excite(proto: ModelProto) -> list[str]:
    """The two layers that scale channels by the mean of the picture."""
    fully = ("fc1.weight", "fc2.weight")
    nodes = [n for n in proto.graph.node if n.op_type == "Conv" and n.input[1].endswith(fully)]
    outputs = {node.output[0] for node in nodes}
    relus = [n for n in proto.graph.node if n.op_type == "Relu" and n.input[0] in outputs]
    return [node.name for node in (*nodes, *relus)]


def depthwise(proto: ModelProto) -> list[str]:
    """Convolutions of each channel by itself: one range for channels of very different size."""
    return [node.name for node in proto.graph.node if _groups(node) > 1]


def _groups(node: NodeProto) -> int:
    return next((int(item.i) for item in node.attribute if item.name == "group"), 1)


def all_but_pointwise(proto: ModelProto) -> list[str]:
    """All but the 1x1 convolutions that do most of the work."""
    return several(depthwise, squeeze_excite, stem(1), additions)(proto)


def additions(proto: ModelProto) -> list[str]:
    """The sums of residual blocks, and of the parts of the embedding."""
    return [node.name for node in proto.graph.node if node.op_type == "Add"]


def sum_of_projections(proto: ModelProto) -> list[str]:
    """The sum of the projections alone."""
    return [n.name for n in proto.graph.node if n.op_type == "Add" and _is_head(n, proto)]


def projections(proto: ModelProto) -> list[str]:
    """The projection of each tap, and the sum of the projections."""
    convolutions = [node.name for node in proto.graph.node if _is_projection(node)]
    return [*convolutions, *sum_of_projections(proto)]


def _is_projection(node: NodeProto) -> bool:
    return node.op_type == "Conv" and node.input[1].startswith("embedding.kernel_")


def _is_head(node: NodeProto, proto: ModelProto) -> bool:
    """Whether what is added comes from a projection."""
    return any(_is_projection(each) for name in node.input for each in ancestors(proto, name))


def residual_sums(proto: ModelProto) -> list[str]:
    """The sums of residual blocks alone."""
    return [n.name for n in proto.graph.node if n.op_type == "Add" and not _is_head(n, proto)]


def stem(count: int) -> Callable[[ModelProto], list[str]]:
    """The first convolutions, and what is between them."""
    return lambda proto: first_layers(proto, count)


def several(*parts: Callable[[ModelProto], list[str]]) -> Callable[[ModelProto], list[str]]:
    """All of these together."""
    return lambda proto: [name for part in parts for name in part(proto)]


VARIANTS: dict[str, Rounding | None] = {
    EXACT: None,
    WHOLE: AS_SHIPPED,
    "ranges: percentile 99.99": Rounding(ranges=CalibrationMethod.Percentile),
    "ranges: percentile 99.9": Rounding(ranges=CalibrationMethod.Percentile, percentile=99.9),
    "ranges: entropy": Rounding(ranges=CalibrationMethod.Entropy),
    "weights: eight bits": Rounding(seven_bits=False),
    "weights: one scale a layer": Rounding(per_channel=False),
    "fp32: squeeze-excite": Rounding(spared=squeeze_excite),
    "fp32: before hard-swish": Rounding(spared=before_hard_swish),
    "fp32: depthwise": Rounding(spared=depthwise),
    "fp32: first layer": Rounding(spared=stem(1)),
    "fp32: first two layers": Rounding(spared=stem(2)),
    "fp32: first block": Rounding(spared=stem(5)),
    "fp32: first two blocks": Rounding(spared=stem(8)),
    "fp32: squeeze-excite, depthwise": Rounding(spared=several(squeeze_excite, depthwise)),
    "fp32: residual sums": Rounding(spared=residual_sums),
    "fp32: sum of the projections": Rounding(spared=sum_of_projections),
    "fp32: projections and their sum": Rounding(spared=projections),
    "fp32: all sums": Rounding(spared=additions),
    "fp32: all but 1x1": Rounding(spared=all_but_pointwise),
}
