"""Moments as files and messages write them."""

import time


def utc_time(wall_s: float | None = None) -> str:
    """Write a moment in UTC by ISO 8601; without one, now."""
    # Asked by itself, gmtime() takes a coarser clock: it may say a second that is over, and what
    # was written before would be newer than now.
    return time.strftime(
        "%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() if wall_s is None else wall_s)
    )
