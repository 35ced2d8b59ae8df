"""Compute the age of a trigger, from its arrival and not from when a busy thread handles it.

A part does not wait: the frame that is taken for an old trigger shows whatever is there by then.
"""

import time
from collections.abc import Callable

from edgeseg.runtime.events.codes import ErrorCode, Refusal

AHEAD_NS = 1_000_000_000  # clocks of two computers on a line differ by less
_MAX_SENT_S = 1e11  # Unix seconds; in milliseconds it would be more


def age_refusal(at_ns: int, *, now_ns: int, limit_ns: int) -> Refusal | None:
    """Return why a trigger of that moment is too old to be taken now, or None."""
    age_ns = now_ns - at_ns
    if age_ns > limit_ns:
        told = f"it came {age_ns / 1e9:.1f} s before it was taken, limit {limit_ns / 1e9:g} s"
        return ErrorCode.TIMEOUT, told
    if age_ns < -AHEAD_NS:
        told = f"it was sent {-age_ns / 1e9:.1f} s ahead of this computer's clock; set the clocks"
        return ErrorCode.TIMEOUT, told
    return None


def moment_ns(
    came_ns: int,
    sent_s: float | None,
    *,
    clock_ns: Callable[[], int] = time.monotonic_ns,
    wall: Callable[[], float] = time.time,
) -> int:
    """Return when a trigger was sent, in the monotonic clock, or when it arrived.

    A sender's clock that is a little ahead does not make its trigger younger than its arrival.
    """
    if sent_s is None:
        return came_ns
    sent_ns = clock_ns() - round((wall() - sent_s) * 1e9)
    return sent_ns if sent_ns > came_ns + AHEAD_NS else min(came_ns, sent_ns)


def read_sent(value: object) -> float | None:
    """Read the key `sent` of a message, in Unix seconds; None if it is missing."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("sent")
    if not 0 <= value < _MAX_SENT_S:
        raise ValueError("sent")
    return float(value)
