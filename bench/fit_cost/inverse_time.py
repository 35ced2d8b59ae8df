"""Seconds to turn the covariances of a 64 x 64 grid into factors, over the size k."""

import time
from collections.abc import Callable

import numpy as np

from edgeseg.bench.harness.units import Result, Unit
from edgeseg.model.factors import make_factors
from edgeseg.model.moments import Moments

LOCATIONS = 64 * 64
METHODS = ("cholesky", "eigenvectors", "svd")
_MOST_BYTES = 600_000_000  # of covariances at a time


def inverse_unit(k: int, method: str, *, threads: int, machine: str) -> Unit:
    """Make the unit that times one size by one method."""
    # A batched SVD is what the paper timed; some hundred matrices tell its time per matrix.
    most = 128 if method == "svd" else LOCATIONS
    locations = min(most, _MOST_BYTES // (8 * k * k))
    return Unit(
        name=f"inverse k{k} {method}",
        settings={"k": k, "method": method, "locations": locations}
        | {"threads": threads, "machine": machine},
        run=lambda: measure_inverse(k, method, locations=locations),
        weight=1 + 40 * (k / 448) ** 3,
    )


def measure_inverse(k: int, method: str, *, locations: int) -> Result:
    """Time the inverse of `locations` matrices; scale it to the whole grid (work is linear)."""
    few = np.random.default_rng(0).normal(size=(8, 2 * k, k))
    covariance = np.tile(few.swapaxes(1, 2) @ few / (2 * k), (-(-locations // 8), 1, 1))[:locations]
    moments = Moments(count=np.ones(locations), mean=np.zeros((locations, k)), scatter=covariance)
    run: dict[str, Callable[[], object]] = {
        "cholesky": lambda: make_factors(moments, ridge=0.01, rank=0, directions="lower"),
        "eigenvectors": lambda: make_factors(moments, ridge=0.01, rank=0.64, directions="lower"),
        "svd": lambda: np.linalg.svd(covariance),
    }
    started = time.perf_counter()
    run[method]()
    seconds = time.perf_counter() - started
    return {
        "k": k,
        "locations": locations,
        "seconds": seconds,
        "grid_seconds": seconds * LOCATIONS / locations,
        "factor_mb": LOCATIONS * k * k * 4 / 1e6,
    }
