"""Cut a traced graph in two behind the backbone's taps: one half for an accelerator, one to stay.

fp32 graph --sections--> backbone: pixels (N, 3, H, W) to taps, convolutions of fixed shapes
                         head: taps to the outputs of the whole graph
"""

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from edgeseg.base.errors import ExportError
from edgeseg.export.graph import check_graph, initializers
from edgeseg.runtime.accelerators.cuts import crossing_tensors
from edgeseg.runtime.accelerators.sections import BACKBONE, PREPROCESSING, NodeLinks, sections
from edgeseg.runtime.backends.onnx_outline import GraphTensor, parse_outline
from edgeseg.runtime.backends.split_facts import KEY, SplitFacts, TapShape, split_sha256

_PIXELS, _TAP = "pixels", "tap_{}"
_PREPARING = {"Cast", "Transpose", "Sub"}  # what stands in front of the first layer
_OFFSET = "preprocess.offset"  # (W, 3): what the graph subtracts from every row of a frame


@dataclass(frozen=True, kw_only=True)
class GraphHalves:
    """Both halves of a graph; the backbone is as its file will be."""

    backbone: bytes
    head: ModelProto
    facts: SplitFacts  # of the head


def halve_graph(proto: ModelProto) -> GraphHalves:
    """Cut a graph in fp32 with a fixed number of frames."""
    data = proto.SerializeToString()
    outline = parse_outline(io.BytesIO(data))
    places, links = sections(outline), NodeLinks(outline)
    constants = initializers(proto)
    inside = {number for number, place in enumerate(places or ()) if place == BACKBONE}
    before = {number for number, place in enumerate(places or ()) if place == PREPROCESSING}
    kinds = {outline.nodes[number].kind for number in before}
    if not inside or kinds != _PREPARING or _OFFSET not in constants:
        raise ExportError("the graph has no backbone in fp32 that could be cut off; report it")
    (pixels,) = crossing_tensors(links, before)
    names = {pixels: _PIXELS}
    names |= {
        name: _TAP.format(number)
        for number, name in enumerate(crossing_tensors(links, inside), start=1)
    }
    shapes = outline.tensors
    first, *taps = (replace(shapes[name], name=new) for name, new in names.items())
    nodes = [_rename(node, names) for node in proto.graph.node]
    rest = set(range(len(nodes))) - inside - before
    backbone = _part(proto, [nodes[n] for n in sorted(inside)], inputs=[first], outputs=taps)
    backbone = check_graph(plain_pooling(backbone))
    head = _part(proto, [nodes[n] for n in sorted(rest)], inputs=taps, outputs=None)
    red, green, blue = map(float, numpy_helper.to_array(constants[_OFFSET])[0])
    message = backbone.SerializeToString(deterministic=True)
    facts = SplitFacts(
        half="head",
        backbone_sha256=split_sha256(io.BytesIO(message)),
        pixels=_tap_shape(first),
        offset=(red, green, blue),
        taps=tuple(map(_tap_shape, taps)),
    )
    helper.set_model_props(backbone, {KEY: replace(facts, half="backbone").to_json()})
    return GraphHalves(
        backbone=backbone.SerializeToString(deterministic=True), head=check_graph(head), facts=facts
    )


def add_facts(head: ModelProto, facts: SplitFacts) -> None:
    """Write the facts into a head that has the model's metadata."""
    head.metadata_props.add(key=KEY, value=facts.to_json())


def _rename(node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(node)
    for listed in (copy.input, copy.output):
        new = [names.get(name, name) for name in listed]
        del listed[:]
        listed.extend(new)
    return copy


def _part(
    proto: ModelProto,
    nodes: list[NodeProto],
    *,
    inputs: Iterable[GraphTensor],
    outputs: Iterable[GraphTensor] | None,
) -> ModelProto:
    """Make a model of some nodes; its outputs are those of the whole graph unless given."""
    part = ModelProto()
    part.CopyFrom(proto)
    del part.metadata_props[:]
    graph = part.graph
    del graph.node[:], graph.input[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.input.extend(_values(inputs))
    if outputs is not None:
        del graph.output[:]
        graph.output.extend(_values(outputs))
    read = {name for node in nodes for name in node.input}
    graph.initializer.extend(each for each in proto.graph.initializer if each.name in read)
    return part


def _values(tensors: Iterable[GraphTensor]) -> list[object]:
    return [
        helper.make_tensor_value_info(each.name, TensorProto.FLOAT, list(each.sides))
        for each in tensors
    ]


def _tap_shape(tensor: GraphTensor) -> TapShape:
    n, c, h, w = (int(side) for side in tensor.sides)
    return TapShape(name=tensor.name, shape=(n, c, h, w))


def plain_pooling(proto: ModelProto) -> ModelProto:
    """Replace what the exporter writes for a mean over the whole picture by GlobalAveragePool.

    A mean without the sides, a reshape to one dimension and a gather of all its values in their
    order are the same numbers, and no accelerator was made for them.
    """
    constants = initializers(proto)
    makers = {name: node for node in proto.graph.node for name in node.output}
    for gather in [node for node in proto.graph.node if node.op_type == "Gather"]:
        flat = makers.get(gather.input[0])
        mean = makers.get(flat.input[0]) if flat is not None and flat.op_type == "Reshape" else None
        if mean is None or mean.op_type != "ReduceMean" or gather.input[1] not in constants:
            continue
        order = numpy_helper.to_array(constants[gather.input[1]])
        if _is_a_pooling(mean, constants) and _keeps_order(order):
            gather.CopyFrom(
                helper.make_node(
                    "GlobalAveragePool", [mean.input[0]], list(gather.output), name=gather.name
                )
            )
    return _without_unread(proto)


def _is_a_pooling(mean: NodeProto, constants: Mapping[str, TensorProto]) -> bool:
    axes = numpy_helper.to_array(constants[mean.input[1]]).tolist() if len(mean.input) > 1 else []
    return sorted(axes) in ([2, 3], [-2, -1])


def _keeps_order(order: NDArray[np.int64]) -> bool:
    """Whether a gather gives (N, C, 1, 1) of N C values in their order."""
    counts = np.arange(order.size).reshape(order.shape)
    return order.ndim == 4 and order.shape[2:] == (1, 1) and np.array_equal(order, counts)


def _without_unread(proto: ModelProto) -> ModelProto:
    """Remove nodes and constants that nothing reads."""
    wanted = {output.name for output in proto.graph.output}
    kept = []
    for node in reversed(proto.graph.node):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(node.input)
    constants = [tensor for tensor in proto.graph.initializer if tensor.name in wanted]
    del proto.graph.node[:], proto.graph.initializer[:]
    proto.graph.node.extend(kept[::-1])
    proto.graph.initializer.extend(constants)
    return proto
