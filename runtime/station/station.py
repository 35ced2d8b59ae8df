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
from collections.abc import Callable

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.runtime.events.codes import Check, ErrorCode, PartNote, Refusal, State
from edgeseg.runtime.events.publisher import Publisher
from edgeseg.runtime.station.age import age_refusal
from edgeseg.runtime.station.delivery import Delivery
from edgeseg.runtime.station.part_ids import AnnouncedPart
from edgeseg.runtime.station.pending import Pending, PendingTriggers
from edgeseg.runtime.station.readiness import Readiness
from edgeseg.runtime.station.records import (
    MAX_ID,
    Inspection,
    Job,
    StationResult,
    StationStatus,
    TriggerEvent,
    part_id_of,
)

JobLoader = Callable[[int | str], bool]  # number or name -> whether it is there and will be loaded
Checker = Callable[[], bool]  # whether there is something to check, and the check has begun


class Station:
    """One inspection station.

    Trigger ready is off while a trigger waits for its frame, and while `depth` of them have no
    result. `timeout_s` is the longest time from the arrival of a trigger to its result, wherever it
    waits: an older trigger is never inspected. `part_id_age_s` is the longest time that an
    announced part id waits for its trigger. The station publishes a TriggerEvent for every trigger
    that waits for a frame, from the thread that triggered, and every StationResult, in order.
    """

    def __init__(
        self,
        *,
        timeout_s: float = 2.0,
        depth: int = 1,
        part_id_age_s: float = 10.0,
        on_error: Callable[[str, str], None] = lambda name, message: None,
        events: Publisher | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        if not timeout_s > 0:
            raise UsageError(Setting("trigger_timeout", timeout_s), ": expected more than 0")
        if depth < 1:
            raise UsageError(f"depth={depth}: expected at least 1")
        self.run_id = secrets.token_hex(8)
        self._timeout_ns, self._depth = int(timeout_s * 1e9), depth
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._pending = PendingTriggers()
        self.events = Publisher(on_error) if events is None else events
        self._delivery = Delivery(self.events)
        self._holds: list[Callable[[], bool]] = []
        self._loader: JobLoader | None = None
        self._checker: Checker | None = None
        self._ready = Readiness()
        self._part = AnnouncedPart(part_id_age_s, on_error)
        self.takes_part_ids = False  # whether its triggers come without ids of their own
        self._heartbeat = self._triggers = self._results = self._missed = self._late = 0
        self._trigger_id = self._result_id = 0
        self._unread = False

    # Whom it asks; before the run begins.

    def add_hold(self, full: Callable[[], bool]) -> None:
        """Refuse triggers while `full()` is true: a reader's buffer is full."""
        self._holds.append(full)

    def attach_jobs(self, loader: JobLoader) -> None:
        """Set the loader of recipes; it answers at once, then calls `set_job` or `fail_job`."""
        self._loader = loader

    def attach_check(self, checker: Checker) -> None:
        """Set the checker on request; it calls `begin_check` at once, and later `set_check`."""
        self._checker = checker

    # Triggers.

    def announce(self, part_id: str) -> bool:
        """Announce the id of the next part; return False where triggers carry their own."""
        with self._lock:
            if self.takes_part_ids:
                self._part.announce(part_id_of(part_id), self._clock_ns())
            return self.takes_part_ids

    def trigger(
        self,
        *,
        origin: str,
        part_id: str | None = None,
        request: str = "",
        at_ns: int | None = None,
        acquired: bool = False,
        frames: int = 1,
        needed: int = 1,
        refusal: Refusal | None = None,
    ) -> TriggerEvent:
        """Take a trigger that came `at_ns`; `acquired` when its frames are there already.

        Without a part id it is for the announced part, if there is one. Of several frames, the part
        is not good if `needed` are not. With a refusal the trigger is only answered.
        """
        with self._lock:
            now_ns = self._clock_ns()
            at_ns = now_ns if at_ns is None else at_ns
            self._answer_overdue(now_ns)
            refusal = refusal or age_refusal(at_ns, now_ns=now_ns, limit_ns=self._timeout_ns)
            refusal = refusal or self._refusal(acquired=acquired)
            moment_ns = min(at_ns, now_ns)
            pending = self._add(origin, part_id, moment_ns, request=request, acquired=acquired)
            pending.frames, pending.needed = frames, needed
            event = pending.event
            if refusal is not None:
                self._missed += refusal[0] == ErrorCode.MISSED
                self._end(pending, refusal=refusal)
        self._delivery.flush()
        if refusal is None and not acquired:
            self.events.publish(event)
        return event

    def free(self, inspection: Inspection, *, at_ns: int) -> Refusal | None:
        """Take the inspection of a frame without a trigger; return why it does not count."""
        with self._lock:
            pending = self._add("free", "", at_ns, request="", acquired=True)
            refusal = self._ready.result_refusal(pending.event, inspection, triggered=False)
            self._end(pending, inspection=inspection, refusal=refusal)
        self._delivery.flush()
        return refusal

    def acquire(self, *, grabbed_ns: int) -> TriggerEvent | None:
        """Return the oldest trigger that waits for a frame, if the frame was grabbed after it."""
        event = None
        with self._lock:
            self._answer_overdue(self._clock_ns())
            waiting = [each for each in self._pending.open() if not each.acquired]
            if waiting and waiting[0].taken_ns < grabbed_ns:
                waiting[0].acquired = True
                event = waiting[0].event
        self._delivery.flush()
        return event

    def waits_for(self, trigger_id: int) -> bool:
        """Whether that trigger still has no result."""
        with self._lock:
            return self._pending.find(trigger_id) is not None

    def complete(self, trigger_id: int, inspection: Inspection) -> Refusal | None:
        """Take the inspection of a trigger; return why it does not count, or None."""
        with self._lock:
            self._answer_overdue(self._clock_ns())
            refusal = self._complete(self._pending.find(trigger_id), inspection)
        self._delivery.flush()
        return refusal

    def fail(self, trigger_id: int, error: ErrorCode, reason: str) -> bool:
        """Answer a trigger without an inspection; return False when it was answered already."""
        with self._lock:
            pending = self._pending.find(trigger_id)
            if pending is None:
                return False
            self._end(pending, refusal=(error, reason))
        self._delivery.flush()
        return True

    def fail_acquiring(self, error: ErrorCode, reason: str) -> None:
        """Answer every trigger that still waits for a frame."""
        with self._lock:
            for pending in self._pending.open():
                if not pending.acquired:
                    self._end(pending, refusal=(error, reason))
        self._delivery.flush()

    def tick(self) -> None:
        """Answer overdue triggers; call it from a thread that no inference can block."""
        with self._lock:
            self._answer_overdue(self._clock_ns())
        self._delivery.flush()

    # The run, its camera, its recipe and its check.

    def start(self) -> None:
        """Go online."""
        with self._lock:
            self._ready.offline = None

    def stop(self, error: ErrorCode = ErrorCode.STOPPED, reason: str = "the run ended") -> None:
        """Go offline and answer every open trigger."""
        with self._lock:
            self._ready.offline = (error, reason)
            for pending in self._pending.open():
                self._end(pending, refusal=(error, reason))
        self._delivery.flush()

    def lose_source(self, reason: str) -> None:
        """Note that the camera is gone; frames that are being scored are still answered."""
        with self._lock:
            self._ready.source = (ErrorCode.SOURCE_LOST, reason)
        self.fail_acquiring(ErrorCode.SOURCE_LOST, reason)

    def restore_source(self) -> None:
        """Note that the camera delivers again."""
        with self._lock:
            self._ready.source = None

    def beat(self) -> None:
        """Count a sign of life from the scoring loop."""
        with self._lock:
            self._heartbeat = (self._heartbeat + 1) % 2**16

    def load_job(self, key: int | str) -> bool:
        """Load a recipe by number or name; return False, and inspect nothing, if there is none."""
        self.hold_for_job()
        if self._loader is None:
            accepted = key in (0, "")  # back to the one model there is
            if accepted:
                self.set_job(Job())
        else:
            accepted = self._loader(key)
        if not accepted:
            self.fail_job(f"there is no job {key}")
        return accepted

    def hold_for_job(self) -> None:
        """Refuse triggers until `set_job` or `fail_job`."""
        with self._lock:
            self._ready.job_loading = True

    def set_job(self, job: Job) -> None:
        """Finish loading: triggers are for this recipe from now on."""
        ready = self._ready
        with self._lock:
            ready.job, ready.job_loading, ready.job_error = job, False, None

    def fail_job(self, reason: str) -> None:
        """Inspect nothing until a recipe is loaded: nobody knows which part comes next."""
        with self._lock:
            self._ready.job_loading = False
            self._ready.job_error = (ErrorCode.UNKNOWN_JOB, reason)

    def check_now(self) -> bool:
        """Request the golden check of the recipe in use; return False if it is refused."""
        if self._checker is not None and self._checker():
            return True
        with self._lock:
            self._ready.refuse_check()
        return False

    def begin_check(self) -> None:
        """Note that a check was requested: nothing is good until it has passed."""
        with self._lock:
            self._ready.begin_check()

    def set_check(self, check: Check, reason: str = "") -> None:
        """Set the state of the golden check; nothing is good while it runs or after it failed."""
        with self._lock:
            self._ready.set_check(check, reason)

    # What there is to see.

    @property
    def current_job(self) -> Job:
        """The recipe that triggers are for."""
        with self._lock:
            return self._ready.job

    @property
    def busy(self) -> bool:
        """Whether a trigger still has no result."""
        with self._lock:
            return bool(self._pending.open())

    def acknowledge(self, result_id: int) -> None:
        """Note that somebody has read that result."""
        with self._lock:
            if result_id == self._result_id:
                self._unread = False

    def status(self) -> StationStatus:
        """Return the current status."""
        with self._lock:
            refusal = self._refusal()
            ready, block = self._ready, self._ready.refusal()
            return StationStatus(
                run_id=self.run_id,
                state=self._state(),
                online=ready.offline is None and ready.source is None,
                trigger_ready=refusal is None,
                trigger_id=self._trigger_id,
                result_id=self._result_id,
                error=ErrorCode.NONE if block is None else block[0],
                reason="" if block is None else block[1],
                job=ready.job,
                job_loading=ready.job_loading,
                check=ready.check,
                check_answer=ready.check_answer,
                checks=ready.checks,
                heartbeat=self._heartbeat,
                triggers=self._triggers,
                results=self._results,
                missed=self._missed,
                late=self._late,
            )

    # Inside, with the lock held.

    def _state(self) -> State:
        if self._ready.offline is not None or self._ready.source is not None:
            return State.OFFLINE
        if waiting := self._pending.open():
            return State.INSPECTING if waiting[0].acquired else State.ACQUIRING
        return State.RESULT if self._unread else State.READY

    def _refusal(self, *, acquired: bool = False) -> Refusal | None:
        """Return why a trigger would be refused now, or None."""
        block = self._ready.refusal(acquired=acquired)
        if block is not None:
            return block
        if any(full() for full in self._holds):
            return ErrorCode.BUFFER_FULL, "results wait to be acknowledged"
        open_ones = self._pending.open()
        # Two triggers before the next frame would want the same one: the second came too soon.
        if len(open_ones) >= self._depth or not all(each.acquired for each in open_ones):
            return ErrorCode.MISSED, "the trigger came while trigger ready was off"
        return None

    def _answer_overdue(self, now_ns: int) -> None:
        for pending in self._pending.overdue(now_ns - self._timeout_ns):
            waited = "no verdict" if pending.acquired else "no frame"
            reason = f"{waited} within {self._timeout_ns / 1e9:g} s"
            self._end(pending, refusal=(ErrorCode.TIMEOUT, reason))

    def _complete(self, pending: Pending | None, inspection: Inspection) -> Refusal | None:
        if pending is None or not pending.acquired:
            self._late += 1
            too_late = (ErrorCode.TIMEOUT, "its trigger was answered before the verdict")
            return self._ready.check_refusal() or too_late
        refusal = self._ready.result_refusal(pending.event, inspection, triggered=True)
        agreed = pending.take(inspection)
        if agreed is not None or refusal is not None:
            self._end(pending, inspection=agreed, refusal=refusal)
        return refusal

    def _add(
        self, origin: str, part_id: str | None, at_ns: int, *, request: str, acquired: bool
    ) -> Pending:
        self._triggers += 1
        self._trigger_id = self._trigger_id % MAX_ID + 1
        given_id, note = (part_id, PartNote.NONE) if part_id is not None else self._part.take(at_ns)
        event = TriggerEvent(
            trigger_id=self._trigger_id,
            part_id=part_id_of(given_id),
            part_note=note,
            request=request,
            origin=origin,
            monotonic_ns=at_ns,
            wall_s=time.time(),
            job=self._ready.job,
        )
        return self._pending.add(event, taken_ns=self._clock_ns(), acquired=acquired)

    def _end(
        self, pending: Pending, *, inspection: Inspection | None = None, refusal: Refusal | None
    ) -> None:
        error, reason = refusal or (ErrorCode.NONE, "" if inspection is None else inspection.reason)
        result = StationResult(
            run_id=self.run_id,
            trigger=pending.event,
            inspection=None if refusal is not None else inspection,
            error=error,
            reason=reason,
            wall_s=time.time(),
            latency_ms=max(0, self._clock_ns() - pending.event.monotonic_ns) / 1e6,
        )
        for ended in self._pending.end(pending, result):
            self._results += 1
            self._result_id = ended.trigger.trigger_id
            self._unread = True
            self._delivery.add(ended)
