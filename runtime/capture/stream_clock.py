"""How old a frame of a stream is when it arrives, by the stream's own times."""

_CREEP = 0.01  # per second; lets a camera's clock and frame rate be off by up to one per cent


class StreamClock:
    """Compares arrival with the times in the stream.

    The promptest frame is taken as new. One that comes later than its time, seen from that one, is
    as much older: after a pause of the network, frames arrive in a burst, and a decoder hands out
    a frame that it has held back. What all frames have in common, such as the camera's own delay,
    cannot be seen from here.
    """

    def __init__(self) -> None:
        self._least_lag_s: float | None = None
        self._last_s = 0.0  # arrival and stream's time of the frame before
        self._last_time_s = 0.0

    def age_s(self, now_s: float, time_s: float) -> float:
        """Seconds that a frame of that time in the stream has waited; 0 when it has no time."""
        if time_s <= 0:
            return 0.0
        lag_s = now_s - time_s
        if self._least_lag_s is None or time_s <= self._last_time_s:  # the stream began anew
            self._least_lag_s = lag_s
        else:
            crept_s = self._least_lag_s + _CREEP * (now_s - self._last_s)
            self._least_lag_s = min(lag_s, crept_s)
        self._last_s, self._last_time_s = now_s, time_s
        return lag_s - self._least_lag_s
