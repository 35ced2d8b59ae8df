"""The origin of weights, and the hash that identifies them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class WeightsOrigin:
    """The origin of the weights in a model."""

    source: str
    sha256: str
    random: bool
    licence: str


def arrays_sha256(arrays: Arrays) -> str:
    """Hash the values themselves, whatever file they came from."""
    digest = hashlib.sha256()
    for name, values in sorted(arrays.items()):
        digest.update(f"{name} {values.shape} ".encode())
        digest.update(np.ascontiguousarray(values, np.float32).tobytes())
    return digest.hexdigest()
