"""Records that the station takes and returns: frozen values, safe to keep and to share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.plain import finite
from edgeseg.decision.doubt import Doubt
from edgeseg.decision.judgement import JudgedPart, parts_facts
from edgeseg.decision.prediction import Region
from edgeseg.runtime.events.codes import (
    NO_INSPECTION,
    UNAPPROVED,
    Check,
    CheckAnswer,
    ErrorCode,
    PartNote,
    State,
    VerdictCode,
    code_of,
)
from edgeseg.vision.geometry import Pose

MAX_ID = 2**32 - 1  # two registers
MAX_PART_ID = 32  # characters: sixteen registers

# What judged a part, of a result that nothing judged.
NO_TRACE: Mapping[str, object] = MappingProxyType(
    dict.fromkeys(("recipe", "model_sha256", "precision", "backend", "operating_point"))
)


def explanation_of(region: Region | None) -> dict[str, object]:
    """Return kind and reason of a region; nothing where the model does not tell them."""
    return {} if region is None else region.explanation_facts()


def variant_facts(variant: str | None) -> dict[str, object]:
    """Return the variant under its key; nothing of a model of one product."""
    return {} if variant is None else {"variant": variant}


def part_id_of(text: str) -> str:
    """Reduce a serial number to what every adapter can carry: MAX_PART_ID printable ASCII."""
    kept = "".join(letter for letter in text if letter.isascii() and letter.isprintable())
    return kept.strip()[:MAX_PART_ID]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A recipe by number and name, as PLCs and people know it; number 0 is the given model."""

    number: int = 0
    name: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.number < 2**16:
            raise RuntimeFailure(f"job {self.name!r}: number {self.number}, expected 0 to 65535")


def job_key(text: str) -> int | str:
    """Parse the job in a message: up to nine digits are a number, all else is a name."""
    return int(text) if text.isdecimal() and len(text) < 10 else text


@dataclass(frozen=True, kw_only=True)
class TriggerEvent:
    """One trigger; its id connects it with its result."""

    trigger_id: int  # acquisition id: 1, 2, 3 ... of this run
    part_id: str = ""
    part_note: PartNote = PartNote.NONE
    request: str = ""  # what its sender calls it
    origin: str  # who triggered: an adapter, "hardware", "part" or "free"
    monotonic_ns: int  # when it came here, or was sent where its sender says so
    wall_s: float
    job: Job


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """The result of scoring a trigger's frame."""

    verdict: str  # a word of edgeseg/decision/judgement.py
    score: float
    threshold: float
    region_count: int = 0
    box_xywh: tuple[int, int, int, int] | None = None  # of the largest region, in captured pixels
    source_index: int = 0
    frame_index: int
    doubt: Doubt | None = None  # why the frame gave no verdict to trust
    job: Job | None = None  # inspected with; None: whatever the trigger was for
    frames: int = 1  # that were scored for it
    trace: Mapping[str, object] | None = None  # what judged it, for the log
    pose: Pose | None = None  # where the part lies, if it is looked for
    variant: str | None = None  # of the product; None: the model has one product
    strongest: Region | None = None  # whose kind and reason stand for the part
    parts: tuple[JudgedPart, ...] = ()  # of a picture of several, from top to bottom

    @property
    def kind_number(self) -> int:
        """The number of the kind, from 1; 0: unknown, or the model knows none."""
        kind = None if self.strongest is None else self.strongest.kind
        return 0 if kind is None else kind.number

    @property
    def reason(self) -> str:
        """The reason why there is no valid verdict, in words."""
        return "" if self.doubt is None else str(self.doubt)


def vote(seen: Sequence[Inspection], *, needed: int) -> Inspection:
    """Combine several frames of a part: the worst, or a good one if fewer than `needed` are bad."""
    bad = [each for each in seen if code_of(each.verdict) != VerdictCode.GOOD]
    chosen = bad if len(bad) >= needed else [each for each in seen if each not in bad]
    # A score that is no number is worse than any.
    worst = max(chosen, key=lambda each: each.score if each.score == each.score else float("inf"))
    return replace(worst, frames=len(seen))


