"""Read the outline of a .onnx file without a library: operators, constants, tensors and shapes.

The numbers of the constants, nearly all of the file, are skipped.
"""

import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.plain import Malformed
from edgeseg.runtime.backends.onnx_properties import Field, bytes_of, fields_of, numbers_of

# Numbers of fields in onnx.proto.
_GRAPH, _OPSET = 7, 8  # of ModelProto
_NODE, _CONSTANT, _INPUT, _OUTPUT, _BETWEEN = 1, 5, 11, 12, 13  # of GraphProto
_READS, _GIVES, _NODE_NAME, _OP_TYPE, _DOMAIN = 1, 2, 3, 4, 7  # of NodeProto
_VALUE_NAME, _VALUE_TYPE, _TENSOR, _ELEMENT, _SHAPE = 1, 2, 1, 1, 2  # of ValueInfoProto, inwards
_SIDE, _SIDE_SIZE, _SIDE_NAME = 1, 1, 2  # of TensorShapeProto and its dimensions
_DIMS, _CONSTANT_TYPE, _CONSTANT_NAME = 1, 2, 8  # of TensorProto
_SET_DOMAIN, _SET_VERSION = 1, 2  # of OperatorSetIdProto
_KINDS = {  # of TensorProto.DataType
    **{1: "float", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64"},
    **{9: "bool", 10: "float16", 11: "double", 12: "uint32", 13: "uint64", 16: "bfloat16"},
}
_SIZES = {
    **{"float": 4, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "int32": 4, "int64": 8},
    **{"bool": 1, "float16": 2, "double": 8, "uint32": 4, "uint64": 8, "bfloat16": 2},
}
STANDARD = "ai.onnx"  # the domain of ONNX's own operators, which files write as nothing


@dataclass(frozen=True, kw_only=True)
class GraphTensor:
    """A tensor of a graph; a side is a number or, where it may vary, a name."""

    name: str
    kind: str
    sides: tuple[int | str, ...]

    @property
    def values(self) -> int | None:
        """How many values it holds; None where its shape is not fixed."""
        fixed = [side for side in self.sides if isinstance(side, int)]
        return math.prod(fixed) if len(fixed) == len(self.sides) else None

    @property
    def bytes(self) -> int:
        """Its size in the file; 0 where its shape is not fixed."""
        return (self.values or 0) * _SIZES.get(self.kind, 0)

    def __str__(self) -> str:
        return f"{self.kind} [{', '.join(map(str, self.sides))}]"


@dataclass(frozen=True, kw_only=True)
class GraphNode:
    """One operator of a graph, with the names of the tensors that it reads and gives."""

    name: str
    kind: str
    domain: str
    reads: tuple[str, ...]
    gives: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class GraphOutline:
    """A graph without its numbers; nodes stand in the order of execution."""

    nodes: tuple[GraphNode, ...]
    inputs: tuple[GraphTensor, ...]
    outputs: tuple[GraphTensor, ...]
    between: tuple[GraphTensor, ...]  # the other tensors, as far as the file has their shapes
    constants: tuple[GraphTensor, ...]
    opsets: dict[str, int]

    @property
    def tensors(self) -> dict[str, GraphTensor]:
        """All tensors whose shapes are in the file, by name."""
        listed = (*self.between, *self.inputs, *self.outputs)
        return {tensor.name: tensor for tensor in listed}


def read_outline(path: Path) -> GraphOutline:
    """Read the outline of a file; one without a graph, or damaged, is refused."""
    try:
        with path.open("rb") as file:
            outline = parse_outline(file)
    except (Malformed, ValueError) as error:  # also names that are not UTF-8
        raise RuntimeFailure(f"{path}: damaged graph ({error}); export it again") from None
    if not outline.nodes:  # an empty file is a valid message without anything in it
        raise RuntimeFailure(f"{path}: not an ONNX file (it has no graph); export it again")
    return outline


def parse_outline(file: BinaryIO) -> GraphOutline:
    """Read the outline of an open file; what is wrong with it is Malformed or a ValueError."""
    whole = [field for field in fields_of(file, 0, file.seek(0, io.SEEK_END)) if field.has_bytes]
    graphs = [field for field in whole if field.number == _GRAPH]
    parts: dict[int, list[Field]] = {}
    for graph in graphs:
        for field in fields_of(file, graph.value, graph.end):
            if field.has_bytes:
                parts.setdefault(field.number, []).append(field)

    def tensors(number: int) -> tuple[GraphTensor, ...]:
        return tuple(_value(file, field) for field in parts.get(number, ()))

    sets = [_opset(file, field) for field in whole if field.number == _OPSET]
    return GraphOutline(
        nodes=tuple(_node(file, field) for field in parts.get(_NODE, ())),
        inputs=tensors(_INPUT),
        outputs=tensors(_OUTPUT),
        between=tensors(_BETWEEN),
        constants=tuple(_constant(file, field) for field in parts.get(_CONSTANT, ())),
        opsets=dict(sets),
    )


def _node(file: BinaryIO, message: Field) -> GraphNode:
    texts: dict[int, list[str]] = {}
    for field in fields_of(file, message.value, message.end):
        if field.has_bytes and field.number in (_READS, _GIVES, _NODE_NAME, _OP_TYPE, _DOMAIN):
            texts.setdefault(field.number, []).append(bytes_of(file, field).decode())

    def last(number: int) -> str:
        return texts.get(number, [""])[-1]

    return GraphNode(
        name=last(_NODE_NAME),
        kind=last(_OP_TYPE),
        domain=last(_DOMAIN) or STANDARD,
        reads=tuple(texts.get(_READS, ())),
        gives=tuple(texts.get(_GIVES, ())),
    )


def _value(file: BinaryIO, message: Field) -> GraphTensor:
    """Read the name, the kind and the shape of an input, an output or a tensor between them."""
    kinds = _numbers(file, message, _VALUE_TYPE, _TENSOR, _ELEMENT)
    sides: list[int | str] = []
    for side in _inside(file, message, _VALUE_TYPE, _TENSOR, _SHAPE, _SIDE):
        named, sized = _texts(file, side, _SIDE_NAME), _numbers(file, side, _SIDE_SIZE)
        sides.append(named[-1] if named else sized[-1] if sized else 0)
    names = _texts(file, message, _VALUE_NAME)
    return GraphTensor(name=names[-1] if names else "", kind=_kind(kinds), sides=tuple(sides))


def _constant(file: BinaryIO, message: Field) -> GraphTensor:
    names = _texts(file, message, _CONSTANT_NAME)
    return GraphTensor(
        name=names[-1] if names else "",
        kind=_kind(_numbers(file, message, _CONSTANT_TYPE)),
        sides=tuple(_numbers(file, message, _DIMS)),
    )


def _opset(file: BinaryIO, message: Field) -> tuple[str, int]:
    versions = _numbers(file, message, _SET_VERSION)
    domains = _texts(file, message, _SET_DOMAIN)
    return (domains[-1] if domains else "") or STANDARD, versions[-1] if versions else 0


def _kind(numbers: list[int]) -> str:
    return _KINDS.get(numbers[-1] if numbers else 0, f"type {numbers}")


def _inside(file: BinaryIO, message: Field, *numbers: int) -> Iterator[Field]:
    """Yield the fields that a path of numbers leads to."""
    first, *rest = numbers
    for field in fields_of(file, message.value, message.end):
        if field.number == first and not rest:
            yield field
        elif field.number == first and field.has_bytes:
            yield from _inside(file, field, *rest)


def _texts(file: BinaryIO, message: Field, *numbers: int) -> list[str]:
    found = _inside(file, message, *numbers)
    return [bytes_of(file, field).decode() for field in found if field.has_bytes]


def _numbers(file: BinaryIO, message: Field, *numbers: int) -> list[int]:
    found = list(_inside(file, message, *numbers))
    return [value for field in found for value in numbers_of(file, field)]
