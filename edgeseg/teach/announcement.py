"""A change of what runs, announced before it is made: killed anywhere, it is ended or undone.

announced.json    the line that the history will have, and where marked pictures go

The rename of the recipe's model decides. Before it nothing has changed, and the announcement goes;
after it, whoever opens the project next does what is left, and every step may be done twice.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgeseg.contract.plain import Malformed, parse_json, read_bounded, record
from edgeseg.files import write_json
from edgeseg.teach.project import Kind

_FILE = "announced.json"


@dataclass(frozen=True, kw_only=True)
class Move:
    """A marked picture that becomes one of the project's."""

    alarm: str
    kind: Kind
    name: str


@dataclass(frozen=True, kw_only=True)
class Announcement:
    """What follows once a model runs."""

    model: str  # its full name
    line: dict[str, Any]  # of the history
    moves: tuple[Move, ...] = ()
    done_with: tuple[str, ...] = ()  # alarms whose place is ignored


def announce(folder: Path, announcement: Announcement) -> None:
    """Lay it ready in the project's folder."""
    write_json(folder / _FILE, asdict(announcement))


def announced(folder: Path) -> Announcement | None:
    """What was announced and has not come to its end."""
    try:
        return record(Announcement, parse_json(read_bounded(folder / _FILE)))
    except (OSError, Malformed):
        return None


def withdraw(folder: Path) -> None:
    """All is done, or nothing will be."""
    (folder / _FILE).unlink(missing_ok=True)
