"""Records that the loop passes to its sinks: frozen values, safe to keep and to share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.messages import Message
from edgeseg.decision.doubt import Doubt
from edgeseg.decision.judgement import (
    JudgedPart,
    Verdict,
    is_alarming,
    oddness_of,
    severity_of,
)
from edgeseg.decision.kinds import Severity
from edgeseg.decision.prediction import Prediction, Region
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.modelfile.precisions import runs_on
from edgeseg.runtime.events.codes import Refusal
from edgeseg.vision.geometry import Pose, View

SourceEventKind = Literal["source_open", "source_lost", "source_back", "source_end", "frame_lost"]
# no_inspection: a score that no approved model answers for; never good, whatever it is
FrameVerdict = Literal[Verdict, "no_inspection"]
SCHEMA = 1  # of the events that sinks write
STAGES = ("capture_age", "queue", "pre", "infer", "post", "end_to_end")


@dataclass(frozen=True)
class StageTimes:
    """Milliseconds of one frame, in the order of STAGES.

    end_to_end = capture_age + pre + infer + post.
    """

    capture_age: float  # from the grab to the start of scoring; contains decoding and the queue
    queue: float  # part of capture_age: waiting in the frame buffer
    pre: float
    infer: float  # the whole batch's inference when several frames are scored together
    post: float
    end_to_end: float  # from the grab to the verdict; sinks come after it


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What judged a frame; it changes only with the model or the recipe."""

    model_sha256: str | None  # of the file that runs; None: not opened from a file
    recipe: str | None
    threshold: float
    rate: float | None  # false alarms that the threshold answers for; None: given by hand
    method: str  # how the threshold was chosen
    precision: str
    backend: str

    def facts(self) -> dict[str, object]:
        """Return the file, recipe and operating point of a verdict, and the backend."""
        point = {"threshold": self.threshold, "rate": self.rate, "method": self.method}
        return {
            "recipe": self.recipe,
            "model_sha256": self.model_sha256,
            "precision": self.precision,
            "backend": self.backend,
            "operating_point": point,
        }


@dataclass(frozen=True, kw_only=True)
class FrameResult:
    """One scored frame.

    All sinks share its arrays, so no sink may write to them.
    """

    source: str  # redacted: fit for logs, events and pages
    source_index: int  # position of its source among those given
    frame_index: int  # of frames captured from this source, from 0; gaps are dropped frames
    frame_name: str  # the file's name, or what a synthetic scene shows; "" for cameras
    wall_s: float  # time.time() of the grab
    monotonic_s: float  # time.monotonic() of the grab
    frame_id: int | None = None  # the camera's own number of the frame; None: it has none
    camera_ns: int | None = None  # the camera's own clock; only differences mean something
    frame_hwc: NDArray[np.uint8]  # RGB, cropped to the ROI; maybe a strided view, so copy to draw
    captured_hwc: NDArray[np.uint8] | None = None  # all of the camera's picture, RGB, if known
    roi_xy: tuple[int, int]  # where frame_hwc begins in the captured frame
    prediction: Prediction  # map at the model's input size; at frame_hwc's size when tiled
    threshold_score: float
    threshold_pixel: float
    verdict: FrameVerdict
    refusal: Refusal | None = None  # why it is no_inspection
    doubt: Doubt | None = None  # why it is invalid or not_found
    p_value: float | None = None  # share of good parts that look this odd; None: not known
    good_parts: int | None = None  # behind the p-value
    alarm: bool = False  # k of the last n verdicts of this source were neither good nor unsure
    alarm_started: bool = False  # true on the first frame of an alarm
    regions: tuple[Region, ...]  # strongest first, at most MAX_REGIONS of them
    region_count: int  # before that limit
    times: StageTimes
    trace: Trace | None = None
    trigger_id: int | None = None  # None: free running
    part_id: str | None = None  # the part's serial number, where somebody tells it
    pose: Pose | None = None  # where the part lies, if it is looked for
    parts: tuple[JudgedPart, ...] = ()  # of a picture of several, from top to bottom
    view: View | None = None  # how a part is followed; None: the map lies over frame_hwc

    @property
    def key(self) -> str:
        """An id that no other frame has, of another run or source either, in the order of time."""
        of_source = f"-{self.source_index}" if self.source_index else ""
        return f"{int(1000 * self.wall_s):013d}-{self.frame_index:06d}{of_source}"

    @property
    def rejected(self) -> bool:
        """Whether people are shown it as a part that was stopped.

        A camera that runs freely sees a bad part in many frames: the first is shown. A triggered
        frame and a file are parts of their own.
        """
        own = self.trigger_id is not None or bool(self.frame_name)
        return is_alarming(self.verdict) and (own or self.alarm_started)

    @property
    def reason(self) -> str:
        """The reason why there is no valid verdict, in words."""
        if self.refusal is not None:
            return self.refusal[1]
        return "" if self.doubt is None else str(self.doubt)

    @property
    def oddness(self) -> Message | None:
        """The p-value in words; None where it is not known, or says nothing of the part."""
        if self.refusal is not None:
            return None
        return oddness_of(self.p_value, self.good_parts, doubt=self.doubt)

    @property
    def severity(self) -> Severity | None:
        """The severity of the worst region; None without regions."""
        px = self.frame_hwc.shape[0] * self.frame_hwc.shape[1]
        of_regions = {
            severity_of(region, pixel_threshold=self.threshold_pixel, picture_px=px)
            for region in self.regions
        }
        return "major" if "major" in of_regions else "minor" if of_regions else None

    @property
    def strongest(self) -> Region | None:
        """The region whose kind and reason stand for the frame; None without regions."""
        return next(iter(self.regions), None)

    @property
    def map_hw(self) -> NDArray[np.float32]:
        """The map at the size of frame_hwc."""
        map_hw = self.prediction.map_hw
        return map_hw if self.view is None else self.view.over_frame(map_hw)


