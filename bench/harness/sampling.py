"""Numbers from timings: percentiles, and ratios with their uncertainty."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError

RESAMPLES = 2000


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Time of one candidate divided by another's, with a 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """Text in tables."""
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def percentiles(samples: NDArray[np.float64]) -> dict[str, float]:
    """Compute p50, p95, p99 and mean of all samples of all rounds."""
    if samples.size == 0:
        raise UsageError("percentiles of no samples: expected at least one; run more rounds")
    p50, p95, p99 = np.percentile(samples, [50, 95, 99])
    return {"p50": float(p50), "p95": float(p95), "p99": float(p99), "mean": float(samples.mean())}


def ratio_of(
    rounds: NDArray[np.float64], reference: NDArray[np.float64], *, seed: int = 0
) -> Ratio:
    """Compute the median over rounds of the ratio of medians, bootstrapped over rounds.

    Both are (R, n): rounds and samples.

    Samples of one round share what the machine did at that moment, so rounds are resampled and
    not samples; each round compares both candidates at the same moment, so slow drift cancels.
    """
    if rounds.ndim != 2 or reference.ndim != 2 or len(rounds) != len(reference):
        raise UsageError(
            f"timings of shapes {rounds.shape} and {reference.shape}: expected (rounds, samples) "
            "with as many rounds in both"
        )
    ratios = np.median(rounds, axis=1) / np.median(reference, axis=1)  # (R,)
    chosen = np.random.default_rng(seed).integers(len(ratios), size=(RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(ratios[chosen], axis=1), [2.5, 97.5])
    return Ratio(value=float(np.median(ratios)), low=float(low), high=float(high))


def mean_std(values: Sequence[float]) -> tuple[float, float | None]:
    """Compute the mean and the standard deviation of the sample (n - 1); one value has none."""
    if not values:
        raise UsageError("the mean of no values: expected at least one")
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return float(np.mean(values)), spread
