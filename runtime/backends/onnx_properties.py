"""Read our metadata inside a .onnx file, and the hash of the rest, without a library.

A file is a protobuf message: fields one after another, each with a number, a kind and a value. Only
`metadata_props` is read; the graph, which is nearly all of the file, is skipped.
"""

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.plain import LONGEST_JSON, Malformed
from edgeseg.modelfile.file_reading import DISK, Files
from edgeseg.modelfile.metadata import KEY

METADATA_PROPS = 14  # of ModelProto in onnx.proto
_NAME, _VALUE = 1, 2  # of StringStringEntryProto
_SKIPPED = {1: 8, 5: 4}  # bytes of the kinds of fixed size
_VARINT, _BYTES = 0, 2
_PIECE = 1 << 20


class Field(NamedTuple):
    """One field of a message: its number, and the positions of the field and its value."""

    number: int
    start: int
    value: int  # where its bytes begin; the end, for a number
    end: int
    has_bytes: bool


def property_text(model: Path, *, key: str = KEY, files: Files = DISK) -> str | None:
    """Read the metadata that `edgeseg export` wrote; None for a graph of another program."""
    try:
        with files.open(model) as file:
            for field in fields_of(file, 0, file.seek(0, io.SEEK_END)):
                text = _our_text(file, field, key)
                if text is not None:
                    return text.decode()
    except (Malformed, UnicodeDecodeError) as error:
        raise RuntimeFailure(f"{model}: not an ONNX file ({error}); export it again") from None
    return None


def graph_sha256(file: BinaryIO, *, key: str = KEY) -> str:
    """Compute the hash of a .onnx file without our metadata, which holds that hash."""
    size = file.seek(0, io.SEEK_END)
    digest = hashlib.sha256()
    for field in list(fields_of(file, 0, size)):
        if _our_text(file, field, key) is None:
            file.seek(field.start)
            left = field.end - field.start
            while left > 0 and (piece := file.read(min(left, _PIECE))):
                digest.update(piece)
                left -= len(piece)
    return digest.hexdigest()


def fields_of(file: BinaryIO, start: int, end: int) -> Iterator[Field]:
    """Yield the fields of the message between two positions of a file."""
    at = start
    while at < end:
        file.seek(at)
        tag = varint_of(file)
        kind = tag & 7
        if kind == _VARINT:
            varint_of(file)
            begin, after = file.tell(), file.tell()
        elif kind == _BYTES or kind in _SKIPPED:
            length = varint_of(file) if kind == _BYTES else _SKIPPED[kind]
            begin, after = file.tell(), file.tell() + length
        else:
            raise Malformed("a field of an unknown kind")
        if after > end:
            raise Malformed("it ends too early")
        yield Field(tag >> 3, at, begin, after, kind == _BYTES)
        at = after


def bytes_of(file: BinaryIO, field: Field) -> bytes:
    """Read the value of a field."""
    file.seek(field.value)
    return file.read(field.end - field.value)


def numbers_of(file: BinaryIO, field: Field) -> Iterator[int]:
    """Yield the integers of a field, packed or one by one."""
    file.seek(field.value if field.has_bytes else field.start)
    if not field.has_bytes:
        varint_of(file)  # its tag
    while file.tell() < field.end:
        yield varint_of(file)


def _our_text(file: BinaryIO, field: Field, key: str) -> bytes | None:
    """Read the value of a property, if it is ours."""
    if field.number != METADATA_PROPS or not field.has_bytes:
        return None
    if field.end - field.value > LONGEST_JSON:
        raise Malformed(f"metadata of over {LONGEST_JSON} bytes")
    parts = {
        part.number: bytes_of(file, part)
        for part in fields_of(file, field.value, field.end)
        if part.has_bytes
    }
    return parts.get(_VALUE) if parts.get(_NAME) == key.encode() else None


def varint_of(file: BinaryIO) -> int:
    """Read the number at the file's current position."""
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            raise Malformed("it ends too early")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    raise Malformed("a number that does not end")
