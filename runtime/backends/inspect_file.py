"""Describe an exported file, for `edgeseg info`; a device has no onnx to read it with."""

import io
import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.files import file_sha256
from edgeseg.base.plain import Malformed
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.modelfile.seal import HASH_STATE
from edgeseg.runtime.backends.model_file import file_metadata, plan_metadata
from edgeseg.runtime.backends.onnx_properties import (
    Field,
    bytes_of,
    fields_of,
    numbers_of,
    property_text,
)

Facts = dict[str, Any]  # plain values, for JSON and for print
# The constants that only the quadratic form reads, as export/graph.py and precision/int8.py name
# them.
_FACTORS = tuple(f"{form}factor{kind}" for form in ("", "map_") for kind in ("", "_int8", "_scale"))
# Numbers of fields in onnx.proto.
_GRAPH = 7  # of ModelProto
_NODE, _CONSTANT, _INPUT, _OUTPUT = 1, 5, 11, 12  # of GraphProto
_OP_TYPE = 4  # of NodeProto
_VALUE_NAME, _VALUE_TYPE, _TENSOR, _ELEMENT, _SHAPE = 1, 2, 1, 1, 2  # of ValueInfoProto, inwards
_SIDE, _SIDE_SIZE, _SIDE_NAME = 1, 1, 2  # of TensorShapeProto and its dimensions
_DIMS, _CONSTANT_TYPE, _CONSTANT_NAME = 1, 2, 8  # of TensorProto
_KINDS = {  # of TensorProto.DataType
    **{1: "float", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64"},
    **{9: "bool", 10: "float16", 11: "double", 12: "uint32", 13: "uint64", 16: "bfloat16"},
}
_BYTES_OF = {1: 4, 2: 1, 3: 1, 6: 4, 10: 2, 16: 2}


def describe(path: Path) -> Facts:
    """Collect metadata, inputs, outputs, size, operators and the bytes of the quadratic form."""
    if not path.is_file():
        raise RuntimeFailure(f"{path}: no such file; make one with `edgeseg export`")
    return _describe_onnx(path) if path.suffix == ".onnx" else _describe_plan(path)


def _describe_onnx(path: Path) -> Facts:
    ours = property_text(path) is not None
    metadata = file_metadata(path) if ours else None  # compares hashes first
    weights = path.with_name(f"{path.name}.data")  # of a graph over 2 GB
    facts = _graph_facts(path) | {
        "size_bytes": path.stat().st_size + (weights.stat().st_size if weights.is_file() else 0)
    }
    if metadata is None:
        return facts | {"metadata": "none: this file was not exported by edgeseg"}
    return facts | {"hash": HASH_STATE, "metadata": _readable(metadata)}


def _describe_plan(path: Path) -> Facts:
    """Describe a plan by its sidecar, and by the graph that it was built from if it is there."""
    sidecar = path.with_suffix(".json")
    if not sidecar.is_file():
        raise RuntimeFailure(
            f"{path}: its sidecar {sidecar.name} is missing; a plan says nothing of itself, "
            "keep the two together or export again"
        )
    metadata = plan_metadata(path)
    low, _, high = metadata.input.batch
    count = low if low == high else "batch"
    grid_hw = metadata.grid_hw
    sides = {"map": metadata.size_hw, "grid": grid_hw, "map_grid": grid_hw}  # others: one value
    facts: Facts = {
        "inputs": {metadata.input.name: _tensor("uint8", [count, *metadata.size_hw, 3])},
        "outputs": {
            name: _tensor("int64" if name == "variant" else "float", [count, *sides.get(name, ())])
            for name in metadata.outputs
        },
    }
    graph = path.with_suffix(".onnx")
    if graph.is_file() and file_sha256(graph) == metadata.onnx_sha256:
        facts |= _graph_facts(graph)
    else:
        facts["operators"] = f"unknown: {graph.name}, which it was built from, is not beside it"
    return facts | {
        "size_bytes": path.stat().st_size,
        "hash": HASH_STATE,
        "metadata": _readable(metadata),
    }


def _graph_facts(path: Path) -> Facts:
    """Read the outline of a graph; its numbers, nearly all of the file, are skipped."""
    try:
        with path.open("rb") as file:
            parts = list(_graph_parts(file))
            facts: Facts = {
                "inputs": dict(_value(file, each) for each in parts if each.number == _INPUT),
                "outputs": dict(_value(file, each) for each in parts if each.number == _OUTPUT),
            }
            nodes = [_texts(file, each, _OP_TYPE) for each in parts if each.number == _NODE]
            operators = Counter(names[-1] if names else "" for names in nodes)
            form = sum(_factor_bytes(file, each) for each in parts if each.number == _CONSTANT)
    except (Malformed, ValueError) as error:  # also names that are not UTF-8
        raise RuntimeFailure(f"{path}: damaged graph ({error}); export it again") from None
    if not nodes:  # an empty file is a valid message without anything in it
        raise RuntimeFailure(f"{path}: not an ONNX file (it has no graph); export it again")
    ordered = dict(sorted(operators.items()))
    return facts | {"operators": ordered, "quadratic_form_bytes_per_frame": form}


def _graph_parts(file: BinaryIO) -> Iterator[Field]:
    for graph in fields_of(file, 0, file.seek(0, io.SEEK_END)):
        if graph.number == _GRAPH and graph.has_bytes:
            yield from (each for each in fields_of(file, graph.value, graph.end) if each.has_bytes)


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


def _value(file: BinaryIO, value: Field) -> tuple[str, str]:
    """Return the name of an input or output, and its kind and shape in words."""
    kinds = _numbers(file, value, _VALUE_TYPE, _TENSOR, _ELEMENT)
    sides: list[int | str] = []
    for side in _inside(file, value, _VALUE_TYPE, _TENSOR, _SHAPE, _SIDE):
        named, sized = _texts(file, side, _SIDE_NAME), _numbers(file, side, _SIDE_SIZE)
        sides.append(named[-1] if named else sized[-1] if sized else 0)
    names = _texts(file, value, _VALUE_NAME)
    kind = _KINDS.get(kinds[-1] if kinds else 0, f"type {kinds}")
    return names[-1] if names else "", _tensor(kind, sides)


def _factor_bytes(file: BinaryIO, constant: Field) -> int:
    """Return the bytes of a factor: each is read once a frame, which decides the time on a CPU."""
    if not set(_texts(file, constant, _CONSTANT_NAME)) & set(_FACTORS):
        return 0
    kinds = _numbers(file, constant, _CONSTANT_TYPE)
    return math.prod(_numbers(file, constant, _DIMS)) * _BYTES_OF.get(kinds[-1] if kinds else 0, 0)


def _readable(metadata: ModelMetadata) -> Facts:
    values: Facts = json.loads(metadata.to_json())
    return values | {"threshold": values["threshold"] | {"method": metadata.threshold.method}}


def _tensor(kind: str, sides: list[Any]) -> str:
    return f"{kind} [{', '.join(map(str, sides))}]"
