"""Options of the event log and the counters; the help reads them, so it loads little."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.options import FILE
from edgeseg.base.typed_options import typed
from edgeseg.runtime.sinks.event_file import Rotation
from edgeseg.runtime.sinks.shift_times import ShiftTimes


@dataclass(frozen=True, kw_only=True)
class EventOptions:
    """Options of `events`."""

    events: str | None = typed(None, "JSON lines; - for standard output.", metavar="FILE")
    events_for: Literal["all", "alarms"] = typed("all", "Frames to write.")
    events_sync: Literal["never", "alarm", "every"] = typed(
        "alarm", "Events that a power cut may not take."
    )
    events_max_mb: float | None = typed(None, "Go on in a new file from here.", metavar="MB")
    events_days: float | None = typed(None, "And after so many days.")
    events_keep: int | None = typed(None, "Old files to keep; default: all.")
    events_chain: bool = typed(False, "Hash every line into the next: `verify-log`.")

    def __post_init__(self) -> None:
        rotation = self.rotation
        if self.events in (None, "-"):
            for name, asked in (
                ("events_max_mb", rotation.max_mb),
                ("events_days", rotation.days),
                ("events_chain", self.events_chain),
            ):
                if asked:
                    raise UsageError(
                        Setting(name, asked), ": is for a file; add ", Setting("events", "FILE")
                    )

    @property
    def rotation(self) -> Rotation:
        """The limits after which the log continues in a new file."""
        return Rotation(max_mb=self.events_max_mb, days=self.events_days, keep=self.events_keep)


@dataclass(frozen=True, kw_only=True)
class CounterOptions:
    """Options of `counters`."""

    counters: Path | None = typed(None, "Parts of shift and recipe, kept here.", kind=FILE)
    shifts: str | None = typed(None, "When shifts begin, local time.", metavar="HH:MM,...")

    def __post_init__(self) -> None:
        if self.shifts is not None and self.counters is None:
            raise UsageError(
                Setting("shifts", self.shifts),
                ": are for counters; add ",
                Setting("counters", "FILE"),
            )
        _ = self.shift_times

    @property
    def shift_times(self) -> ShiftTimes:
        """The times at which shifts begin."""
        return ShiftTimes() if self.shifts is None else ShiftTimes.parse(self.shifts)
