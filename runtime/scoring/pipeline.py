"""Run the loop: take the frames that are ready, score them, publish the results.

sources --a Reader thread each--> FrameBuffer, which drops or waits by its policy
FrameBuffer --a batch--> Scorer: crop, resize or tile, infer, judge
Scorer --FrameResult--> decide: the one verdict that station, events, page and counters carry
FrameResult --> published: every sink in turn, from this one thread
Readers --SourceEvent: open, lost, back, end--> published from the same thread
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from edgeseg.base.errors import EdgesegError, RuntimeFailure
from edgeseg.base.messages import Sentence
from edgeseg.base.progress import Note
from edgeseg.runtime.backends.base import Session, warm_up
from edgeseg.runtime.capture.frame_buffer import Frame, FrameBuffer, Policy
from edgeseg.runtime.capture.frame_tap import FrameTap, settling_frames
from edgeseg.runtime.capture.intake import Intake
from edgeseg.runtime.capture.reader import OpenCapture, Reader
from edgeseg.runtime.capture.sources import SourceSpec, open_capture
from edgeseg.runtime.events.codes import ErrorCode, Refusal
from edgeseg.runtime.events.publisher import Publisher
from edgeseg.runtime.events.records import (
    FrameResult,
    LoopTick,
    PipelineSnapshot,
    Sink,
    SourceEvent,
    SourceState,
    UnscoredFrame,
)
from edgeseg.runtime.scoring.meters import Faults, StreamMeters
from edgeseg.runtime.scoring.report import status_line
from edgeseg.runtime.scoring.scorer import Scorer, ScorerConfig

WRONG_SIZE = "wrong_size"  # the stream changed to a size that the ROI or the tiles do not fit
_WAIT_S = 0.1  # for frames; also how soon a stop is noticed when none come
_JOIN_S = 3.0


@dataclass(frozen=True, kw_only=True)
class PipelineConfig:
    """Limits of a run: when frames are dropped, and when it ends."""

    scorer: ScorerConfig = field(default_factory=ScorerConfig)
    policy: Policy | None = None  # None: by the kind of source
    queue_size: int
    stall_timeout_s: float
    duration_s: float | None = None
    max_frames: int | None = None
    status_every_s: float = 0.0  # 0: no status lines


@dataclass(frozen=True, kw_only=True)
class ModelSwap:
    """A change to another model, from the next frame on."""

    session: Session
    scorer: Scorer
    then: Callable[[], None]  # from the scoring thread, before the next frame
    done: threading.Event = field(default_factory=threading.Event)


class Pipeline:
    """One model, one or more sources, any number of sinks.

    `decide` returns why a scored frame gets no verdict; it is called once a frame, before any sink.
    With `on_demand`, frames are scored only when somebody triggers.
    """

    def __init__(
        self,
        session: Session,
        specs: Sequence[SourceSpec],
        *,
        config: PipelineConfig,
        faults: Faults,
        stop: threading.Event,
        note: Note,
        opener: OpenCapture = open_capture,
        intake: Callable[[FrameBuffer], Intake] = lambda buffer: buffer,
        decide: Callable[[FrameResult], Refusal | None] = lambda result: None,
        on_demand: bool = False,
        events: Publisher | None = None,
    ) -> None:
        self.session, self.config, self.faults = session, config, faults
        self.meters = StreamMeters(len(specs))
        self._stop, self._note = stop, note
        self._sinks: list[Sink] = []
        self._decide, self.on_demand = decide, on_demand
        self.events = Publisher(faults.count) if events is None else events
        self._source_events: queue.SimpleQueue[SourceEvent] = queue.SimpleQueue()
        self._names = [spec.name for spec in specs]
        self.scorer = self._scorer(session, config.scorer)
        self.buffer = FrameBuffer(
            [spec.policy(config.policy) for spec in specs], queue_size=config.queue_size
        )
        self.tap = FrameTap(intake(self.buffer), settle=settling_frames(specs[0]))
        self.readers = [
            Reader(
                spec,
                index,
                buffer=self.tap,
                stop=stop,
                on_event=self._source_events.put,
                stall_timeout_s=config.stall_timeout_s,
                opener=opener,
            )
            for index, spec in enumerate(specs)
        ]
        self._sizes_hw: list[tuple[int, int] | None] = [None] * len(specs)
        self._batch = min(session.max_batch, len(specs))
        self._changes: queue.SimpleQueue[ModelSwap] = queue.SimpleQueue()
        self._over = False  # no more frames: nobody needs to wait for the next one
        self._next_tick_s = self._next_status_s = 0.0

    def add_sink(self, sink: Sink) -> None:
        """Add a sink for every result, to be closed at the end; call it before run()."""
        self.events.subscribe(FrameResult, sink.on_frame, name=sink.name)
        self.events.subscribe(SourceEvent, sink.on_source, name=sink.name)
        self._sinks.append(sink)

    def run(self) -> None:
        """Score until a limit, the end of all sources, or `stop`; sinks are closed in any case."""
        tiled = self.scorer.tiled
        try:
            warm_up(self.session, batch=self.session.max_batch if tiled else self._batch)
            self.scorer.warm_up()
            self.meters.started_s = time.monotonic()
            self._next_status_s = self.meters.started_s + self.config.status_every_s
            for reader in self.readers:
                reader.start()
            while (room := self._room()) > 0:
                self._take_changes()
                taken = self.buffer.take(room, timeout_s=_WAIT_S)
                self._pass_events_on()
                if taken:
                    self._score(taken)
                self.tick()
        finally:
            self.meters.ended_s = time.monotonic()
            self._finish()
        self._raise_source_error()

    def new_scorer(self, session: Session, config: ScorerConfig) -> Scorer:
        """Make a scorer for `change`, from any thread; refuse a region outside of the frames."""
        scorer = self._scorer(session, config)
        for reader in self.readers:
            if reader.size_hw is not None:
                scorer.check(reader.size_hw, source=reader.spec.name)
        scorer.warm_up()
        return scorer

    def _scorer(self, session: Session, config: ScorerConfig) -> Scorer:
        return Scorer(
            session,
            self._names,
            config=config,
            meters=self.meters,
        )

    def change(self, change: ModelSwap, *, timeout_s: float) -> bool:
        """Score with another model from the next frame on; return False after the time-out."""
        self._changes.put(change)
        self.buffer.wake()
        if self._over:
            change.done.set()
        return change.done.wait(timeout_s)

    def _take_changes(self) -> None:
        while not self._changes.empty():
            change = self._changes.get()
            self.session, self.scorer = change.session, change.scorer
            self._batch = min(self.session.max_batch, len(self.readers))
            change.then()
            change.done.set()

    def _room(self) -> int:
        """Return how many frames may be scored next; 0 when the run is over."""
        limits = self.config
        over = limits.duration_s is not None and self._uptime_s() >= limits.duration_s
        if over or self._stop.is_set() or self.buffer.exhausted:
            return 0
        if limits.max_frames is None:
            return self._batch
        return min(self._batch, limits.max_frames - self.meters.scored)

    def _score(self, taken: list[tuple[Frame, int]]) -> None:
        usable = [item for item in taken if self._usable(item[0])]
        if not usable:
            return
        results = self.scorer.score(usable)
        for result in results:
            self.buffer.count_scored(result.source_index)
        for result in results:
            self._pass_on(result)

    def _usable(self, frame: Frame) -> bool:
        index, height, width = frame.source_index, *frame.image_hwc.shape[:2]
        if self._sizes_hw[index] == (height, width):
            return True
        name = self.readers[index].spec.name
        try:
            self.scorer.check((height, width), source=name)
        except EdgesegError as error:
            self.buffer.count_dropped(index, WRONG_SIZE)
            if self._sizes_hw[index] is None:
                raise  # wrong from the start: a mistake in the options
            self.faults.count(WRONG_SIZE, Sentence(error))
            self.events.publish(UnscoredFrame(trigger_id=frame.trigger_id, reason=str(error)))
            return False
        if self.scorer.tiled:
            tiles = self.scorer.tiles_per_frame((height, width))
            self._note(f"{name}: frames of {width}x{height} are scored as {tiles} tiles each")
        if blind := self.scorer.blind_size((height, width)):
            self._note(f"{name}: {blind}")
        if odd := self.scorer.odd_colour(frame):
            self._note(f"{name}: {odd}")
        self._sizes_hw[index] = (height, width)
        return True

    def _pass_on(self, result: FrameResult) -> None:
        begin_ns = time.monotonic_ns()
        self.events.publish(self.scorer.apply_decision(result, self._decision(result)))
        self.meters.record_sinks(time.monotonic_ns() - begin_ns)

    def _decision(self, result: FrameResult) -> Refusal | None:
        try:
            return self._decide(result)
        except Exception as error:  # nobody answered for the frame
            what = type(error).__name__
            self.faults.count("station", what)
            return ErrorCode.CRASHED, f"the station failed ({what})"

    def _pass_events_on(self) -> None:
        while not self._source_events.empty():
            event = self._source_events.get()
            if event.kind == "source_lost":
                self.faults.tally("source_lost")
                self.scorer.alarms[event.source_index].forget()
            detail = f" ({event.reason})" if event.reason else ""
            self._note(f"{event.source}: {event.kind.removeprefix('source_')}{detail}")
            self.events.publish(event)

    def tick(self) -> None:
        """Publish a sign of life, at most once a second; from the scoring thread."""
        now_s = time.monotonic()
        if now_s < self._next_tick_s:
            return
        self._next_tick_s = now_s + min(1.0, self.config.stall_timeout_s / 4)
        self.events.publish(LoopTick())
        for reader in self.readers:
            reader.check_stall(now_s)
        count = range(len(self.readers))
        self.meters.update_rates(sum(self.buffer.counters(index).frames_in for index in count))
        if self.config.status_every_s and now_s >= self._next_status_s:
            self._next_status_s = now_s + self.config.status_every_s
            self._note(status_line(self.snapshot()))

    def _finish(self) -> None:
        self._stop.set()
        self._over = True
        self.buffer.close()
        while not self._changes.empty():
            self._changes.get().done.set()
        deadline_s = time.monotonic() + _JOIN_S
        for reader in self.readers:
            if not reader.join(timeout_s=max(0.0, deadline_s - time.monotonic())):
                self.faults.count("source", f"{reader.spec.name}: its driver does not return")
        self._pass_events_on()
        self.close_sinks()

    def close_sinks(self) -> None:
        """Flush and release every sink; run() does it at its end."""
        while self._sinks:
            sink = self._sinks.pop(0)
            try:
                sink.close()
            except Exception as error:
                self.faults.count(sink.name, f"{type(error).__name__}: {error}")

    def _raise_source_error(self) -> None:
        for reader in self.readers:
            if reader.error is not None:
                raise reader.error
            # However the run ended: nothing was inspected, which must not look like success.
            if reader.spec.reconnects and reader.never_open:
                raise RuntimeFailure(
                    f"{reader.spec.name}: no frame in {self._uptime_s():.1f} s "
                    f"({reader.why_lost or 'it was still being opened'})"
                )

    def _uptime_s(self) -> float:
        return (self.meters.ended_s or time.monotonic()) - self.meters.started_s

    def snapshot(self) -> PipelineSnapshot:
        """Return the current state, from any thread."""
        fps_in, fps_out = self.meters.rates()
        return PipelineSnapshot(
            model=self.session.metadata.name,
            backend=self.session.backend,
            threshold_score=self.scorer.thresholds.score,
            uptime_s=self._uptime_s(),
            fps_in=fps_in,
            fps_out=fps_out,
            sources=tuple(self._source_state(reader) for reader in self.readers),
            stages=self.meters.stages(),
            errors=self.faults.totals(),
            last_scored_monotonic_s=self.meters.last_scored_s,
            on_demand=self.on_demand,
            arithmetic=self.session.arithmetic,
            spin=self.session.spin,
        )

    def _source_state(self, reader: Reader) -> SourceState:
        lane = self.buffer.counters(reader.index)
        return SourceState(
            name=reader.spec.name,
            live=reader.spec.live,
            connected=reader.connected,
            ended=reader.ended,
            frames_in=lane.frames_in,
            scored=lane.scored,
            dropped=dict(lane.dropped),
            verdicts=dict(self.meters.verdicts[reader.index]),
            reconnects=reader.reconnects,
            alarm=self.scorer.alarms[reader.index].active,
            size_hw=reader.size_hw,
        )
