"""The numbers of a graph that no hash guards: finite, and of the factors not all zero.

Files of version 0.1.0 without a sidecar. Later ones are compared with their hash instead.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.plain import Malformed
from edgeseg.modelfile.file_reading import DISK, Files
from edgeseg.runtime.backends.onnx_properties import Field, bytes_of, fields_of

_GRAPH, _INITIALIZER = 7, 5  # of ModelProto and of GraphProto in onnx.proto
_TYPE, _NAME, _RAW = 2, 8, 9  # of TensorProto
_TYPES = {1: "<f4", 3: "<i1", 10: "<f2", 11: "<f8"}
_FACTORS = ("factor", "factor_int8", "factor_scale")  # as export names them


def check_constants(model: Path, *, files: Files = DISK) -> None:
    """Refuse a graph whose verdicts could only be nonsense."""
    try:
        with files.open(model) as file:
            for graph in fields_of(file, 0, file.seek(0, io.SEEK_END)):
                if graph.number == _GRAPH and graph.has_bytes:
                    for tensor in _initializers(file, graph):
                        _check(file, tensor)
    except Malformed as error:
        raise RuntimeFailure(f"{model}: damaged ({error}); export it again") from None


def _initializers(file: BinaryIO, graph: Field) -> Iterator[Field]:
    for field in fields_of(file, graph.value, graph.end):
        if field.number == _INITIALIZER and field.has_bytes:
            yield field


def _check(file: BinaryIO, tensor: Field) -> None:
    kind, name, raw = 0, "", b""
    for field in fields_of(file, tensor.value, tensor.end):
        if field.number == _TYPE and not field.has_bytes:
            kind = _number(file, field)
        elif field.number == _NAME and field.has_bytes:
            name = bytes_of(file, field).decode(errors="replace")
        elif field.number == _RAW and field.has_bytes:
            raw = bytes_of(file, field)
    size = np.dtype(_TYPES.get(kind, "<i1")).itemsize
    if kind not in _TYPES or not raw or len(raw) % size:
        return
    values = np.frombuffer(raw, _TYPES[kind])
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise Malformed(f"{name} holds values that are not finite")
    if name in _FACTORS and not values.any():
        raise Malformed(f"{name} is zero everywhere, so that nothing is ever found")


def _number(file: BinaryIO, field: Field) -> int:
    """The value of a field of kind 0: one byte for every type there is."""
    file.seek(field.end - 1)
    return file.read(1)[0]
