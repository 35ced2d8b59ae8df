"""Write fp16 into the graph: half tensors and casts, no builder flags.

The compilers are strongly typed, so this is the precision that runs. The sum of squares stays
fp32: a distance of 300 squared is beyond fp16. So does everything behind it, which is small.
"""

from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from edgeseg.base.errors import ExportError
from edgeseg.base.messages import Setting
from edgeseg.export.graph import (
    ancestors,
    check_graph,
    choice_of_variant,
    initializers,
    quadratic_forms,
)
from edgeseg.modelfile.precisions import EXACT

# Inputs that ONNX defines as fp32 (or as integers) whatever the type of the data.
_TYPED_INPUTS = {"Resize": {1, 2, 3}, "Gather": {1}}


@dataclass(frozen=True, kw_only=True)
class HalfPlan:
    """The parts of the graph that become fp16."""

    embedding: bool  # the projection and the subtraction of the mean, too
    backbone: bool = True

    @property
    def text(self) -> str:
        """The plan in words, for the report."""
        if self.embedding:
            return "backbone, embedding and factors fp16; sum of squares fp32"
        if not self.backbone:
            return "factors fp16; everything else fp32"
        return "backbone and factors fp16; embedding and sum of squares fp32"


def to_half(proto: ModelProto, plan: HalfPlan) -> ModelProto:
    """Copy an fp32 graph with its backbone and factors in fp16."""
    half = ModelProto()
    half.CopyFrom(proto)
    forms = {form.output[0] for form in quadratic_forms(half)}
    first = next(node for node in half.graph.node if node.op_type == "Conv")
    # Nodes are told apart by their first output: protobuf hands out new wrappers at every look.
    makers = [node for form in sorted(forms) for node in ancestors(half, form)]
    region = (
        _names(makers) - _names(ancestors(half, first.input[0])) - _names(choice_of_variant(half))
    )
    if not plan.embedding:
        projected = _names(_projections(half))
        behind = {name for name in region if projected & _names(ancestors(half, name))}
        region = (region - behind if plan.backbone else set()) | forms
    _retype(half, region)
    return check_graph(half)


def _names(nodes: list[NodeProto]) -> set[str]:
    return {node.output[0] for node in nodes}


def _projections(proto: ModelProto) -> list[NodeProto]:
    projections = [
        node
        for node in proto.graph.node
        if node.op_type == "Conv" and node.input[1].startswith("embedding.kernel_")
    ]
    if not projections:
        raise ExportError("the graph has no projection; it is not one that edgeseg traced")
    return projections


def _retype(proto: ModelProto, region: set[str]) -> None:
    """Make the float tensors of a region fp16 and cast at its borders."""
    region, given = _free_outputs(proto, region)
    constants = initializers(proto)
    made = {name for node in proto.graph.node if node.output[0] in region for name in node.output}
    casts: dict[tuple[str, int], str] = {}
    order: list[NodeProto] = []

    def cast(name: str, to: int) -> str:
        key = (name, to)
        if key not in casts:
            casts[key] = f"{name}_{'half' if to == TensorProto.FLOAT16 else 'float'}"
            order.append(helper.make_node("Cast", [name], [casts[key]], to=to, name=casts[key]))
        return casts[key]

    for node in proto.graph.node:
        inside = node.output[0] in region
        fixed = _TYPED_INPUTS.get(node.op_type, set())
        for i, name in enumerate(node.input):
            if inside and i not in fixed and name in constants:
                _halve(constants[name])
            elif inside and i not in fixed and name and name not in made:
                node.input[i] = cast(name, TensorProto.FLOAT16)
            elif not inside and name in made:
                node.input[i] = cast(name, TensorProto.FLOAT)
        order.append(node)
    for name, inner in given.items():
        order.append(helper.make_node("Cast", [inner], [name], to=TensorProto.FLOAT, name=name))
    del proto.graph.node[:]
    proto.graph.node.extend(order)


def _free_outputs(proto: ModelProto, region: set[str]) -> tuple[set[str], dict[str, str]]:
    """Rename tensors of a region that are outputs, which stay fp32: return them by those names."""
    made = {name for node in proto.graph.node if node.output[0] in region for name in node.output}
    inner = {each.name: f"{each.name}_inner" for each in proto.graph.output if each.name in made}
    for node in proto.graph.node:
        for names in (node.input, node.output):
            names[:] = [inner.get(name, name) for name in names]
    return {inner.get(name, name) for name in region}, inner


def _halve(tensor: TensorProto) -> None:
    if tensor.data_type != TensorProto.FLOAT:
        return
    values = numpy_helper.to_array(tensor)
    largest = float(np.abs(values).max(initial=0.0))
    if largest > float(np.finfo(np.float16).max):
        raise ExportError(
            f"{tensor.name} reaches {largest:.3g}, beyond fp16; export with ",
            Setting("precision", EXACT),
        )
    tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float16), tensor.name))


def emulate_half(proto: ModelProto) -> ModelProto:
    """Emulate a fp16 graph for a CPU: fp32 nodes, and each fp16 result rounded.

    ONNX Runtime's CPU runs fp16 nodes in fp32 and rounds nothing between them, so without this it
    sees neither the rounding nor the overflow of a GPU.
    """
    half = {
        value.name
        for value in proto.graph.value_info
        if value.type.tensor_type.elem_type == TensorProto.FLOAT16
    }
    if not half:
        return proto
    wide = ModelProto()
    wide.CopyFrom(proto)
    for tensor in wide.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT16:
            values = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    order: list[NodeProto] = []
    for node in wide.graph.node:
        order.append(node)
        for i, name in enumerate(node.output):
            if name not in half:
                continue
            if node.op_type == "Cast":  # to fp16: the rounding itself
                node.attribute[0].i = TensorProto.FLOAT
            exact, rounded = f"{name}_exact", f"{name}_rounded"
            node.output[i] = exact
            order.append(helper.make_node("Cast", [exact], [rounded], to=TensorProto.FLOAT16))
            order.append(helper.make_node("Cast", [rounded], [name], to=TensorProto.FLOAT))
    del wide.graph.node[:]
    wide.graph.node.extend(order)
    return check_graph(wide)