@dataclass(frozen=True, kw_only=True)
class StationResult:
    """The answer to one trigger: an inspection, or the reason why there is none."""

    run_id: str = ""  # of the station; its ids are of this run
    trigger: TriggerEvent
    inspection: Inspection | None = None
    error: ErrorCode = ErrorCode.NONE
    reason: str = ""  # why there is no inspection, or none to trust; redacted
    wall_s: float
    latency_ms: float  # from the trigger to this result

    def __post_init__(self) -> None:
        if (self.inspection is None) == (self.error == ErrorCode.NONE):
            raise RuntimeFailure(
                f"result of trigger {self.trigger.trigger_id}: expected an inspection or an error, "
                "one of them"
            )

    @property
    def code(self) -> VerdictCode:
        """The verdict as a number; without an inspection never good."""
        if self.inspection is None:
            return VerdictCode.NO_INSPECTION
        return code_of(self.inspection.verdict)

    @property
    def verdict(self) -> str:
        """The verdict as a word."""
        return NO_INSPECTION if self.inspection is None else self.inspection.verdict

    def facts(self) -> dict[str, object]:
        """Return plain values, the same for messages, events and programs."""
        trigger, seen = self.trigger, self.inspection
        return {
            "run_id": self.run_id,
            "request": trigger.request,
            "trigger_id": trigger.trigger_id,
            "part_id": trigger.part_id,
            "part_note": trigger.part_note.name.lower(),
            "origin": trigger.origin,
            "job": trigger.job.number,
            "job_name": trigger.job.name,
            "verdict": self.verdict,
            "code": int(self.code),
            "error": self.error.name.lower(),
            "error_code": int(self.error),
            "reason": self.reason,
            "doubt": None if seen is None or seen.doubt is None else seen.doubt.kind.value,
            "score": finite(None if seen is None else seen.score),
            "threshold": finite(None if seen is None else seen.threshold),
            "region_count": 0 if seen is None else seen.region_count,
            "box": None if seen is None or seen.box_xywh is None else list(seen.box_xywh),
            "pose": None if seen is None or seen.pose is None else seen.pose.facts(),
            "source_index": None if seen is None else seen.source_index,
            "frame": None if seen is None else seen.frame_index,
            "frames": 0 if seen is None else seen.frames,
            "wall_s": round(self.wall_s, 6),
            "latency_ms": round(self.latency_ms, 3),
            **parts_facts(() if seen is None else seen.parts),
            **variant_facts(None if seen is None else seen.variant),
            **(
                {} if seen is None or seen.strongest is None else seen.strongest.explanation_facts()
            ),
            **((None if seen is None else seen.trace) or NO_TRACE),
        }


@dataclass(frozen=True, kw_only=True)
class StationStatus:
    """The status of the station at one moment, in the terms of a PLC."""

    run_id: str  # changes with every start, so that no old result is taken for a new one
    state: State
    online: bool
    trigger_ready: bool
    trigger_id: int  # of the last trigger; 0 before the first
    result_id: int  # of the last result; 0 before the first
    error: ErrorCode  # NONE: the station can inspect
    reason: str
    job: Job
    job_loading: bool
    check: Check
    check_answer: CheckAnswer  # to the last request for a check
    checks: int  # requests that have been answered
    heartbeat: int
    triggers: int
    results: int
    missed: int  # triggers that came while trigger ready was off
    late: int  # inspections that came after their trigger was answered

    @property
    def unapproved(self) -> bool:
        """Whether no approved model could judge the next part: nothing may be shown as good."""
        return self.error in UNAPPROVED

    def facts(self) -> dict[str, object]:
        """Return plain values, for messages."""
        return {
            "run_id": self.run_id,
            "state": self.state.name.lower(),
            "online": self.online,
            "trigger_ready": self.trigger_ready,
            "trigger_id": self.trigger_id,
            "result_id": self.result_id,
            "error": self.error.name.lower(),
            "error_code": int(self.error),
            "reason": self.reason,
            "job": self.job.number,
            "job_name": self.job.name,
            "job_loading": self.job_loading,
            "check": self.check.name.lower(),
            "check_answer": self.check_answer.name.lower(),
            "checks": self.checks,
            "triggers": self.triggers,
            "results": self.results,
            "missed": self.missed,
        }
