"""What event log and counters are told; light, because the help reads it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgeseg.errors import UsageError
from edgeseg.runtime.sinks.event_file import Rotation
from edgeseg.runtime.sinks.shift_times import ShiftTimes


@dataclass(frozen=True, kw_only=True)
class EventOptions:
    """What `events` is told."""

    events: str | None = None
    events_for: Literal["all", "alarms"] = "all"
    events_sync: Literal["never", "alarm", "every"] = "alarm"
    events_max_mb: float | None = None
    events_days: float | None = None
    events_keep: int | None = None
    events_chain: bool = False

    def __post_init__(self) -> None:
        rotation = self.rotation
        if self.events in (None, "-"):
            for name, asked in (
                ("events_max_mb", rotation.max_mb),
                ("events_days", rotation.days),
                ("events_chain", self.events_chain),
            ):
                if asked:
                    raise UsageError(f"{name}={asked}: is for a file; add events=FILE")

    @property
    def rotation(self) -> Rotation:
        """When the log goes on in a new file."""
        return Rotation(max_mb=self.events_max_mb, days=self.events_days, keep=self.events_keep)


@dataclass(frozen=True, kw_only=True)
class CounterOptions:
    """What `counters` is told."""

    counters: Path | None = None
    shifts: str | None = None

    def __post_init__(self) -> None:
        if self.shifts is not None and self.counters is None:
            raise UsageError(f"shifts={self.shifts}: are for counters; add counters=FILE")
        _ = self.shift_times

    @property
    def shift_times(self) -> ShiftTimes:
        """When shifts begin."""
        return ShiftTimes() if self.shifts is None else ShiftTimes.parse(self.shifts)
