"""Compute the age of a frame on arrival from the times of the stream or the camera."""

import math

from edgeseg.base.errors import RuntimeFailure
from edgeseg.runtime.capture.liveness import Arrival, has_waited

_CREEP = 200e-6  # per second: how far the crystals of camera and computer are apart, at most
_MOST_CREEP_S = 0.25  # in total, while no read shows that nothing waits on this computer
_SETTLE = 8  # frames in a row that are no prompter than those before: nothing is drained any more
_DRAINED = 0.02  # of the time between two frames: so much prompter, it came out of a buffer
_JUMP_S = 0.05  # prompter than any before by so much: the stream's time was set
_RESTART_S = 10.0  # its time went back by so much: the stream began anew
LATE_S = 1.0  # longer than this, for as long as the stall time-out, is a reader that cannot follow


class StreamClock:
    """A comparison of arrival with the times in the stream.

    The promptest frame is taken as new. Another frame is as old as its delay against that one:
    after a pause of the network, frames arrive in a burst, and a decoder delivers a frame that it
    has held back. A delay that all frames share, such as the camera's own, is not visible here. Two
    clocks drift apart, so the reference may creep: at the rate of real clocks, and by a bounded
    amount unless reads wait for their frames.
    """

    def __init__(
        self, opened_s: float, *, settle: int = _SETTLE, patience_s: float = math.inf
    ) -> None:
        self._since_s = opened_s  # no frame from now on was exposed before
        self._settle, self._unsettled = settle, settle
        self._patience_s = patience_s
        self._least_lag_s: float | None = None
        self._floor_s = 0.0  # the least lag that was seen, and what waiting reads let it creep
        self._last_s = self._last_time_s = 0.0  # arrival and stream's time of the frame before
        self._late_since_s: float | None = None

    def earliest_exposure_s(self, arrival: Arrival, time_s: float) -> float | None:
        """Return a time before which the frame was not exposed; None if the stream has no times.

        Raise RuntimeFailure when frames stay late: a new connection has no old frames.
        """
        if time_s <= 0:
            return None
        now_s, lag_s = arrival.now_s, arrival.now_s - time_s
        if self._least_lag_s is None or self._began_anew(lag_s, time_s):
            self._least_lag_s = self._floor_s = lag_s
            self._unsettled = self._settle
        else:
            self._follow(arrival, lag_s, time_s)
        self._last_s, self._last_time_s = now_s, max(time_s, self._last_time_s)
        if self._unsettled:
            return self._since_s
        age_s = lag_s - self._least_lag_s
        self._check_late(now_s, age_s)
        self._since_s = max(self._since_s, now_s - age_s)
        return now_s - age_s

    def _began_anew(self, lag_s: float, time_s: float) -> bool:
        assert self._least_lag_s is not None
        gone_back = time_s < self._last_time_s and lag_s > self._least_lag_s + _RESTART_S
        set_forward = not self._unsettled and lag_s < self._least_lag_s - _JUMP_S
        if gone_back:
            self._last_time_s = time_s
        return gone_back or (set_forward and self._settle > 0)

    def _follow(self, arrival: Arrival, lag_s: float, time_s: float) -> None:
        """Take this frame as the reference if it is promptest, else let the reference creep."""
        assert self._least_lag_s is not None
        elapsed_s = arrival.now_s - self._last_s
        step_s = max(0.0, time_s - self._last_time_s)
        if self._unsettled:
            drained = lag_s < self._least_lag_s - _DRAINED * step_s
            self._unsettled = self._settle if drained else self._unsettled - 1
        crept_s = min(self._least_lag_s + _CREEP * elapsed_s, self._floor_s + _MOST_CREEP_S)
        self._least_lag_s = min(lag_s, crept_s)
        if has_waited(arrival.waited_s, elapsed_s):
            self._floor_s += _CREEP * elapsed_s
        self._floor_s = min(self._floor_s, self._least_lag_s)

    def _check_late(self, now_s: float, age_s: float) -> None:
        if age_s <= LATE_S:
            self._late_since_s = None
            return
        if self._late_since_s is None:
            self._late_since_s = now_s
        if now_s - self._late_since_s > self._patience_s:
            raise RuntimeFailure(
                f"its frames have come more than {LATE_S:g} s late for "
                f"{now_s - self._late_since_s:.1f} s, now {age_s:.1f} s: this computer, or the "
                "network, is too slow for the stream"
            )
