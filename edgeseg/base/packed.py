"""Arrays in a text: what a model's metadata keep of numbers that nobody reads one by one.

array --PackedArray.of--> shape, and its numbers of 16 bits, compressed, as base64
"""

import base64
import zlib
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

_HALF = np.dtype("<f2")
_SIGNS = b"-_"  # a text without a slash, which looks like a path
_MOST = 1 << 24  # numbers: a damaged text must not ask for more memory


@dataclass(frozen=True, kw_only=True)
class PackedArray:
    """An array of real numbers, of which 11 bits are kept."""

    shape: tuple[int, ...]
    data: str

    def __post_init__(self) -> None:
        count = prod(self.shape)
        if not 0 <= count <= _MOST or min(self.shape, default=0) < 0:
            raise ValueError(f"shape: {list(self.shape)[:8]}, expected that of a small array")
        try:
            unpacker = zlib.decompressobj()
            raw = unpacker.decompress(
                base64.b64decode(self.data, altchars=_SIGNS, validate=True), 2 * count + 1
            )
        except (ValueError, zlib.error) as error:
            raise ValueError(f"data: {error}") from None
        if len(raw) != 2 * count:
            raise ValueError(f"data: {len(raw)} bytes, expected {2 * count}")
        if not np.isfinite(np.frombuffer(raw, _HALF)).all():
            raise ValueError("data: expected finite numbers")

    @classmethod
    def of(cls, values: NDArray[np.floating]) -> "PackedArray":
        """Pack an array; the same array gives the same text."""
        raw = np.ascontiguousarray(values, _HALF).tobytes()
        data = base64.b64encode(zlib.compress(raw, 9), _SIGNS).decode("ascii")
        return cls(shape=tuple(values.shape), data=data)

    @cached_property
    def values(self) -> NDArray[np.float32]:
        """The numbers."""
        raw = zlib.decompress(base64.b64decode(self.data, altchars=_SIGNS))
        return np.frombuffer(raw, _HALF).astype(np.float32).reshape(self.shape)
