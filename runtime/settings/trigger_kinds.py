"""Every kind of trigger: its options, and its intake in front of the buffer.

    reader --frame--> the trigger's intake, which asks the station --frame and trigger--> buffer

A new trigger is its intake and an entry in TRIGGERS; `--trigger` then has its name. The help reads
this module, so an intake is imported only when it is made.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.options import FILE
from edgeseg.base.typed_options import typed

if TYPE_CHECKING:
    from edgeseg.runtime.capture.frame_buffer import FrameBuffer
    from edgeseg.runtime.capture.intake import Intake
    from edgeseg.runtime.station.station import Station

Record = TypeVar("Record")
FREE = "free"
MAX_PART_FRAMES = 5  # must fit the queue of frames, with room for the next part


@dataclass(frozen=True, kw_only=True)
class NoTriggerOptions:
    """The options of a trigger that has none."""


@dataclass(frozen=True, kw_only=True)
class TriggerSetup:
    """The options that an intake is made from."""

    options: Any  # the record of its kind
    roi: str | None  # the part of the frame that is looked at
    fired: bool = False  # the camera takes a frame when software asks


@dataclass(frozen=True, kw_only=True)
class TriggerKind(Generic[Record]):
    """An entry of TRIGGERS."""

    meaning: str  # for the help
    record: type[Record]  # of typed fields with defaults, which checks itself
    intake: "Callable[[FrameBuffer, Station, TriggerSetup], Intake]"
    adapter: str | None = None  # a key of ADAPTERS that has to be there
    group: str = "the line"  # of the help


def _free(buffer: "FrameBuffer", station: "Station", setup: TriggerSetup) -> "Intake":
    return buffer


@dataclass(frozen=True, kw_only=True)
class HardwareOptions:
    """Options of `hardware`."""

    part_id_age: float = typed(10.0, "Seconds that an announced part id waits for its trigger.")

    def __post_init__(self) -> None:
        if not self.part_id_age > 0:
            raise UsageError(
                Setting("part_id_age", self.part_id_age), ": expected more than 0 seconds"
            )


def _hardware(buffer: "FrameBuffer", station: "Station", setup: TriggerSetup) -> "Intake":
    from edgeseg.runtime.triggers.intakes import HardwareIntake

    return HardwareIntake(buffer, station)


def _software(buffer: "FrameBuffer", station: "Station", setup: TriggerSetup) -> "Intake":
    from edgeseg.runtime.triggers.intakes import SoftwareIntake

    return SoftwareIntake(buffer, station, fired=setup.fired)


@dataclass(frozen=True, kw_only=True)
class PartOptions:
    """Options of `part`."""

    part_area: float = typed(
        0.03, "Least share of the view that counts as a part, for --trigger part."
    )
    part_frames: str = typed(
        "1/1",
        "Inspect the N best frames of a part; K that are not good make it not good.",
        metavar="K/N",
    )
    part_empty: Path | None = typed(
        None, "Picture of the view without a part.  [default: the view at the start]", kind=FILE
    )

    def __post_init__(self) -> None:
        if not 0 < self.part_area < 1:
            raise UsageError(
                Setting("part_area", self.part_area), ": expected a share between 0 and 1"
            )
        self.votes()

    def votes(self) -> tuple[int, int]:
        """Return k and n of `part_frames`."""
        k, _, n = self.part_frames.partition("/")
        if not (k.isdecimal() and n.isdecimal() and 1 <= int(k) <= int(n) <= MAX_PART_FRAMES):
            raise UsageError(
                Setting("part_frames", repr(self.part_frames)),
                f": expected K/N with K from 1 to N, and N to {MAX_PART_FRAMES}",
            )
        return int(k), int(n)


def _part(buffer: "FrameBuffer", station: "Station", setup: TriggerSetup) -> "Intake":
    from edgeseg.runtime.triggers.part import make_intake

    options: PartOptions = setup.options
    return make_intake(
        buffer,
        station,
        roi=setup.roi,
        area=options.part_area,
        votes=options.votes(),
        empty=options.part_empty,
    )


TRIGGERS: dict[str, TriggerKind[Any]] = {
    FREE: TriggerKind(meaning="every frame", record=NoTriggerOptions, intake=_free),
    "hardware": TriggerKind(
        meaning="every frame of a camera that its line triggers",
        record=HardwareOptions,
        intake=_hardware,
    ),
    "part": TriggerKind(
        meaning="every part that comes into view",
        record=PartOptions,
        intake=_part,
    ),
}


def add_software_trigger(adapter: str) -> None:
    """Add a trigger for an adapter: the first frame after its trigger is inspected."""
    TRIGGERS[adapter] = TriggerKind(
        meaning=f"by {adapter}", record=NoTriggerOptions, intake=_software, adapter=adapter
    )
