"""The marks of people on alarms, kept apart from the good pictures until they are agreed.

feedback/ID.png, ID.json    the picture, what the model said, and every mark with who made it

A mark is of a role and a name together: whoever types a supervisor's name is not the supervisor.
It counts once two operators agree or a supervisor made it, and no operator's word stands against a
supervisor's. Doubt keeps a picture out, and a single "defect" is enough to guard it: what is not
decided is never good.
"""

import hashlib
import json
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from edgeseg.base.errors import UsageError
from edgeseg.base.files import copy_file, lock_folder, write_text
from edgeseg.base.messages import Message
from edgeseg.base.plain import Malformed, parse_json, read_bounded, record
from edgeseg.base.utc import utc_time
from edgeseg.teach.alarms import Alarm
from edgeseg.teach.folder_list import FolderList
from edgeseg.teach.project import check_picture_name

MarkWord = Literal["good", "defect", "ignore"]
Who = Literal["operator", "supervisor"]
Said = Literal["good", "defect", "ignore", "contested", "waiting"]
AGREED = 2  # different people
_LONGEST_NAME = 64


@dataclass(frozen=True, kw_only=True)
class Author:
    """The author of a mark: the role comes from the token of a request, the name is typed."""

    who: Who
    name: str

    @property
    def key(self) -> tuple[Who, str]:
        """Key that identifies an author."""
        return self.who, person(self.name)


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The mark of one person."""

    mark: MarkWord
    who: Who
    name: str
    when: str

    @property
    def author(self) -> Author:
        """Author of the mark."""
        return Author(who=self.who, name=self.name)


@dataclass(frozen=True, kw_only=True)
class MarkedAlarm:
    """An alarm and all its marks."""

    alarm: Alarm
    marks: tuple[Mark, ...] = ()

    @property
    def said(self) -> Said:
        """The mark that counts: that of the supervisors, else one of two operators or more."""
        words = {mark.mark for mark in self._counting}
        if len(words) > 1:
            return "contested"
        enough = self.decided_above or len(self._counting) >= AGREED
        return words.pop() if enough and words else "waiting"

    @property
    def guarded(self) -> bool:
        """Whether it must stay an alarm: one of those who count calls it a defect."""
        return any(mark.mark == "defect" for mark in self._counting)

    @property
    def decided_above(self) -> bool:
        """Whether a supervisor has marked it."""
        return any(mark.who == "supervisor" for mark in self.marks)

    @property
    def _counting(self) -> list[Mark]:
        """Latest mark of each supervisor, or of each operator where no supervisor has marked."""
        role: Who = "supervisor" if self.decided_above else "operator"
        last = {mark.author.key: mark for mark in self.marks if mark.who == role}
        return list(last.values())


class Feedback:
    """The folder of marked alarms; may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._list = FolderList(folder, is_ours=_is_marked)
        self._items: tuple[str, list[MarkedAlarm]] | None = None  # of a revision of the list

    def mark(self, alarm: Alarm, picture: Path, mark: Mark) -> MarkedAlarm:
        """Store a mark; it replaces the author's earlier one."""
        with self._changing():
            there = self._read(alarm.id) or MarkedAlarm(alarm=alarm)
            marked = replace(there, marks=(*_without(there.marks, mark.author), mark))
            copy = self.picture(alarm.id)
            if not copy.is_file() and picture.is_file():
                copy_file(picture, copy)
            self._write(marked)
        return marked

    def withdraw(self, alarm_id: str, author: Author | None = None) -> tuple[Mark, ...]:
        """Take back an author's mark, or all marks; return those that were taken back.

        An alarm without marks leaves the folder.
        """
        with self._changing():
            there = self._read(alarm_id)
            marks = () if there is None else there.marks
            left = () if author is None else _without(marks, author)
            # Of a file that is damaged nobody is known: all of it can be taken back, no more.
            known = marks != left if there is not None else author is None
            if not known or not self.picture(alarm_id).with_suffix(".json").is_file():
                raise UsageError(Message("mark_unknown", name=alarm_id))
            if there is not None and left:
                self._write(replace(there, marks=left))
            else:
                self._remove(alarm_id)
        return tuple(mark for mark in marks if mark not in left)

    def find(self, alarm_id: str) -> MarkedAlarm | None:
        """Read a marked alarm; None if nobody has marked it."""
        return next((item for item in self.items() if item.alarm.id == alarm_id), None)

    def items(self) -> list[MarkedAlarm]:
        """List all marked alarms, the oldest first; damaged files are left out."""
        listed = self._list.listing()
        if self._items is None or self._items[0] != listed.revision:
            names = sorted(entry.name for entry in listed.entries)
            found = (self._read(name.removesuffix(".json")) for name in names)
            self._items = listed.revision, [item for item in found if item is not None]
        return list(self._items[1])

    def damaged_ids(self) -> list[str]:
        """List the alarms whose marks cannot be read; they can be taken back, no more."""
        known = {item.alarm.id for item in self.items()}
        names = (entry.name.removesuffix(".json") for entry in self._list.listing().entries)
        return [name for name in names if name not in known]

    def picture(self, alarm_id: str) -> Path:
        """Path of the camera's whole picture of a marked alarm."""
        return self._folder / f"{check_picture_name(alarm_id)}.png"

    def forget(self, alarm_id: str) -> None:
        """Remove an alarm that was learned or kept elsewhere."""
        with self._changing():
            self._remove(alarm_id)

    def counts(self) -> dict[str, int]:
        """Count marked alarms that wait or are agreed, for `state`."""
        said = [item.said for item in self.items()]
        return {
            "waiting": sum(word in ("waiting", "contested") for word in said),
            "agreed": sum(word in ("good", "defect", "ignore") for word in said),
        }

    def basis(self) -> str:
        """Hash that changes with every mark."""
        told = [asdict(item) for item in self.items()]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Lock the folder for one thread and one process: a shell and the page may both write."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._lock, lock_folder(self._folder):
            yield
            self._items = None

    def _read(self, alarm_id: str) -> MarkedAlarm | None:
        path = self.picture(alarm_id).with_suffix(".json")
        try:
            marked = record(MarkedAlarm, parse_json(read_bounded(path)))
        except (OSError, Malformed):
            return None
        return marked if marked.alarm.id == alarm_id else None  # or it speaks for another alarm

    def _write(self, marked: MarkedAlarm) -> None:
        text = json.dumps(asdict(marked), indent=2, allow_nan=False)
        write_text(self.picture(marked.alarm.id).with_suffix(".json"), text + "\n")

    def _remove(self, alarm_id: str) -> None:
        path = self.picture(alarm_id)
        path.with_suffix(".json").unlink(missing_ok=True)
        path.unlink(missing_ok=True)


def new_mark(mark: str, *, who: str, name: str) -> Mark:
    """Make a mark with the time of now; refuse a wrong word, role or name."""
    if mark not in get_args(MarkWord):
        raise UsageError(f"mark={mark!r}: expected good, defect or ignore")
    if who not in get_args(Who):
        raise UsageError(f"who={who!r}: expected operator or supervisor")
    name = check_name_of_person(name)
    return Mark(mark=mark, who=who, name=name, when=utc_time())  # type: ignore[arg-type]


def check_name_of_person(name: str) -> str:
    """Check a typed name, and strip the spaces around it."""
    name = name.strip() if isinstance(name, str) else ""
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        shown = repr(name[:_LONGEST_NAME])
        raise UsageError(Message("mark_who", name=shown, n=_LONGEST_NAME))
    return name


def person(name: str) -> str:
    """Normalise a name: case, spaces, and letters that only look different."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _is_marked(name: str) -> bool:
    return name[:1].isdigit() and name.endswith(".json")


def _without(marks: tuple[Mark, ...], author: Author) -> tuple[Mark, ...]:
    return tuple(mark for mark in marks if mark.author.key != author.key)
