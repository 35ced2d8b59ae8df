"""Compute when shifts begin, by the local clock."""

import time
from dataclasses import dataclass

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting


@dataclass(frozen=True)
class ShiftTimes:
    """The times at which shifts begin, in minutes of the local day; may be empty."""

    minutes: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "ShiftTimes":
        """Read `06:00,14:00,22:00`."""
        minutes = []
        for part in text.split(","):
            hour, colon, minute = part.strip().partition(":")
            digits = hour.isdecimal() and minute.isdecimal() and len(minute) == 2
            if not (colon and digits and int(hour) < 24 and int(minute) < 60):
                raise UsageError(
                    Setting("shifts", repr(text)), ": expected times such as 06:00,14:00,22:00"
                )
            minutes.append(60 * int(hour) + int(minute))
        return cls(tuple(sorted(set(minutes))))

    def last_before(self, now_s: float) -> float | None:
        """Return when the shift of a moment began."""
        return max((t for t in self._around(now_s) if t <= now_s), default=None)

    def next_after(self, now_s: float) -> float:
        """Return when the next shift begins; infinity without times."""
        return min((t for t in self._around(now_s) if t > now_s), default=float("inf"))

    def _around(self, now_s: float) -> list[float]:
        day = time.localtime(now_s)
        return [
            # Of yesterday, today and tomorrow; mktime knows days of 23 and 25 hours.
            time.mktime((day.tm_year, day.tm_mon, day.tm_mday + shift, 0, minute, 0, 0, 0, -1))
            for shift in (-1, 0, 1)
            for minute in self.minutes
        ]
