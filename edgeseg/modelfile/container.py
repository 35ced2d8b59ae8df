"""Our safetensors files, read without torch: the hash, the header, the places of the tensors.

    8 bytes: length of the header | header: JSON | tensors

Artefacts, shards and checkpoints are such files. The hash is compared before anything is parsed.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.files import atomic_path
from edgeseg.base.plain import LONGEST_JSON, Malformed, parse_object, record
from edgeseg.modelfile.seal import BLANK, check_file, seal_file
from edgeseg.modelfile.seal import KEY as SEAL

_PREFIX = 8
_METADATA = "__metadata__"


class Truncated(Malformed):
    """A file that ends before its own header says."""


class Foreign(Malformed):
    """A safetensors file without a header of ours."""


@dataclass(frozen=True, kw_only=True)
class TensorPlace:
    """The position of a tensor's bytes, counted from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]

    def __post_init__(self) -> None:
        first, end = self.data_offsets
        if not 0 <= first <= end or any(size < 0 for size in self.shape):
            raise ValueError(f"data_offsets: {first} to {end}, expected a piece of the file")


@dataclass(frozen=True, kw_only=True)
class Container:
    """The header of such a file and the places of its tensors."""

    path: Path
    header: dict[str, Any]  # ours, without the seal
    tensors: dict[str, TensorPlace]
    begin: int  # where the tensors begin

    def floats(self, name: str) -> NDArray[np.float32] | None:
        """Return the values of a float32 tensor, or None without such a tensor."""
        place = self.tensors.get(name)
        if place is None or place.dtype != "F32":
            return None
        first, end = place.data_offsets
        with self.path.open("rb") as file:
            file.seek(self.begin + first)
            data = file.read(end - first)
        if len(data) % 4 or len(data) < end - first:
            raise Malformed(f"{name}: {len(data)} bytes, expected four for each of its values")
        values: NDArray[np.float32] = np.frombuffer(data, "<f4")
        return values


def read_container(path: Path, key: str) -> Container:
    """Read a file with our header under a key; Malformed says what is wrong with it."""
    try:
        sealed = check_file(path)
    except Malformed:
        _layout(path)  # says of a file that is cut off that it is
        raise
    whole, begin = _layout(path)
    metadata = whole.pop(_METADATA, {})
    if not isinstance(metadata, dict) or key not in metadata:
        raise Foreign("a safetensors file of another program")
    if not isinstance(metadata[key], str):
        raise Malformed(f"{key}: expected text")
    header = parse_object(metadata[key])
    if not sealed:
        raise Malformed("the hash of itself is missing")
    header.pop(SEAL, None)
    places = {name: record(TensorPlace, value, place=name) for name, value in whole.items()}
    return Container(path=path, header=header, tensors=places, begin=begin)


def seal_header(header: dict[str, Any]) -> str:
    """Write our header as text with a blank for the hash of the file: see seal_file."""
    return json.dumps({**header, SEAL: BLANK}, allow_nan=False)


def replace_stored(path: Path, key: str, header: dict[str, Any]) -> None:
    """Write another header in one step; the tensors are copied as they are."""
    whole, begin = _layout(path)
    stored = {**whole.pop(_METADATA), key: seal_header(header)}
    text = json.dumps({_METADATA: stored} | whole, separators=(",", ":"), ensure_ascii=False)
    data = text.encode()
    data += b" " * (-len(data) % _PREFIX)  # tensors begin at a multiple of eight bytes
    with atomic_path(path) as temporary:
        with temporary.open("wb") as out, path.open("rb") as file:
            out.write(len(data).to_bytes(_PREFIX, "little") + data)
            file.seek(begin)
            shutil.copyfileobj(file, out)
        seal_file(temporary)


def _layout(path: Path) -> tuple[dict[str, Any], int]:
    """Return the header of the whole file, and where its tensors begin."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_PREFIX), "little")
        if size < _PREFIX:
            raise Malformed("header too small")
        if length > LONGEST_JSON:
            raise Malformed("header too large")
        if _PREFIX + length > size:
            raise Truncated("invalid header length")
        header = parse_object(file.read(length))
    try:
        ends = [
            int(value["data_offsets"][1]) for name, value in header.items() if name != _METADATA
        ]
    except (LookupError, TypeError, ValueError):
        raise Malformed("its header describes no tensors") from None
    if _PREFIX + length + max(ends, default=0) != size:
        raise Truncated("incomplete metadata, file not fully covered")
    return header, _PREFIX + length
