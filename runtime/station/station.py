"""The state machine between triggers and results, without threads, sockets or frames of its own.

    trigger -> ACQUIRING --acquire--> INSPECTING --complete--> result
                    any of them --fail, tick, stop--> a result that says why, never "good"

Every trigger gets an id and exactly one result, and results leave in the order of their triggers:
a trigger that comes while trigger ready is off is answered too, with no inspection. Any thread may
call any method.
"""

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from edgeseg.errors import UsageError
from edgeseg.runtime.station.codes import Check, ErrorCode, State
from edgeseg.runtime.station.delivery import Delivery
from edgeseg.runtime.station.records import (
    MAX_ID,
    Inspection,
    Job,
    StationResult,
    StationWords,
    TriggerEvent,
    part_id_of,
    vote,
)

Refusal = tuple[ErrorCode, str]
JobLoader = Callable[[int | str], bool]  # number or name -> whether it is there and will be loaded


@dataclass
class _Pending:
    """A trigger whose result has not left yet."""

    event: TriggerEvent
    acquired: bool = False
    frames: int = 1  # that answer for it
    needed: int = 1  # of them not good, for the part not to be
    seen: list[Inspection] = field(default_factory=list)
    result: StationResult | None = None  # waits for those before it


class Station:
    """One inspection station.

    Trigger ready is off while a trigger waits for its frame, and while `depth` of them are under
    way. `timeout_s` is the longest that a trigger waits for its result. `on_error` counts what a
    listener raises.
    """

    def __init__(
        self,
        *,
        timeout_s: float = 2.0,
        depth: int = 1,
        on_error: Callable[[str, str], None] = lambda name, message: None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        if not timeout_s > 0:
            raise UsageError(f"trigger_timeout={timeout_s}: expected more than 0")
        if depth < 1:
            raise UsageError(f"depth={depth}: expected at least 1")
        self.run_id = secrets.token_hex(8)
        self._timeout_ns, self._depth = int(timeout_s * 1e9), depth
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._pending: deque[_Pending] = deque()
        self._delivery = Delivery(on_error)
        self._on_trigger: list[Callable[[TriggerEvent], None]] = []
        self._holds: list[Callable[[], bool]] = []
        self._loader: JobLoader | None = None
        self._job, self._job_loading = Job(), False
        self._offline: Refusal | None = (ErrorCode.OFFLINE, "not started")
        self._source: Refusal | None = None
        self._job_error: Refusal | None = None
        self._check, self._check_reason = Check.NONE, ""
        self._heartbeat = self._triggers = self._results = self._missed = self._late = 0
        self._trigger_id = self._result_id = 0
        self._unread = False

    # Who listens; before the run begins.

    def subscribe(self, listener: Callable[[StationResult], None]) -> None:
        """Hand every result to this too, in order; it must return quickly."""
        self._delivery.subscribe(listener)

    def on_trigger(self, listener: Callable[[TriggerEvent], None]) -> None:
        """Tell this of every trigger that waits for a frame, from the thread that triggered."""
        self._on_trigger.append(listener)

    def add_hold(self, full: Callable[[], bool]) -> None:
        """Refuse triggers while this is true: a reader's buffer is full."""
        self._holds.append(full)

    def attach_jobs(self, loader: JobLoader) -> None:
        """Who loads recipes; it answers at once, and later says `job_loaded` or `job_failed`."""
        self._loader = loader

    # Triggers.

    def trigger(
        self,
        *,
        origin: str,
        part_id: str = "",
        at_ns: int | None = None,
        acquired: bool = False,
        frames: int = 1,
        needed: int = 1,
    ) -> TriggerEvent:
        """Take a trigger; `acquired` when its frames are there already.

        Of several, `needed` must not be good for the part not to be.
        """
        with self._lock:
            refusal = self._refusal(acquired=acquired)
            pending = self._add(origin, part_id, at_ns, acquired=acquired)
            pending.frames, pending.needed = frames, needed
            event = pending.event
            if refusal is not None:
                self._missed += refusal[0] == ErrorCode.MISSED
                self._end(pending, refusal=refusal)
        self._delivery.flush()
        if refusal is None and not acquired:
            for listener in self._on_trigger:
                self._delivery.call("trigger", listener, event)
        return event

    def free(self, inspection: Inspection, *, at_ns: int) -> None:
        """Take the inspection of a frame that nobody had to trigger."""
        with self._lock:
            pending = self._add("free", "", at_ns, acquired=True)
            refusal = self._distrust(pending.event, inspection) or self._job_error
            self._end(pending, inspection=inspection, refusal=refusal)
        self._delivery.flush()

    def acquire(self, *, grabbed_ns: int) -> TriggerEvent | None:
        """The oldest trigger that waits for a frame grabbed then: after the trigger, not before."""
        with self._lock:
            for pending in self._pending:
                if pending.acquired or pending.result is not None:
                    continue
                if pending.event.monotonic_ns >= grabbed_ns:
                    return None
                pending.acquired = True
                return pending.event
        return None

    def waits_for(self, trigger_id: int) -> bool:
        """Whether that trigger still has no result."""
        with self._lock:
            return self._find(trigger_id) is not None

    def complete(self, trigger_id: int, inspection: Inspection) -> bool:
        """Take the inspection of a trigger; false when it was answered already."""
        with self._lock:
            pending = self._find(trigger_id)
            if pending is None or not pending.acquired:
                self._late += 1
                return False
            refusal = self._distrust(pending.event, inspection)
            pending.seen.append(inspection)
            if refusal is None and len(pending.seen) < pending.frames:
                return True
            agreed = vote(pending.seen, needed=pending.needed)
            self._end(pending, inspection=agreed, refusal=refusal)
        self._delivery.flush()
        return True

    def fail(self, trigger_id: int, error: ErrorCode, reason: str) -> bool:
        """Answer a trigger without an inspection; false when it was answered already."""
        with self._lock:
            pending = self._find(trigger_id)
            if pending is None:
                return False
            self._end(pending, refusal=(error, reason))
        self._delivery.flush()
        return True

    def fail_acquiring(self, error: ErrorCode, reason: str) -> None:
        """Answer every trigger that still waits for a frame."""
        with self._lock:
            for pending in tuple(self._pending):
                if pending.result is None and not pending.acquired:
                    self._end(pending, refusal=(error, reason))
        self._delivery.flush()

    def tick(self) -> None:
        """Answer triggers whose time is over; from a thread that no inference can hold up."""
        with self._lock:
            limit_ns = self._clock_ns() - self._timeout_ns
            for pending in tuple(self._pending):
                if pending.result is None and pending.event.monotonic_ns <= limit_ns:
                    waited = "no verdict" if pending.acquired else "no frame"
                    reason = f"{waited} within {self._timeout_ns / 1e9:g} s"
                    self._end(pending, refusal=(ErrorCode.TIMEOUT, reason))
        self._delivery.flush()

    # The run, its camera, its recipe and its check.

    def start(self) -> None:
        """Go online."""
        with self._lock:
            self._offline = None

    def stop(self, error: ErrorCode = ErrorCode.STOPPED, reason: str = "the run ended") -> None:
        """Go offline and answer every trigger under way."""
        with self._lock:
            self._offline = (error, reason)
            for pending in tuple(self._pending):
                if pending.result is None:
                    self._end(pending, refusal=(error, reason))
        self._delivery.flush()

    def source_lost(self, reason: str) -> None:
        """The camera is gone; frames that are being scored are still answered for."""
        with self._lock:
            self._source = (ErrorCode.SOURCE_LOST, reason)
        self.fail_acquiring(ErrorCode.SOURCE_LOST, reason)

    def source_back(self) -> None:
        """The camera delivers again."""
        with self._lock:
            self._source = None

    def beat(self) -> None:
        """A sign of life from the scoring loop."""
        with self._lock:
            self._heartbeat = (self._heartbeat + 1) % 2**16

    def load_job(self, key: int | str) -> bool:
        """Ask for a recipe by number or name; false: there is none, and none is inspected with."""
        self.hold_for_job()
        if self._loader is None:
            accepted = key in (0, "")  # back to the one model there is
            if accepted:
                self.job_loaded(Job())
        else:
            accepted = self._loader(key)
        if not accepted:
            self.job_failed(f"there is no job {key}")
        return accepted

    def hold_for_job(self) -> None:
        """Refuse triggers until `job_loaded` or `job_failed`."""
        with self._lock:
            self._job_loading = True

    def job_loaded(self, job: Job) -> None:
        """From now on triggers are for this recipe."""
        with self._lock:
            self._job, self._job_loading, self._job_error = job, False, None

    def job_failed(self, reason: str) -> None:
        """Nobody knows which part comes next: inspect none until a recipe is loaded."""
        with self._lock:
            self._job_loading, self._job_error = False, (ErrorCode.UNKNOWN_JOB, reason)

    def set_check(self, check: Check, reason: str = "") -> None:
        """Where the golden check stands; while it runs and after it failed nothing is good."""
        with self._lock:
            self._check, self._check_reason = check, reason

    # What there is to see.

    @property
    def current_job(self) -> Job:
        """The recipe that triggers are for."""
        with self._lock:
            return self._job

    @property
    def busy(self) -> bool:
        """Whether a trigger still has no result."""
        with self._lock:
            return any(pending.result is None for pending in self._pending)

    def acknowledge(self, result_id: int) -> None:
        """Somebody has read that result."""
        with self._lock:
            if result_id == self._result_id:
                self._unread = False

    def words(self) -> StationWords:
        """The state now."""
        with self._lock:
            refusal = self._refusal()
            block = self._block()
            return StationWords(
                run_id=self.run_id,
                state=self._state(),
                online=self._offline is None and self._source is None,
                trigger_ready=refusal is None,
                trigger_id=self._trigger_id,
                result_id=self._result_id,
                error=ErrorCode.NONE if block is None else block[0],
                reason="" if block is None else block[1],
                job=self._job,
                job_loading=self._job_loading,
                check=self._check,
                heartbeat=self._heartbeat,
                triggers=self._triggers,
                results=self._results,
                missed=self._missed,
                late=self._late,
            )

    # Inside, with the lock held.

    def _state(self) -> State:
        if self._offline is not None or self._source is not None:
            return State.OFFLINE
        head = next((pending for pending in self._pending if pending.result is None), None)
        if head is not None:
            return State.INSPECTING if head.acquired else State.ACQUIRING
        return State.RESULT if self._unread else State.READY

    def _block(self, *, acquired: bool = False) -> Refusal | None:
        """Why the station cannot inspect at all; a frame that is there needs no camera."""
        if self._offline is not None:
            return self._offline
        if self._job_loading:
            return ErrorCode.JOB_LOADING, "a recipe is being loaded"
        if self._check == Check.RUNNING:
            return ErrorCode.CHECK_FAILED, "the golden check runs"
        if self._check == Check.FAILED:
            return ErrorCode.CHECK_FAILED, self._check_reason or "the golden check failed"
        return self._job_error or (None if acquired else self._source)

    def _refusal(self, *, acquired: bool = False) -> Refusal | None:
        """Why a trigger would not be taken now."""
        block = self._block(acquired=acquired)
        if block is not None:
            return block
        if any(full() for full in self._holds):
            return ErrorCode.BUFFER_FULL, "results wait to be acknowledged"
        open_ones = [pending for pending in self._pending if pending.result is None]
        # Two triggers before the next frame would want the same one: the second came too soon.
        if len(open_ones) >= self._depth or not all(each.acquired for each in open_ones):
            return ErrorCode.MISSED, "the trigger came while trigger ready was off"
        return None

    def _distrust(self, event: TriggerEvent, inspection: Inspection) -> Refusal | None:
        """Why an inspection does not count for this trigger."""
        if inspection.job is not None and inspection.job != event.job:
            names = f"{inspection.job.name or inspection.job.number}"
            return ErrorCode.UNKNOWN_JOB, f"inspected as job {names}, triggered for another"
        if self._check in (Check.RUNNING, Check.FAILED):
            return self._block()
        return None

    def _add(self, origin: str, part_id: str, at_ns: int | None, *, acquired: bool) -> _Pending:
        self._triggers += 1
        self._trigger_id = self._trigger_id % MAX_ID + 1
        event = TriggerEvent(
            trigger_id=self._trigger_id,
            part_id=part_id_of(part_id),
            origin=origin,
            monotonic_ns=self._clock_ns() if at_ns is None else at_ns,
            wall_s=time.time(),
            job=self._job,
        )
        self._pending.append(_Pending(event, acquired))
        return self._pending[-1]

    def _find(self, trigger_id: int) -> _Pending | None:
        for pending in self._pending:
            if pending.event.trigger_id == trigger_id:
                return pending if pending.result is None else None
        return None

    def _end(
        self,
        pending: _Pending,
        *,
        inspection: Inspection | None = None,
        refusal: Refusal | None = None,
    ) -> None:
        error, reason = refusal or (ErrorCode.NONE, "")
        pending.result = StationResult(
            trigger=pending.event,
            inspection=None if refusal is not None else inspection,
            error=error,
            reason=reason,
            wall_s=time.time(),
            latency_ms=max(0, self._clock_ns() - pending.event.monotonic_ns) / 1e6,
        )
        while self._pending and (ended := self._pending[0].result) is not None:
            self._pending.popleft()
            self._results += 1
            self._result_id = ended.trigger.trigger_id
            self._unread = True
            self._delivery.add(ended)
