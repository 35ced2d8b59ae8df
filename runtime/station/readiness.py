"""Why nothing may be inspected now: the run, its recipe, its golden check, its camera."""

from edgeseg.runtime.events.codes import Check, CheckAnswer, ErrorCode, Refusal
from edgeseg.runtime.station.records import Inspection, Job, TriggerEvent


class Readiness:
    """What the station has been told; whoever asks or tells holds the station's lock."""

    def __init__(self) -> None:
        self.offline: Refusal | None = (ErrorCode.OFFLINE, "not started")
        self.source: Refusal | None = None
        self.job, self.job_loading = Job(), False
        self.job_error: Refusal | None = None
        self.check, self.check_reason = Check.NONE, ""
        self.check_answer, self.checks = CheckAnswer.NONE, 0  # to requests, and how many got one

    def begin_check(self) -> None:
        """A check was asked for."""
        if self.check != Check.RUNNING:
            self.check, self.check_reason = Check.RUNNING, ""
        self.check_answer = CheckAnswer.RUNNING

    def set_check(self, check: Check, reason: str) -> None:
        """Where the check stands."""
        self.check, self.check_reason = check, reason
        if self.check_answer == CheckAnswer.RUNNING and check in (Check.PASSED, Check.FAILED):
            self.check_answer, self.checks = CheckAnswer(int(check)), self.checks + 1

    def refuse_check(self) -> None:
        """Nothing can be checked now."""
        self.check_answer, self.checks = CheckAnswer.REFUSED, self.checks + 1

    def block(self, *, acquired: bool = False) -> Refusal | None:
        """Why the station cannot inspect at all; a frame that is there needs no camera."""
        return self.offline or self.unapproved() or (None if acquired else self.source)

    def unapproved(self) -> Refusal | None:
        """Why no approved model could judge what comes now."""
        if self.job_loading:
            return ErrorCode.JOB_LOADING, "a recipe is being loaded"
        return self.unproven() or self.job_error

    def unproven(self) -> Refusal | None:
        """Why the model that runs may call nothing good."""
        if self.check == Check.RUNNING:
            return ErrorCode.CHECK_FAILED, self.check_reason or "the golden check runs"
        if self.check == Check.FAILED:
            return ErrorCode.CHECK_FAILED, self.check_reason or "the golden check failed"
        return None

    def distrust(
        self, event: TriggerEvent, inspection: Inspection, *, triggered: bool
    ) -> Refusal | None:
        """Why an inspection does not count for this trigger: asked once, when its result is made.

        A trigger under way is still answered by the recipe that it was for; a frame that nobody
        triggered is for whatever comes next.
        """
        block = self.unproven() if triggered else self.unapproved()
        if block is None and inspection.job is not None and inspection.job != event.job:
            name = inspection.job.name or inspection.job.number
            return ErrorCode.UNKNOWN_JOB, f"inspected as job {name}, triggered for another"
        return block
