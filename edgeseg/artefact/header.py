"""The JSON header of an .edgeseg file, read without torch and without the tensors.

A safetensors file is eight bytes with the length of its header, the header, then the tensors.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.config import FitConfig
from edgeseg.contract.metadata import MODEL_SUFFIXES
from edgeseg.errors import ArtefactError, EdgesegError, UsageError
from edgeseg.files import atomic_path

SCHEMA = 1
KEY = "edgeseg"  # of our header among the metadata of the file
_PREFIX = 8
_LONGEST = 100_000_000  # safetensors refuses longer ones, too


class _Damaged(Exception):
    """Why a file cannot be read, and whether it only seems to be cut off."""

    def __init__(self, reason: str, *, cut: bool = False) -> None:
        super().__init__(reason)
        self.kind = "truncated" if cut else "not an edgeseg artefact"


def refuse_exported(path: Path) -> None:
    """A graph or an engine is no fitted model, and has commands of its own."""
    if path.suffix in MODEL_SUFFIXES:
        raise UsageError(
            f"{path}: an exported model, expected a file of edgeseg fit; run it with "
            "`edgeseg stream`, or with edgeseg.runtime.open in Python"
        )


def read_header(path: Path) -> dict[str, Any]:
    """What `edgeseg info` shows of a fitted model."""
    refuse_exported(path)
    if not path.is_file():
        raise ArtefactError(f"{path}: no such file; make one with `edgeseg fit DATA --out {path}`")
    try:
        metadata = _metadata(path)
        if KEY not in metadata:
            raise ArtefactError(
                f"{path}: a safetensors file of another program; expected one from edgeseg fit"
            )
        header: dict[str, Any] = json.loads(metadata[KEY])
    except (_Damaged, TypeError, ValueError) as error:
        kind = getattr(error, "kind", "not an edgeseg artefact")
        raise ArtefactError(
            f"{path}: {kind} ({error}); expected a whole file written by edgeseg fit"
        ) from None
    _check_schema(path, header)
    return header


def read_config(path: Path) -> FitConfig:
    """The settings that a model was fitted with."""
    header = read_header(path)
    try:
        return FitConfig.from_dict(header["config"])
    except (LookupError, TypeError, ValueError, EdgesegError) as error:
        raise ArtefactError(
            f"{path}: damaged or edited artefact ({error}); fit the model again"
        ) from None


def _check_schema(path: Path, header: Any) -> None:
    """Refuse a header that another version wrote."""
    schema = header.get("schema") if isinstance(header, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise ArtefactError(
            f"{path}: schema {schema} is newer than {SCHEMA}, the newest this edgeseg reads; "
            "run `pip install --upgrade edgeseg`"
        )
    if schema != SCHEMA:
        raise ArtefactError(f"{path}: schema {schema!r}, expected {SCHEMA}; fit the model again")


def read_floats(path: Path, name: str) -> NDArray[np.float32] | None:
    """The values of a float32 tensor, of a file that read_header takes; None without such one."""
    header, begin = _layout(path)
    tensor = header.get(name)
    if tensor is None or tensor.get("dtype") != "F32":
        return None
    first, end = tensor["data_offsets"]
    with path.open("rb") as file:
        file.seek(begin + first)
        values: NDArray[np.float32] = np.frombuffer(file.read(end - first), "<f4")
    return values


def replace_header(path: Path, header: dict[str, Any]) -> None:
    """Write another header in one step; the tensors are copied as they are."""
    whole, begin = _layout(path)
    stored = json.dumps(header, sort_keys=True, allow_nan=False)
    named = {"__metadata__": {**whole.pop("__metadata__"), KEY: stored}} | whole
    text = json.dumps(named, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _PREFIX)  # tensors begin at a multiple of eight bytes
    with atomic_path(path) as temporary, temporary.open("wb") as out, path.open("rb") as file:
        out.write(len(text).to_bytes(_PREFIX, "little") + text)
        file.seek(begin)
        shutil.copyfileobj(file, out)


def _metadata(path: Path) -> dict[str, str]:
    metadata = _layout(path)[0].get("__metadata__", {})
    return metadata if isinstance(metadata, dict) else {}


def _layout(path: Path) -> tuple[dict[str, Any], int]:
    """The header of the whole file, and where its tensors begin."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_PREFIX), "little")
        if size < _PREFIX:
            raise _Damaged("header too small")
        if length > _LONGEST:
            raise _Damaged("header too large")
        if _PREFIX + length > size:
            raise _Damaged("invalid header length", cut=True)
        header = json.loads(file.read(length))
    if not isinstance(header, dict):
        raise _Damaged("its header is no JSON object")
    tensors = [value for name, value in header.items() if name != "__metadata__"]
    try:
        ends = [int(tensor["data_offsets"][1]) for tensor in tensors]
    except (LookupError, TypeError):
        raise _Damaged("its header describes no tensors") from None
    if _PREFIX + length + max(ends, default=0) != size:
        raise _Damaged("incomplete metadata, file not fully covered", cut=True)
    return header, _PREFIX + length
