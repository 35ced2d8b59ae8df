"""Moments as files and messages write them."""

import time


def utc_time(wall_s: float | None = None) -> str:
    """Write a moment in UTC by ISO 8601; without one, now."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(wall_s))
