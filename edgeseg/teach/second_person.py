"""A decision that waits for a second supervisor, because it loses many defects.

asked.json    who asked for what, and when; gone when it is decided or when anything has changed
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from edgeseg.base.errors import EdgesegError, UsageError
from edgeseg.base.files import write_json
from edgeseg.base.messages import Message, Words
from edgeseg.base.plain import Malformed, parse_json, read_bounded, record
from edgeseg.base.utc import utc_time
from edgeseg.teach.feedback import check_name_of_person, person
from edgeseg.teach.project import Project

_FILE = "asked.json"


class SecondNeededError(EdgesegError):
    """Raised when one person alone must not decide."""


@dataclass(frozen=True, kw_only=True)
class Consent:
    """Who asks for a decision, and who confirms it."""

    name: str = ""  # of who asks; empty: a shell, which nobody can confirm
    second: str = ""  # of who confirms
    forced: bool = False  # by a shell

    @property
    def enough(self) -> bool:
        """Whether it suffices for a decision that one person alone must not take."""
        return self.forced or bool(self.second)


@dataclass(frozen=True, kw_only=True)
class PendingDecision:
    """A decision that waits for a second person."""

    what: Literal["learn", "choose"]
    of: str  # version, marks or rate: it holds for nothing else
    name: str
    when: str
    sentence: Words
    per_thousand: float | None = None


def request_second(
    project: Project,
    what: Literal["learn", "choose"],
    *,
    of: str,
    name: str,
    sentence: Message,
    per_thousand: float | None = None,
) -> SecondNeededError:
    """Store who asks, if there is a name; return the error that refuses the decision."""
    if name:
        name = check_name_of_person(name)
        asked = PendingDecision(
            what=what,
            of=of,
            name=name,
            when=utc_time(),
            sentence=sentence,
            per_thousand=per_thousand,
        )
        write_json(project.folder / _FILE, {**asdict(asked), "sentence": sentence.to_json()})
        project.log(f"{what}_asked", who="supervisor", name=name, why=sentence)
    return SecondNeededError(sentence)


def pending_decision(project: Project) -> PendingDecision | None:
    """Read the decision that waits; None if there is none."""
    try:
        return record(PendingDecision, parse_json(read_bounded(project.folder / _FILE)))
    except (OSError, Malformed):
        return None


def pending_facts(project: Project) -> dict[str, Any] | None:
    """Read the decision that waits, as `state` shows it."""
    asked = pending_decision(project)
    return None if asked is None else dict(vars(asked))


def clear_pending(project: Project) -> None:
    """Delete the decision that waits: it was taken, or no longer holds."""
    (project.folder / _FILE).unlink(missing_ok=True)


def confirm_pending(project: Project, *, name: str) -> tuple[PendingDecision, Consent]:
    """Return the decision that waits and the consent of two people; refuse one who asks twice."""
    asked, name = pending_decision(project), check_name_of_person(name)
    if asked is None:
        raise UsageError(Message("confirm_nothing"))
    if person(asked.name) == person(name):
        raise UsageError(Message("confirm_same", name=name))
    return asked, Consent(name=asked.name, second=name)