@dataclass(frozen=True, kw_only=True)
class SourceEvent:
    """A source was opened, lost, came back or ended; or a triggered frame did not arrive whole."""

    kind: SourceEventKind
    source: str  # redacted
    source_index: int
    wall_s: float
    monotonic_s: float
    reason: str = ""  # redacted
    attempt: int = 0  # how often it was opened since the last frame
    frame_id: int | None = None  # of frame_lost, where the camera numbers its frames


@dataclass(frozen=True, kw_only=True)
class UnscoredFrame:
    """A frame that was taken and cannot be scored."""

    trigger_id: int | None
    reason: str


@dataclass(frozen=True)
class LoopTick:
    """A sign of life of the scoring loop, about once a second, from its thread."""


@dataclass(frozen=True, kw_only=True)
class ModelChange:
    """An event: another model inspects from the next frame on; from the scoring thread."""

    metadata: ModelMetadata
    key: str  # its recipe and its file


class LoggedEvent:
    """An event for the event log and the page, besides frames and sources."""

    def facts(self) -> dict[str, object]:
        """Return its line of the event log."""
        raise NotImplementedError


class Sink(Protocol):
    """A receiver of results, subscribed to FrameResult and SourceEvent.

    It is called from the scoring thread, so it must return quickly: pass slow work to its own
    thread and drop when behind. Its exceptions are counted and reported, and never fatal.
    """

    name: str  # short and fixed, e.g. "page": the key of its error counter

    def on_frame(self, result: FrameResult) -> None:
        """Take one scored frame."""

    def on_source(self, event: SourceEvent) -> None:
        """Take a change of a source's state."""

    def close(self) -> None:
        """Flush and release; called once, after the last frame."""


@dataclass(frozen=True, kw_only=True)
class StageSummary:
    """Percentiles of one stage in milliseconds."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


@dataclass(frozen=True, kw_only=True)
class SourceState:
    """Counters of one source; frames_in = scored + sum(dropped) + those under way."""

    name: str  # redacted
    live: bool
    connected: bool
    ended: bool
    frames_in: int
    scored: int
    dropped: Mapping[str, int]  # by cause
    verdicts: Mapping[str, int]
    reconnects: int
    alarm: bool
    size_hw: tuple[int, int] | None = None  # of the last frame captured


@dataclass(frozen=True, kw_only=True)
class PipelineSnapshot:
    """The state of a run at one moment, for status lines, reports, the page and metrics."""

    model: str
    backend: str
    threshold_score: float
    uptime_s: float
    fps_in: float  # over the last few seconds
    fps_out: float
    sources: tuple[SourceState, ...]
    stages: Mapping[str, StageSummary]  # keys: STAGES
    errors: Mapping[str, int] = field(default_factory=dict)  # by sink or cause
    last_scored_monotonic_s: float | None = None  # of the last verdict; None before the first
    on_demand: bool = False  # frames are scored when somebody triggers: none is no fault
    arithmetic: str = "float32"  # of the session, as is `spin`
    spin: bool | None = None

    @property
    def runs_on(self) -> str:
        """The backend and its settings, for people."""
        return runs_on(self.backend, arithmetic=self.arithmetic, spin=self.spin)


class StateView(Protocol):
    """A source of the current state, for a page or an exporter; from any thread."""

    def snapshot(self) -> PipelineSnapshot:
        """Return the current state."""
