"""Bounds of sensible thresholds: finite, at least 0, and low enough to find anything."""

import math

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting

# A threshold so many times above the highest score of a good image finds nothing, ever.
FARTHEST = 1000.0


def check_threshold(asked: float | None) -> None:
    """Refuse a value that cannot be a threshold of any model; None is no request."""
    if asked is not None and not 0 <= asked < math.inf:
        raise UsageError(Setting("threshold", asked), ": expected a finite number from 0")


def finds_nothing(threshold: float, highest: float) -> str | None:
    """Say why a threshold finds nothing, judged by the highest score of a good image."""
    if not 0 < FARTHEST * highest < threshold:
        return None
    return (
        f"over {FARTHEST:g} times the highest score of a good image ({highest:.4g}), so that "
        "nothing is ever found"
    )
