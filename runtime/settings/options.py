"""Options of `edgeseg stream`; each sink has its own options in SINKS."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.options import FILE, FOLDER, RegistryName
from edgeseg.base.typed_options import REQUIRED, Option, options_of, typed
from edgeseg.decision.threshold_bounds import check_threshold
from edgeseg.runtime.settings.adapter_kinds import ADAPTERS, AdapterKind
from edgeseg.runtime.settings.opening_options import OpeningOptions
from edgeseg.runtime.settings.sink_kinds import SINKS, SinkKind, SinkOptions
from edgeseg.runtime.settings.trigger_kinds import FREE, TRIGGERS, TriggerKind
from edgeseg.vision.picture_size import MAX_PIXELS

if TYPE_CHECKING:
    from edgeseg.runtime.capture.frame_buffer import Policy


SOURCE, DECIDING, LINE = "the source", "deciding", "the line"
WRITTEN, PAGE, RUN = "what is written", "the page", "the run"
GROUPS = (SOURCE, DECIDING, LINE, WRITTEN, PAGE, RUN)  # of the help, in this order

OptionValues = dict[str, Any]  # by the names of options


@dataclass(frozen=True, kw_only=True)
class StreamOptions(OpeningOptions):
    """One field per option of the command and key of a station file, checked before all else."""

    model: Path | None = typed(
        None, "Model to run: a .onnx or .plan file.", kind=FILE, group=DECIDING
    )
    recipes: Path | None = typed(
        None,
        "Folder of recipes (`edgeseg recipe`), instead of --model.",
        kind=FOLDER,
        group=DECIDING,
    )
    recipe: str | None = typed(
        None, "Recipe to begin with, by name or number.", metavar="NAME", group=DECIDING
    )
    warm_mb: float = typed(500.0, "Memory for recipes that stay loaded, in MB.", group=DECIDING)
    source: tuple[str, ...] = typed(
        REQUIRED,
        "Camera index, /dev/video0, rtsp:// or http:// URL, video, folder or glob of "
        "images, GStreamer pipeline, aravis:SERIAL,exposure_us=5000,trigger=software (GigE and "
        "USB3 Vision; see `edgeseg cameras`), synthetic:fps=30,defects=0.1,frames=0,seed=0, or - "
        "for frames from another program's pipe (raw ones: stdin:640x480). May be given several "
        "times.",
        envvar="EDGESEG_SOURCE",
        group=SOURCE,
    )
    threshold: float | None = typed(
        None, "Threshold of the score, instead of the model's own.", group=DECIDING
    )
    policy: "Policy | None" = typed(
        None,
        "Which frames are scored when they come too fast. latest: the newest, others are dropped. "
        "queue: up to --queue-size wait. every: all, none is dropped.  [default: latest for live "
        "sources, every for files]",
        kind=click.Choice(["latest", "queue", "every"]),
        group=SOURCE,
    )
    queue_size: int = typed(8, "Frames that may wait, for --policy queue.", group=SOURCE)
    realtime: bool = typed(False, "Play video files at their own rate.", group=SOURCE)
    stall_timeout: float = typed(
        5.0, "Seconds without a frame after which a live source counts as lost.", group=SOURCE
    )
    camera_delay: float = typed(
        0.0,
        "Seconds from exposure to arrival that no clock shows: a trigger does not take "
        "a frame that came within them.",
        group=SOURCE,
    )
    allow_repeats: bool = typed(
        False,
        "Accept a picture that equals the one before, byte for byte, as a new one: for simulators "
        "and encoders. Without it the camera counts as frozen.",
        group=SOURCE,
    )
    max_pixels: int = typed(
        MAX_PIXELS,
        "Most pixels of a picture, as its header says; a larger one is not decoded.",
        kind=click.IntRange(1),
        group=SOURCE,
    )
    roi: str | None = typed(
        None, "Look only at this rectangle of the frame.", metavar="X,Y,W,H", group=DECIDING
    )
    tile: bool = typed(
        False,
        "Score large frames in overlapping tiles; a model fitted on tiles does it itself.",
        group=DECIDING,
    )
    tile_overlap: float = typed(
        0.25, "Share of a tile that the next one shows too, for --tile.", group=DECIDING
    )
    min_area: float = typed(
        0.0,
        "Least area of a region that decides, in pixels of the camera. What that hides is printed.",
        group=DECIDING,
    )
    debounce: str = typed(
        "1/1", "Alarm when K of the last N frames are not good.", metavar="K/N", group=DECIDING
    )
    trigger: str = typed(
        FREE,
        "What makes a frame a part: free, every frame; hardware, every frame of a camera "
        "that its line triggers; part, what comes into view; or an adapter below, and the "
        "first frame after its trigger.",
        kind=RegistryName(TRIGGERS),
        group=LINE,
    )
    trigger_timeout: float = typed(
        2.0,
        "Seconds from a trigger to its result; then the result is: no inspection.",
        group=LINE,
    )
    report: Path | None = typed(
        None,
        "Report on latency and accuracy at the end: a .json file, and a text beside it.",
        kind=FILE,
        group=WRITTEN,
    )
    status_every: float = typed(5.0, "Seconds between status lines; 0: none.")
    duration: float | None = typed(None, "End after so many seconds.")
    max_frames: int | None = typed(None, "End after so many scored frames.")
    sinks: SinkOptions = field(default_factory=SinkOptions)

    def __post_init__(self) -> None:
        if not self.source:
            raise UsageError(
                "no source given; try ",
                Setting("source", "0"),
                " or ",
                Setting("source", "synthetic:"),
            )
        for name in (
            "queue_size",
            "stall_timeout",
            "trigger_timeout",
            "warm_mb",
            "duration",
            "max_frames",
            "max_pixels",
        ):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(Setting(name, value), ": expected more than 0")
        check_threshold(self.threshold)
        if not 0 <= self.camera_delay < math.inf:
            raise UsageError(
                Setting("camera_delay", self.camera_delay), ": expected 0 or more seconds"
            )
        if not 0 <= self.min_area < math.inf:
            raise UsageError(
                Setting("min_area", self.min_area), ": expected 0 or more pixels of the camera"
            )
        if not 0 <= self.tile_overlap < 1:
            raise UsageError(
                Setting("tile_overlap", self.tile_overlap), ": expected 0 or more, below 1"
            )
        self._check_trigger()
        self._check_recipes()
        if self.report is not None and self.report.suffix != ".json":
            raise UsageError(
                Setting("report", self.report),
                ": expected a name ending in .json; the text goes beside it",
            )

    def _check_recipes(self) -> None:
        if self.recipes is None:
            if self.model is None:
                raise UsageError(
                    "no model given; add ",
                    Setting("model", "FILE"),
                    ", or ",
                    Setting("recipes", "FOLDER"),
                )
            if self.recipe is not None:
                raise UsageError(
                    Setting("recipe", self.recipe),
                    ": of which folder? Add ",
                    Setting("recipes", "FOLDER"),
                )
            return
        for name in ("model", "roi", "threshold", "tile", "min_area", "debounce"):
            value = getattr(self, name)
            if value != getattr(StreamOptions, name):
                raise UsageError(
                    Setting(name, value),
                    ": stands in each recipe where ",
                    Setting("recipes"),
                    " is given",
                )

    def _check_trigger(self) -> None:
        kind = TRIGGERS.get(self.trigger)
        if kind is None:
            raise UsageError(
                Setting("trigger", self.trigger), f": expected one of {', '.join(TRIGGERS)}"
            )
        if self.trigger != FREE and self.policy is not None:
            raise UsageError(
                Setting("policy", self.policy),
                ": is for ",
                Setting("trigger", FREE),
                "; a triggered frame waits its turn",
            )
        adapter = ADAPTERS.get(kind.adapter or "")
        if adapter is not None and getattr(self.sinks.of(adapter.record), self.trigger) is None:
            raise UsageError(
                Setting("trigger", self.trigger), ": nobody could trigger; add ", adapter.setting
            )


def option_kinds() -> list[SinkKind[Any] | TriggerKind[Any] | AdapterKind[Any]]:
    """List everything that has its own options, in the order of the help."""
    return [*SINKS.values(), *TRIGGERS.values(), *ADAPTERS.values()]


def stream_options() -> list[Option]:
    """List all options of a stream, on the command line and in a station file."""
    groups = {StreamOptions: RUN} | {kind.record: kind.group for kind in option_kinds()}
    return [option for record, group in groups.items() for option in options_of(record, group)]


def own_values(record: type, values: Mapping[str, Any]) -> OptionValues:
    """Select the values that a record has a field for."""
    return {item.name: values[item.name] for item in fields(record) if item.name in values}


def read_options(values: Mapping[str, Any]) -> StreamOptions:
    """Make one checked record of the values of all options."""
    records = tuple(kind.record(**own_values(kind.record, values)) for kind in option_kinds())
    return StreamOptions(**own_values(StreamOptions, values), sinks=SinkOptions(records))
