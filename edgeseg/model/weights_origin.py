"""Where weights came from, and how they are told from others."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class WeightsOrigin:
    """Where the weights in a model came from."""

    source: str
    sha256: str
    random: bool
    licence: str


def arrays_sha256(arrays: Arrays) -> str:
    """A hash of the values themselves, whatever file they came from."""
    digest = hashlib.sha256()
    for name, values in sorted(arrays.items()):
        digest.update(f"{name} {values.shape} ".encode())
        digest.update(np.ascontiguousarray(values, np.float32).tobytes())
    return digest.hexdigest()
