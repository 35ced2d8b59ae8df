"""A line without a plant: a camera that can be cut, a model, the station and its adapters."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.progress import Note, ignore
from edgeseg.runtime.backends.base import Session
from edgeseg.runtime.capture.captures import Capture, Grab, Pace, Wait
from edgeseg.runtime.capture.sources import SourceSpec
from edgeseg.runtime.events.records import LoggedEvent
from edgeseg.runtime.run.line import Line
from edgeseg.runtime.run.product import Product, RecipeChanges, scorer_config
from edgeseg.runtime.run.run import config_for_trigger
from edgeseg.runtime.scoring.meters import Faults
from edgeseg.runtime.scoring.pipeline import Pipeline
from edgeseg.runtime.settings.options import StreamOptions, read_options
from edgeseg.runtime.settings.sink_kinds import StreamRun, attach_sinks
from edgeseg.runtime.station.records import StationResult
from tests.support import HANGS_S

START_S = HANGS_S


@dataclass
class RigCamera:
    """Grey frames at a steady rate; `level` is what the next one shows."""

    size_hw: tuple[int, int] = (32, 48)
    fps: float = 500.0
    level: int = 100
    picture: NDArray[np.uint8] | None = None  # instead of grey
    plugged: bool = True
    damaged: bool = False  # the next frame arrives without its picture
    opened: int = 0

    def open(self, spec: SourceSpec, *, wait: Wait, timeout_s: float) -> Capture:
        """As a reader opens its source."""
        if not self.plugged:
            raise RuntimeFailure(f"{spec.name}: unplugged")
        self.opened += 1
        return _Open(self, wait)


class _Open:
    """The camera until it is cut."""

    def __init__(self, camera: RigCamera, wait: Wait) -> None:
        self.fps = camera.fps
        self._camera, self._pace = camera, Pace(camera.fps, wait=wait)

    def read(self) -> Grab | None:
        """A new array every time; None when the cable is out."""
        if self._pace.ending() or not self._camera.plugged:
            return None
        damaged, self._camera.damaged = self._camera.damaged, False
        grabbed_ns = time.monotonic_ns()
        image: NDArray[np.uint8] | None = None
        if not damaged:
            shown = self._camera.picture
            grey = np.full((*self._camera.size_hw, 3), self._camera.level, np.uint8)
            image = grey if shown is None else shown.copy()
        return Grab(image, "rgb", grabbed_ns, time.time())

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class Rig:
    """A running line; `values` are options of the stream, by name."""

    session: Session
    values: dict[str, Any]
    camera: RigCamera = field(default_factory=RigCamera)
    live: bool = True
    note: Note = ignore
    opener: Callable[..., Capture] | None = None
    fired: bool = False  # the camera takes a frame when software asks
    product: Product | None = None  # with recipes, whose session this is
    sinks: bool = False  # make those that the values ask for too

    def __post_init__(self) -> None:
        self.results: list[StationResult] = []
        self.events: list[dict[str, object]] = []
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        spec = SourceSpec(
            kind="device",
            text="rig",
            name="rig",
            live=self.live,
            reconnects=self.live,
            trigger="software" if self.fired else "off",
            repeats=True,  # grey frames have no noise
        )
        self.options: StreamOptions = read_options(
            {"model": Path("rig"), "source": ("rig",), "stall_timeout": 1.0, **self.values}
        )
        self._product = self.product or Product(
            session=self.session, scorer=scorer_config(self.options)
        )
        self.faults = Faults(self.note)
        self.line = Line(self.options, [spec], faults=self.faults, note=self.note)
        self.station = self.line.station
        self.line.events.subscribe(StationResult, self.results.append, name="rig")
        self.line.events.subscribe(
            LoggedEvent, lambda event: self.events.append(event.facts()), name="rig"
        )
        self.pipeline = Pipeline(
            self.session,
            [spec],
            config=config_for_trigger(self.options, [spec], self._product.scorer),
            faults=self.faults,
            stop=self._stop,
            note=ignore,
            opener=self.opener or self.camera.open,
            intake=self.line.intake,
            decide=self.line.decide,
            on_demand=self.line.triggered,
            events=self.line.events,
        )
        self.line.attach(self.pipeline)
        self.run = StreamRun(
            pipeline=self.pipeline,
            options=self.options.sinks,
            specs=[spec],
            note=self.note,
            station=self.station,
            recipes=self._product.recipe_names,
        )
        if self.sinks:
            attach_sinks(self.run)
        self.line.open_adapters()
        self.changes = RecipeChanges(self._product, self.run, self.line)
        self._thread = threading.Thread(target=self._run, name="rig", daemon=True)

    def _run(self) -> None:
        try:
            with self.line, self.changes:
                self.pipeline.run()
        except BaseException as error:
            self._failure = error

    def __enter__(self) -> "Rig":
        self._thread.start()
        if self.live:
            self.wait(lambda: self.station.status().online, "the camera to deliver")
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> BaseException | None:
        """Stop the run; returns what ended it before that."""
        self._stop.set()
        self._thread.join(START_S)
        return self._failure

    def ended(self) -> bool:
        """Whether the run is over: a file has an end."""
        return not self._thread.is_alive()

    def adapter(self, name: str) -> Any:
        """The running adapter of that name."""
        return next(each for each in self.line.adapters if each.name == name)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Until something is so, however slow the computer."""
        deadline_s = time.monotonic() + START_S
        while not condition():
            if time.monotonic() > deadline_s:
                raise RuntimeFailure(f"the rig waited {START_S:g} s in vain for {what}")
            time.sleep(0.001)
