"""Checks whether a fit can have written these tensors: finite and, where that matters, not zero.

Files with a hash are compared with it first. These checks are for files without one, and for
tensors that were wrong before they were hashed.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.plain import Malformed

_FROM_ZERO = (
    *("good.scores", "good.peaks", "good.floors", "good.frame_d2", "good.d2_mean", "good.d2_std"),
)


def check_values(tensors: dict[str, NDArray[Any]]) -> None:
    """Raise Malformed with the name of the first tensor that no fit can have written."""
    for name, values in tensors.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise Malformed(f"{name} holds values that are not finite")
        if name in _FROM_ZERO and bool((values < 0).any()):
            raise Malformed(f"{name} holds values below 0")
    if bool((tensors.get("map.weight", np.ones(1)) <= 0).any()):
        raise Malformed("map.weight holds values that are not above 0")
    for name in ("embedding", "factor", "map.factor"):
        values = tensors.get(name, np.ones((1, 1)))
        # Of a Gaussian without a factor every distance is 0: it would call everything good.
        if values.ndim < 2 or bool((values == 0).all(axis=(-2, -1)).any()):
            raise Malformed(f"{name} is zero at a place, so that nothing is ever found there")
    _check_moments(tensors)


def _check_moments(tensors: dict[str, NDArray[Any]]) -> None:
    count, scatter = tensors.get("moments.count"), tensors.get("moments.scatter")
    if count is None or scatter is None:
        return
    if bool((count < 0).any()):
        raise Malformed("moments.count holds values below 0")
    k = tensors["moments.mean"].shape[-1]
    # Upper triangles row by row: the diagonal begins each row.
    first = np.array([row * k - row * (row - 1) // 2 for row in range(k)])
    if scatter.ndim == 2 and scatter.shape[-1] == k * (k + 1) // 2:
        diagonal = scatter[:, first]
        if bool((diagonal < -1e-6 * np.abs(diagonal).max(initial=0)).any()):
            raise Malformed("moments.scatter holds variances below 0")
