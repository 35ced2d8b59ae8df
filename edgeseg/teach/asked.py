"""What one supervisor has asked for and another has to confirm, because it loses many defects.

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
    """One person alone must not decide this."""


@dataclass(frozen=True, kw_only=True)
class Word:
    """On whose word something is done."""

    name: str = ""  # of who asks; empty: a shell, which nobody can confirm
    second: str = ""  # of who confirms
    forced: bool = False  # by a shell

    @property
    def enough(self) -> bool:
        """Whether it holds for what one person alone must not decide."""
        return self.forced or bool(self.second)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What waits for a second person."""

    what: Literal["learn", "choose"]
    of: str  # version, marks or rate: it holds for nothing else
    name: str
    when: str
    sentence: Words
    per_thousand: float | None = None


def ask(
    project: Project,
    what: Literal["learn", "choose"],
    *,
    of: str,
    name: str,
    sentence: Message,
    per_thousand: float | None = None,
) -> SecondNeededError:
    """Write down who asks, if it is somebody; the refusal that says so."""
    if name:
        name = check_name_of_person(name)
        asked = Asked(
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


def asked_for(project: Project) -> Asked | None:
    """What waits."""
    try:
        return record(Asked, parse_json(read_bounded(project.folder / _FILE)))
    except (OSError, Malformed):
        return None


def asked_facts(project: Project) -> dict[str, Any] | None:
    """For `state`."""
    asked = asked_for(project)
    return None if asked is None else dict(vars(asked))


def settle_asked(project: Project) -> None:
    """It was decided, or what it was about has changed."""
    (project.folder / _FILE).unlink(missing_ok=True)


def confirmed(project: Project, *, name: str) -> tuple[Asked, Word]:
    """What somebody asked for, with the word of both; refused if they are one person."""
    asked, name = asked_for(project), check_name_of_person(name)
    if asked is None:
        raise UsageError(Message("confirm_nothing"))
    if person(asked.name) == person(name):
        raise UsageError(Message("confirm_same", name=name))
    return asked, Word(name=asked.name, second=name)
