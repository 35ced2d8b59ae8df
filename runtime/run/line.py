"""Build the station of a run: its trigger, its sink behind the scorer, its adapters.

adapters --trigger--> Station --which frame--> intake --> buffer --> scorer --> StationSink
adapters <--results in order-- Station <--verdicts, lost cameras, time-outs-- the same
"""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeseg.base.errors import EdgesegError, RuntimeFailure, UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.progress import Note
from edgeseg.runtime.capture.aravis.settings import AravisOptions
from edgeseg.runtime.capture.frame_buffer import FrameBuffer
from edgeseg.runtime.capture.intake import Intake
from edgeseg.runtime.events.codes import ErrorCode
from edgeseg.runtime.events.publisher import Publisher
from edgeseg.runtime.events.records import SCHEMA, LoggedEvent, LoopTick, UnscoredFrame
from edgeseg.runtime.scoring.meters import Faults
from edgeseg.runtime.scoring.pipeline import Pipeline
from edgeseg.runtime.settings.adapter_kinds import ADAPTERS, Adapter, LineRun
from edgeseg.runtime.settings.options import StreamOptions
from edgeseg.runtime.settings.trigger_kinds import FREE, TRIGGERS, HardwareOptions, TriggerSetup
from edgeseg.runtime.station.records import Job, StationResult, TriggerEvent
from edgeseg.runtime.station.station import Station
from edgeseg.runtime.triggers.station_sink import StationSink, end_station
from edgeseg.runtime.triggers.watch import StationWatch

if TYPE_CHECKING:
    from edgeseg.runtime.capture.reader import Reader
    from edgeseg.runtime.capture.sources import SourceSpec

_READ_AHEAD = 3  # frames of a file that are triggered while the queue is full


def source_texts(options: StreamOptions) -> list[str]:
    """List the sources as given, with a GigE or USB3 camera set to the line's trigger.

    Otherwise a camera could wait for software that never fires, and inspect nothing silently.
    """
    return [_with_trigger(text.strip(), options.trigger) for text in options.source]


def _with_trigger(text: str, trigger: str) -> str:
    if text.partition(":")[0] != "aravis":
        return text
    camera = AravisOptions.parse(text)
    if trigger == "hardware" and "trigger=" not in text:
        return f"{text}{'' if text.endswith(':') else ','}trigger=hardware"
    if trigger == "hardware" and camera.trigger != "hardware":
        raise UsageError(
            Setting("trigger", "hardware"),
            f": {text} has a trigger of its own; leave one of them out",
        )
    if camera.trigger == "software" and trigger in (FREE, "part"):
        raise UsageError(
            Setting("trigger", trigger),
            f": {text} waits for software to trigger it, and nobody does; expected one of "
            f"{', '.join(name for name in TRIGGERS if TRIGGERS[name].adapter)}",
        )
    return text


class Line:
    """The station and its adapters, online inside a `with` block."""

    def __init__(
        self,
        options: StreamOptions,
        specs: "list[SourceSpec]",
        *,
        faults: Faults,
        note: Note,
    ) -> None:
        self._options, self._faults, self._note = options, faults, note
        self.triggered = options.trigger != FREE
        self._fired = specs[0].trigger == "software"
        _check_sources(options.trigger, specs)
        self.events = Publisher(faults.count)
        self.station = Station(
            timeout_s=options.trigger_timeout,
            # A live camera's queue drops its oldest frame when it is full, and with it a trigger.
            depth=options.queue_size + (0 if specs[0].live else _READ_AHEAD),
            part_id_age_s=options.sinks.of(HardwareOptions).part_id_age,
            on_error=faults.count,
            events=self.events,
        )
        self.station.takes_part_ids = options.trigger in ("hardware", "part")
        self.outcomes: Counter[str] = Counter()
        self.adapters: list[Adapter] = []
        self.jobs: dict[str, Job] = {}  # by the names of recipes
        self._sink = StationSink(self.station, sources=len(specs), jobs=self.jobs)
        self.decide = self._sink.decide
        self._watch: StationWatch | None = None

    def intake(self, buffer: FrameBuffer) -> Intake:
        """Return the intake in front of the buffer."""
        kind, options = TRIGGERS[self._options.trigger], self._options
        own = options.sinks.of(kind.record)
        setup = TriggerSetup(options=own, roi=options.roi, fired=self._fired)
        return kind.intake(buffer, self.station, setup)

    def attach(self, pipeline: Pipeline) -> None:
        """Subscribe the station to the pipeline, before any other sink."""
        pipeline.add_sink(self._sink)
        events, name = self.events, self._sink.name
        events.subscribe(UnscoredFrame, self._sink.on_unscored, name=name)
        events.subscribe(LoopTick, lambda tick: self.station.beat(), name=name)
        reader = pipeline.readers[0]
        if self.triggered and self._fired:
            events.subscribe(TriggerEvent, lambda event: self._fire(reader, event), name=name)

    def open_adapters(self) -> None:
        """Make every adapter that the options ask for."""
        self.events.subscribe(StationResult, self._count, name="station")
        line = LineRun(
            station=self.station,
            trigger=self._options.trigger,
            timeout_s=self._options.trigger_timeout,
            on_error=self._faults.count,
            note=self._note,
        )
        try:
            for kind in ADAPTERS.values():
                adapter = kind.make(line, self._options.sinks.of(kind.record))
                if adapter is not None:
                    self.adapters.append(adapter)
        except EdgesegError:
            self._close_adapters()
            raise

    def _count(self, result: StationResult) -> None:
        self.outcomes[result.verdict if result.inspection else result.error.name.lower()] += 1
        if self.triggered:
            self.events.publish(AnsweredTrigger(result))

    def _fire(self, reader: "Reader", event: TriggerEvent) -> None:
        try:
            reader.fire()
        except RuntimeFailure as error:
            self.station.fail(event.trigger_id, ErrorCode.SOURCE_LOST, str(error))

    def __enter__(self) -> "Line":
        self._watch = StationWatch(self.station)
        self.station.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        end_station(self.station, error)
        if self._watch is not None:
            self._watch.close()
        self._close_adapters()

    def _close_adapters(self) -> None:
        while self.adapters:
            adapter = self.adapters.pop()
            try:
                adapter.close()
            except Exception as error:
                self._faults.count(adapter.name, f"did not close ({type(error).__name__})")

    def facts(self) -> dict[str, object]:
        """Return counts of triggers and their results, for the report."""
        status = self.station.status()
        return {
            "trigger": self._options.trigger,
            "triggers": status.triggers,
            "results": status.results,
            "missed": status.missed,
            "late": status.late,
            "outcomes": dict(self.outcomes),
        }


def _check_sources(trigger: str, specs: "list[SourceSpec]") -> None:
    if trigger != FREE and len(specs) != 1:
        raise UsageError(
            Setting("trigger", trigger),
            f": {len(specs)} sources, expected one; start a stream for each camera",
        )
    by_adapter = [name for name, kind in TRIGGERS.items() if kind.adapter is not None]
    for spec in specs:
        if spec.trigger == "software" and trigger not in by_adapter:
            raise UsageError(
                Setting("trigger", trigger),
                f": {spec.name} takes a frame when it is fired, and nobody would; expected "
                f"one of {', '.join(by_adapter)}",
            )


@dataclass(frozen=True)
class AnsweredTrigger(LoggedEvent):
    """A result for the event log and the page, since not every trigger has a frame."""

    result: StationResult

    def facts(self) -> dict[str, object]:
        """Return its line of the event log."""
        return {"schema": SCHEMA, "event": "result", **self.result.facts()}
