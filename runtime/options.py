"""What `edgeseg stream` is told; the defaults of sinks stand with them in SINKS."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeseg.contract.picture_size import MAX_PIXELS
from edgeseg.contract.threshold_bounds import check_threshold
from edgeseg.errors import UsageError
from edgeseg.runtime.adapter_kinds import ADAPTERS, AdapterKind
from edgeseg.runtime.backends.session_options import AUTO, SessionOptions
from edgeseg.runtime.sink_kinds import SINKS, SinkKind, SinkOptions
from edgeseg.runtime.trigger_kinds import FREE, TRIGGERS, TriggerKind

if TYPE_CHECKING:
    from edgeseg.runtime.capture.frame_buffer import Policy


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """One field per command-line option by the same name, checked before anything is loaded."""

    model: Path | None = None
    recipes: Path | None = None
    recipe: str | None = None
    warm_mb: float = 500.0
    source: tuple[str, ...]
    backend: str = AUTO
    threads: int | None = None
    spin: bool = SessionOptions.spin
    trust: tuple[Path, ...] = ()
    allow_random_weights: bool = False
    threshold: float | None = None
    policy: "Policy | None" = None  # None: by the kind of source
    queue_size: int = 8
    realtime: bool = False
    stall_timeout: float = 5.0
    camera_delay: float = 0.0
    allow_repeats: bool = False
    max_pixels: int = MAX_PIXELS  # of a frame by its header, before it is decoded
    roi: str | None = None
    tile: bool = False
    tile_overlap: float = 0.25
    min_area: float = 0.0
    debounce: str = "1/1"
    trigger: str = FREE
    trigger_timeout: float = 2.0
    report: Path | None = None
    status_every: float = 5.0
    duration: float | None = None
    max_frames: int | None = None
    sinks: SinkOptions = field(default_factory=SinkOptions)

    def __post_init__(self) -> None:
        if not self.source:
            raise UsageError("no source given; try source=0 or source=synthetic:")
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
                raise UsageError(f"{name}={value}: expected more than 0")
        check_threshold(self.threshold)
        if not 0 <= self.camera_delay < math.inf:
            raise UsageError(f"camera_delay={self.camera_delay}: expected 0 or more seconds")
        if not 0 <= self.min_area < math.inf:
            raise UsageError(f"min_area={self.min_area}: expected 0 or more pixels of the camera")
        if not 0 <= self.tile_overlap < 1:
            raise UsageError(f"tile_overlap={self.tile_overlap}: expected 0 or more, below 1")
        self._check_trigger()
        self._check_recipes()
        if self.report is not None and self.report.suffix != ".json":
            raise UsageError(
                f"report={self.report}: expected a name ending in .json; the text goes beside it"
            )

    def _check_recipes(self) -> None:
        if self.recipes is None:
            if self.model is None:
                raise UsageError("no model given; add model=FILE, or recipes=FOLDER")
            if self.recipe is not None:
                raise UsageError(f"recipe={self.recipe}: of which folder? Add recipes=FOLDER")
            return
        for name in ("model", "roi", "threshold", "tile", "min_area", "debounce"):
            value = getattr(self, name)
            if value != getattr(StreamOptions, name):
                raise UsageError(f"{name}={value}: stands in each recipe where recipes= is given")

    def _check_trigger(self) -> None:
        kind = TRIGGERS.get(self.trigger)
        if kind is None:
            raise UsageError(f"trigger={self.trigger}: expected one of {', '.join(TRIGGERS)}")
        if self.trigger != FREE and self.policy is not None:
            raise UsageError(
                f"policy={self.policy}: is for trigger={FREE}; a triggered frame waits its turn"
            )
        adapter = ADAPTERS.get(kind.adapter or "")
        if adapter is not None and getattr(self.sinks.of(adapter.record), self.trigger) is None:
            raise UsageError(f"trigger={self.trigger}: nobody could trigger; add {adapter.setting}")


def option_kinds() -> list[SinkKind[Any] | TriggerKind[Any] | AdapterKind[Any]]:
    """Everything that brings options of its own, in the order of the help."""
    return [*SINKS.values(), *TRIGGERS.values(), *ADAPTERS.values()]


def own_values(record: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the values that a record has a field for."""
    return {item.name: values[item.name] for item in fields(record) if item.name in values}


def read_options(values: Mapping[str, Any]) -> StreamOptions:
    """The values of all options by name, as one checked record."""
    records = tuple(kind.record(**own_values(kind.record, values)) for kind in option_kinds())
    return StreamOptions(**own_values(StreamOptions, values), sinks=SinkOptions(records))
