"""The hash that a file carries of itself, by which later changes are noticed.

    text or file with 64 zeros in the seal's place --SHA-256--> the digits that stand there

It covers everything, fields of later versions too, and is checked before anything is parsed. It
guards against damage and slips, not against people: anyone who edits a file can seal it again, and
signature.py is for that.
"""

import hashlib
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from edgeseg.base.plain import LONGEST_JSON, Malformed

HASH_STATE = "every number is as it was written"  # of a file whose hash is right
KEY = "seal"  # of the seal among the named values of a text or header
BLANK = f"edgeseg-sha256:{'0' * 64}"  # what stands in its place while the hash is taken
_SEAL = re.compile(rb"edgeseg-sha256:([0-9a-f]{64})")
_DIGITS = 64
_PIECE = 1 << 20


def seal_json(values: Mapping[str, Any], *, indent: int | None = None) -> str:
    """Write JSON with a seal; the same values give the same text."""
    text = json.dumps({**values, KEY: BLANK}, sort_keys=True, indent=indent, allow_nan=False)
    data = text.encode()
    at = _place(data)
    digits = _digest(io.BytesIO(data), at or 0)
    return text.replace(BLANK, BLANK[:-_DIGITS] + digits)


def check_text(text: str | bytes) -> bool:
    """Return whether a text has a seal; a seal that does not fit is Malformed."""
    data = (text.encode(errors="replace") if isinstance(text, str) else text).strip()
    return _check(io.BytesIO(data), data)


def seal_file(path: Path) -> None:
    """Write the hash into a file that has a blank seal in its header."""
    with path.open("r+b") as file:
        at = _place(_head(file))
        if at is None:
            raise Malformed("no place for its hash")
        digits = _digest(file, at)
        file.seek(at)
        file.write(digits.encode())


def check_file(path: Path) -> bool:
    """Return whether a file has a seal in its header; a seal that does not fit is Malformed."""
    with path.open("rb") as file:
        return _check(file, _head(file))


def _head(file: BinaryIO) -> bytes:
    """Read the JSON header of a safetensors file, behind the eight bytes of its length."""
    start = file.read(8)
    return start + file.read(min(int.from_bytes(start, "little"), LONGEST_JSON))


def _check(file: BinaryIO, head: bytes) -> bool:
    at = _place(head)
    if at is None:
        return False
    expected, found = head[at : at + _DIGITS].decode(), _digest(file, at)
    if found != expected:
        raise Malformed(
            f"SHA-256 {found[:12]}..., expected {expected[:12]}... as it says itself: damaged, or "
            "edited by hand"
        )
    return True


def _place(head: bytes) -> int | None:
    """Return the position of the digits."""
    places = [match.start(1) for match in _SEAL.finditer(head)]
    if len(places) > 1:
        raise Malformed(f"{len(places)} hashes of itself, expected one")
    return places[0] if places else None


def _digest(file: BinaryIO, at: int) -> str:
    """Hash a file as if its digits were zeros, in pieces."""
    digest = hashlib.sha256()
    file.seek(0)
    digest.update(file.read(at))
    digest.update(b"0" * len(file.read(_DIGITS)))
    while piece := file.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()
