"""Numbers that leave the program. They are frozen, since PLC programs depend on them."""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType


class VerdictCode(IntEnum):
    """The verdict on a part; only 1 is good, and 1 always comes from an inspection."""

    NONE = 0  # no result yet
    GOOD = 1
    DEFECT = 2
    INVALID = 3  # inspected, and the model or the frame gave no verdict to trust
    UNSURE = 4
    NOT_FOUND = 5  # inspected, and the part is not where it should be
    NO_INSPECTION = 6  # nothing was inspected; the error code says why


class ErrorCode(IntEnum):
    """The reason why a trigger got no inspection."""

    NONE = 0
    TIMEOUT = 1  # no frame, or no verdict, within the time-out, wherever it waited
    SOURCE_LOST = 2
    INCOMPLETE_FRAME = 3  # came damaged, or in a size that cannot be scored
    UNKNOWN_JOB = 4  # a recipe was asked for that there is not, or another one was inspected with
    BUFFER_FULL = 5  # results that nobody has acknowledged fill the buffer
    MISSED = 6  # the trigger came while trigger ready was off
    OFFLINE = 7
    CRASHED = 8
    CHECK_FAILED = 9  # the golden check failed, or runs
    JOB_LOADING = 10
    STOPPED = 11  # the run ended before the verdict
    REQUEST_REUSED = 12  # its request had named another part


class State(IntEnum):
    """The state of the station; trigger ready is separate."""

    OFFLINE = 0
    READY = 1
    ACQUIRING = 2  # a trigger waits for its frame
    INSPECTING = 3  # its frame is being scored
    RESULT = 4  # a result stands that nobody has acknowledged


class Check(IntEnum):
    """The golden check: whether the station is still as it was approved."""

    NONE = 0  # never asked for
    RUNNING = 1
    PASSED = 2
    FAILED = 3


class CheckAnswer(IntEnum):
    """The answer to the last request for a golden check."""

    NONE = 0  # never asked for
    RUNNING = 1
    PASSED = 2
    FAILED = 3
    REFUSED = 4  # nothing to check, or a recipe is being loaded; the station is as before


class PartNote(IntEnum):
    """A note on the part id of a trigger that no adapter made."""

    NONE = 0  # as announced, or nobody announces ids
    MISSING = 1  # none was announced for it
    STALE = 2  # the one announced was too old, and is not taken


Refusal = tuple[ErrorCode, str]  # why there is no inspection; the text is redacted
NO_INSPECTION = "no_inspection"  # the verdict of whatever nothing was allowed to judge
# Errors of a station that has no approved model for what comes, whatever its camera does.
UNAPPROVED = frozenset({ErrorCode.UNKNOWN_JOB, ErrorCode.CHECK_FAILED, ErrorCode.JOB_LOADING})

# Verdicts of edgeseg/decision/judgement.py; a word that is not here is never good.
CODES: Mapping[str, VerdictCode] = MappingProxyType(
    {
        "good": VerdictCode.GOOD,
        "defect": VerdictCode.DEFECT,
        "invalid": VerdictCode.INVALID,
        "unsure": VerdictCode.UNSURE,
        "not_found": VerdictCode.NOT_FOUND,
    }
)


def code_of(verdict: str) -> VerdictCode:
    """Return the number of a verdict."""
    return CODES.get(verdict, VerdictCode.INVALID)
