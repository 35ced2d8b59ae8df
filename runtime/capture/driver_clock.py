"""Read when a driver filled a frame's buffer, by the clock of this computer.

V4L2 stamps buffers by CLOCK_MONOTONIC, which is `time.monotonic` too. OpenCV passes the stamp on as
the position in milliseconds. Some drivers stamp by another clock, or not at all.
"""

_OLDEST_S = 60.0  # no driver keeps a frame so long: the stamp is of another clock


def driver_stamp_s(now_s: float, stamp_s: float) -> float | None:
    """Return the driver's stamp, shortly after the exposure; None if it is of another clock."""
    return stamp_s if 0 < stamp_s <= now_s < stamp_s + _OLDEST_S else None
