"""What people said of alarms: kept apart from the good pictures until it may be believed.

feedback/ID.png, ID.json    the picture, what the model said, and every mark with who made it

A mark counts once two people agree or a supervisor made it. Doubt keeps a picture out, and a single
"defect" is enough to guard it: what is not decided is never good.
"""

import hashlib
import json
import shutil
import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from edgeseg.contract.plain import Malformed, parse_json, read_bounded, record
from edgeseg.errors import UsageError
from edgeseg.files import atomic_path, write_text
from edgeseg.teach.alarms import Alarm
from edgeseg.teach.project import check_picture_name, utc_now

MarkWord = Literal["good", "defect", "ignore"]
Who = Literal["operator", "supervisor"]
Said = Literal["good", "defect", "ignore", "contested", "waiting"]
AGREED = 2  # different people
_LONGEST_NAME = 64


@dataclass(frozen=True, kw_only=True)
class Mark:
    """What one person said."""

    mark: MarkWord
    who: Who
    name: str
    when: str

    @property
    def person(self) -> str:
        """By whom two marks are told apart."""
        return " ".join(self.name.casefold().split())


@dataclass(frozen=True, kw_only=True)
class Marked:
    """An alarm and all that was said of it."""

    alarm: Alarm
    marks: tuple[Mark, ...] = ()

    @property
    def said(self) -> Said:
        """What counts: the last word of a supervisor, else what operators agree on."""
        last = {mark.person: mark for mark in self.marks}  # of each, the latest
        bosses = [mark.mark for mark in self.marks if mark.who == "supervisor"]
        if bosses:
            return bosses[-1]
        words = [mark.mark for mark in last.values()]
        if len(set(words)) > 1:
            return "contested"
        return words[0] if len(words) >= AGREED else "waiting"

    @property
    def guarded(self) -> bool:
        """Whether it must stay an alarm: somebody calls it a defect, and no supervisor differs."""
        if any(mark.who == "supervisor" for mark in self.marks):
            return self.said == "defect"
        return any(mark.mark == "defect" for mark in self.marks)


class Feedback:
    """The folder; may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.Lock()

    def mark(self, alarm: Alarm, picture: Path, mark: Mark) -> Marked:
        """Write down what somebody said; the same person's earlier word is replaced by it."""
        with self._lock:
            there = self._read(alarm.id) or Marked(alarm=alarm)
            others = tuple(each for each in there.marks if each.person != mark.person)
            marked = replace(there, marks=(*others, mark))
            copy = self.picture(alarm.id)
            if not copy.is_file():
                with atomic_path(copy) as temporary:
                    shutil.copyfile(picture, temporary)
            text = json.dumps(asdict(marked), indent=2, allow_nan=False)
            write_text(copy.with_suffix(".json"), text + "\n")
        return marked

    def marks_of(self, alarm_id: str) -> tuple[Mark, ...]:
        """All that was said of one alarm."""
        marked = self._read(alarm_id)
        return () if marked is None else marked.marks

    def items(self) -> list[Marked]:
        """All, the oldest first; a file that is damaged is passed over, and so not believed."""
        names = sorted(path.stem for path in self._folder.glob("[0-9]*.json"))
        found = (self._read(name) for name in names)
        return [item for item in found if item is not None]

    def picture(self, alarm_id: str) -> Path:
        """The camera's whole picture of an alarm that was marked."""
        return self._folder / f"{check_picture_name(alarm_id)}.png"

    def forget(self, alarm_id: str) -> None:
        """It was learned or kept elsewhere."""
        with self._lock:
            path = self.picture(alarm_id)
            path.with_suffix(".json").unlink(missing_ok=True)
            path.unlink(missing_ok=True)

    def counts(self) -> dict[str, int]:
        """For `state`."""
        said = [item.said for item in self.items()]
        return {
            "waiting": sum(word in ("waiting", "contested") for word in said),
            "agreed": sum(word in ("good", "defect", "ignore") for word in said),
        }

    def basis(self) -> str:
        """Changes whenever anything was said."""
        told = [asdict(item) for item in self.items()]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def _read(self, alarm_id: str) -> Marked | None:
        path = self.picture(alarm_id).with_suffix(".json")
        try:
            return record(Marked, parse_json(read_bounded(path)))
        except (OSError, Malformed):
            return None


def new_mark(mark: str, *, who: str, name: str) -> Mark:
    """A mark of now, checked."""
    name = name.strip() if isinstance(name, str) else ""
    if mark not in get_args(MarkWord):
        raise UsageError(f"mark={mark!r}: expected good, defect or ignore")
    if who not in get_args(Who):
        raise UsageError(f"who={who!r}: expected operator or supervisor")
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise UsageError(
            f"name={name[:_LONGEST_NAME]!r}: who says so? Expected a name of up to "
            f"{_LONGEST_NAME} letters"
        )
    return Mark(mark=mark, who=who, name=name, when=utc_now())  # type: ignore[arg-type]
