"""Thresholds that nobody has fitted."""

from typing import Any

from edgeseg.decision.score_origin import ScoreOrigin
from edgeseg.decision.thresholds import Thresholds


def made_up_thresholds(score: float, **changes: Any) -> Thresholds:
    """Make thresholds of a hundred good images; `changes` go by the names of the fields."""
    values: dict[str, Any] = {
        "score": score,
        "pixel": score,
        "false_alarm_rate": 0.01,
        "requested_rate": 0.01,
        "origin": ScoreOrigin(kind="split"),
        "images": 100,
        "parts": 100,
    }
    return Thresholds(**values | changes)
