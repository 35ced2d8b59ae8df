"""A .npy file that is memory-mapped, not read: the masks of one video exceed 100 MB.

numpy's own reader parses the header as Python source and reports damage in the words of its
tokenizer. Here the header is three values, each with a rule of its own.
"""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError
from edgeseg.base.plain import Malformed

_MAGIC = b"\x93NUMPY"
_LONGEST = 10_000  # bytes of a header; numpy's own limit
_DTYPE = re.compile(r"'descr':\s*'([<>|=]?[bBiuf?]\d{0,2})'")
_ORDER = re.compile(r"'fortran_order':\s*(True|False)")
_SHAPE = re.compile(r"'shape':\s*\(((?:\d{1,12},\s*)*(?:\d{1,12})?)\)")


def open_array(path: Path) -> NDArray[Any]:
    """Open an array of numbers or booleans of any shape."""
    try:
        dtype, order, shape, offset = _header(path)
        expected = offset + math.prod(shape) * dtype.itemsize
        if path.stat().st_size < expected:
            raise Malformed(f"{path.stat().st_size} bytes, expected {expected}")
        if not math.prod(shape):
            return np.empty(shape, dtype)
        return np.memmap(path, dtype, mode="r", offset=offset, shape=shape, order=order)
    except (OSError, ValueError, OverflowError, TypeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DatasetError(f"{path}: not a readable .npy array ({reason})") from None


def _header(path: Path) -> tuple[np.dtype[Any], Any, tuple[int, ...], int]:
    with path.open("rb") as file:
        start = file.read(10)
        if not start.startswith(_MAGIC) or len(start) < 10:
            raise Malformed("no NumPy magic at its beginning")
        size = int.from_bytes(start[8:10], "little")
        begin = 10
        if start[6] > 1:
            size, begin = size | int.from_bytes(file.read(2), "little") << 16, 12
        if size > _LONGEST:
            raise Malformed(f"a header of {size} bytes")
        text = file.read(size).decode("latin1")
    found = [pattern.search(text) for pattern in (_DTYPE, _ORDER, _SHAPE)]
    if len(text) < size or not all(found):
        raise Malformed("its header names no numbers of a shape")
    kind, order, sides = (match[1] for match in found if match)
    shape = tuple(int(side) for side in sides.split(",") if side.strip())
    return np.dtype(kind), "F" if order == "True" else "C", shape, begin + size
