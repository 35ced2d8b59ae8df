"""Write a .onnx file with other constants, without the onnx package.

file -> fields of the model -> fields of its graph -> constants with other numbers -> file

A constant keeps its name, its type and its shape. Nothing else of the graph changes, but outputs
may be left out.
"""

import io
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.plain import Malformed
from edgeseg.runtime.backends.onnx_properties import (
    METADATA_PROPS,
    Field,
    bytes_of,
    fields_of,
    numbers_of,
)

_GRAPH = 7  # of ModelProto in onnx.proto
_INITIALIZER, _OUTPUT = 5, 12  # of GraphProto
_DIMS, _TYPE, _NAME, _RAW = 1, 2, 8, 9  # of TensorProto
_VALUE_NAME = 1  # of ValueInfoProto
_FLOAT = 1  # of TensorProto.DataType


def read_constants(model: Path, *, prefix: str) -> dict[str, NDArray[np.float32]]:
    """Read the fp32 constants whose names begin with a prefix."""
    found: dict[str, NDArray[np.float32]] = {}
    with model.open("rb") as file:
        for graph in fields_of(file, 0, model.stat().st_size):
            if graph.number != _GRAPH or not graph.has_bytes:
                continue
            for field in fields_of(file, graph.value, graph.end):
                if field.number == _INITIALIZER and field.has_bytes:
                    tensor = _Tensor(file, field)
                    if tensor.name.startswith(prefix):
                        found[tensor.name] = tensor.values()
    return found


def with_constants(
    data: bytes, constants: Mapping[str, NDArray[np.float32]], *, outputs: Collection[str]
) -> bytes:
    """Return the file with other numbers in some constants, these outputs and no properties."""
    file, left = io.BytesIO(data), set(constants)
    parts: list[bytes] = []
    for field in fields_of(file, 0, len(data)):
        if field.number == METADATA_PROPS and field.has_bytes:
            continue
        if field.number == _GRAPH and field.has_bytes:
            pieces = _graph(file, field, constants, left, outputs)
            parts.append(_message(_GRAPH, b"".join(pieces)))
        else:
            parts.append(data[field.start : field.end])
    if left:
        raise Malformed(f"no constant {min(left)}")
    return b"".join(parts)


def with_property(data: bytes, key: str, text: str) -> bytes:
    """Return the file with one more property, at its end."""
    entry = _message(1, key.encode()) + _message(2, text.encode())
    return data + _message(METADATA_PROPS, entry)


def _graph(
    file: io.BytesIO,
    graph: Field,
    constants: Mapping[str, NDArray[np.float32]],
    left: set[str],
    outputs: Collection[str],
) -> Iterator[bytes]:
    """Yield the fields of a graph, some of them changed."""
    for field in fields_of(file, graph.value, graph.end):
        if field.number == _OUTPUT and _name(file, field, _VALUE_NAME) not in outputs:
            continue
        if field.number == _INITIALIZER and field.has_bytes:
            tensor = _Tensor(file, field)
            if tensor.name in constants:
                left.discard(tensor.name)
                yield _message(_INITIALIZER, tensor.with_values(constants[tensor.name]))
                continue
        file.seek(field.start)
        yield file.read(field.end - field.start)


class _Tensor:
    """An initialiser of a graph."""

    def __init__(self, file: Any, field: Field) -> None:
        self._file, self._fields = file, list(fields_of(file, field.value, field.end))
        self.name = _name(file, field, _NAME)

    def values(self) -> NDArray[np.float32]:
        """Return its numbers in its shape."""
        raw = next((field for field in self._fields if field.number == _RAW), None)
        shape = self._shape()
        if self._kind() != _FLOAT or raw is None:
            raise Malformed(f"{self.name} is not stored as float32")
        if raw.end - raw.value != 4 * int(np.prod(shape)):
            raise Malformed(f"{self.name} has not as many numbers as its shape {shape} says")
        return np.frombuffer(bytes_of(self._file, raw), "<f4").reshape(shape)

    def with_values(self, values: NDArray[np.float32]) -> bytes:
        """Return the tensor with other numbers."""
        before = self.values()
        if values.shape != before.shape or values.dtype != np.float32:
            raise Malformed(
                f"{self.name} is float32 {before.shape}, got {values.dtype} {values.shape}"
            )
        raw = np.ascontiguousarray(values).astype("<f4", copy=False).tobytes()
        parts = []
        for field in self._fields:
            self._file.seek(field.start)
            whole = self._file.read(field.end - field.start)
            parts.append(_message(_RAW, raw) if field.number == _RAW else whole)
        return b"".join(parts)

    def _kind(self) -> int:
        return next(iter(self._numbers(_TYPE)), 0)

    def _shape(self) -> tuple[int, ...]:
        return tuple(self._numbers(_DIMS))

    def _numbers(self, number: int) -> list[int]:
        fields = [field for field in self._fields if field.number == number]
        return [value for field in fields for value in numbers_of(self._file, field)]


def _name(file: Any, message: Field, number: int) -> str:
    for field in fields_of(file, message.value, message.end):
        if field.number == number and field.has_bytes:
            return bytes_of(file, field).decode(errors="replace")
    return ""


def _message(number: int, value: bytes) -> bytes:
    """Encode a field that holds bytes."""
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    digits = bytearray()
    while value >= 0x80:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(digits) + bytes([value])
