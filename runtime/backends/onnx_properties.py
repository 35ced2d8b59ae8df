"""Our metadata inside a .onnx file, read in a moment and without a library.

A file is a protobuf message: fields one after another, each a number, a kind and a value. Only
`metadata_props` is read; the graph, which is nearly all of the file, is stepped over.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from edgeseg.contract.metadata import KEY
from edgeseg.errors import RuntimeFailure

_METADATA_PROPS = 14  # of ModelProto in onnx.proto
_NAME, _VALUE = 1, 2  # of StringStringEntryProto
_SKIPPED = {1: 8, 5: 4}  # bytes of the kinds of fixed size
_VARINT, _BYTES = 0, 2


class _Foreign(Exception):
    """Bytes that are no such message."""


def embedded_text(model: Path) -> str | None:
    """What `edgeseg export` wrote into the file; None for a graph of another program."""
    try:
        with model.open("rb") as file:
            for entry in _values(file, model.stat().st_size, wanted={_METADATA_PROPS}):
                parts = list(_values(io.BytesIO(entry), len(entry), wanted={_NAME, _VALUE}))
                if len(parts) == 2 and parts[0] == KEY.encode():
                    return parts[1].decode()
    except (_Foreign, UnicodeDecodeError) as error:
        raise RuntimeFailure(f"{model}: not an ONNX file ({error}); export it again") from None
    return None


def _values(file: BinaryIO, size: int, *, wanted: set[int]) -> Iterator[bytes]:
    while file.tell() < size:
        tag = _varint(file)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            _varint(file)
            continue
        if kind != _BYTES and kind not in _SKIPPED:
            raise _Foreign("a field of an unknown kind")
        length = _varint(file) if kind == _BYTES else _SKIPPED[kind]
        if file.tell() + length > size:
            raise _Foreign("it ends too early")
        if kind == _BYTES and number in wanted:
            yield file.read(length)
        else:
            file.seek(length, io.SEEK_CUR)


def _varint(file: BinaryIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            raise _Foreign("it ends too early")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    raise _Foreign("a number that does not end")
