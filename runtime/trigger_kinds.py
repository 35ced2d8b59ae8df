"""Every kind of trigger: what it is told, how that is typed, and what it puts before the buffer.

    reader --frame--> the trigger's intake, which asks the station --frame and trigger--> buffer

A new trigger is its intake and an entry in TRIGGERS; `--trigger` then has its name.
Light on purpose: the help reads this, so an intake is imported when it is made.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

if TYPE_CHECKING:
    from edgeseg.runtime.capture.frame_buffer import FrameBuffer
    from edgeseg.runtime.capture.intake import Intake
    from edgeseg.runtime.station.station import Station

Record = TypeVar("Record")
FREE = "free"


@dataclass(frozen=True, kw_only=True)
class NoTriggerOptions:
    """Most triggers need to be told nothing."""


@dataclass(frozen=True, kw_only=True)
class TriggerKind(Generic[Record]):
    """An entry of TRIGGERS."""

    meaning: str  # for the help
    record: type[Record]  # a frozen dataclass with defaults, which checks itself
    options: tuple[click.Option, ...] = ()  # one for each field, by the same name
    intake: "Callable[[FrameBuffer, Station, Record], Intake]"
    adapter: str | None = None  # a key of ADAPTERS that has to be there


def _free(buffer: "FrameBuffer", station: "Station", options: NoTriggerOptions) -> "Intake":
    return buffer


def _hardware(buffer: "FrameBuffer", station: "Station", options: NoTriggerOptions) -> "Intake":
    from edgeseg.runtime.triggers.intakes import HardwareIntake

    return HardwareIntake(buffer, station)


def _software(buffer: "FrameBuffer", station: "Station", options: NoTriggerOptions) -> "Intake":
    from edgeseg.runtime.triggers.intakes import SoftwareIntake

    return SoftwareIntake(buffer, station)


TRIGGERS: dict[str, TriggerKind[Any]] = {
    FREE: TriggerKind(meaning="every frame", record=NoTriggerOptions, intake=_free),
    "hardware": TriggerKind(
        meaning="every frame of a camera that its line triggers",
        record=NoTriggerOptions,
        intake=_hardware,
    ),
}


def add_software_trigger(adapter: str) -> None:
    """An adapter that can trigger: the first frame after its trigger is inspected."""
    TRIGGERS[adapter] = TriggerKind(
        meaning=f"by {adapter}", record=NoTriggerOptions, intake=_software, adapter=adapter
    )
