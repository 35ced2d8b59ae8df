"""Decide why nothing may be inspected now: the run, its recipe, its golden check, its camera."""

from edgeseg.runtime.events.codes import Check, CheckAnswer, ErrorCode, Refusal
from edgeseg.runtime.station.records import Inspection, Job, TriggerEvent


class Readiness:
    """The facts that decide whether the station inspects; the caller holds its lock."""

    def __init__(self) -> None:
        self.offline: Refusal | None = (ErrorCode.OFFLINE, "not started")
        self.source: Refusal | None = None
        self.job, self.job_loading = Job(), False
        self.job_error: Refusal | None = None
        self.check, self.check_reason = Check.NONE, ""
        self.check_answer, self.checks = CheckAnswer.NONE, 0  # to requests, and how many got one

    def begin_check(self) -> None:
        """Note that a check was requested."""
        if self.check != Check.RUNNING:
            self.check, self.check_reason = Check.RUNNING, ""
        self.check_answer = CheckAnswer.RUNNING

    def set_check(self, check: Check, reason: str) -> None:
        """Set the state of the check."""
        self.check, self.check_reason = check, reason
        if self.check_answer == CheckAnswer.RUNNING and check in (Check.PASSED, Check.FAILED):
            self.check_answer, self.checks = CheckAnswer(int(check)), self.checks + 1

    def refuse_check(self) -> None:
        """Note that a requested check was refused."""
        self.check_answer, self.checks = CheckAnswer.REFUSED, self.checks + 1

    def refusal(self, *, acquired: bool = False) -> Refusal | None:
        """Return why the station cannot inspect at all; with `acquired`, it needs no camera."""
        return self.offline or self.approval_refusal() or (None if acquired else self.source)

    def approval_refusal(self) -> Refusal | None:
        """Return why no approved model could judge the next part."""
        if self.job_loading:
            return ErrorCode.JOB_LOADING, "a recipe is being loaded"
        return self.check_refusal() or self.job_error

    def check_refusal(self) -> Refusal | None:
        """Return why the model that runs may call nothing good."""
        if self.check == Check.RUNNING:
            return ErrorCode.CHECK_FAILED, self.check_reason or "the golden check runs"
        if self.check == Check.FAILED:
            return ErrorCode.CHECK_FAILED, self.check_reason or "the golden check failed"
        return None

    def result_refusal(
        self, event: TriggerEvent, inspection: Inspection, *, triggered: bool
    ) -> Refusal | None:
        """Return why an inspection does not count for this trigger; asked once per result.

        A trigger that waits is still answered by its own recipe; a frame without a trigger is for
        whatever comes next.
        """
        block = self.check_refusal() if triggered else self.approval_refusal()
        if block is None and inspection.job is not None and inspection.job != event.job:
            name = inspection.job.name or inspection.job.number
            return ErrorCode.UNKNOWN_JOB, f"inspected as job {name}, triggered for another"
        return block
