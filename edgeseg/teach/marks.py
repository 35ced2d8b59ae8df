"""Alarms and what people say of them: shown, marked, and taken back.

A mark outlives its alarm: the newest alarms are kept, marks until they are learned or withdrawn.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message
from edgeseg.teach.alarms import KEPT, Alarm, Alarms
from edgeseg.teach.feedback import Author, Feedback, Mark, MarkedAlarm, Who, new_mark
from edgeseg.teach.project import Project

Facts = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class SeenCard:
    """The card on which a finger came down: the alarm and the part that stood there."""

    id: str
    part: str


class Marks:
    """Alarms with their marks; may be called from any thread."""

    def __init__(self, project: Project, *, alarms: Alarms, feedback: Feedback) -> None:
        self._project, self._alarms, self._feedback = project, alarms, feedback

    def alarms(self, after: str, *, most: int = KEPT) -> list[Facts]:
        """List the alarms that are kept, the newest first."""
        return self._add_marks(self._alarms.after(after, most=most))

    def ids(self) -> list[str]:
        """List the ids of the alarms that are kept, the oldest first."""
        return self._alarms.ids()

    def those(self, ids: Sequence[str]) -> list[Facts]:
        """Tell of some alarms, in this order, without those that are gone."""
        return self._add_marks(self._alarms.those(ids))

    def waiting(self) -> list[Facts]:
        """List what is marked and not learned, the newest first, with the mark that counts."""
        items = self._feedback.items()[::-1]
        return [
            *({**_facts(item.alarm, item.marks), "said": item.said} for item in items),
            *(
                {"id": name, "said": "damaged", "marks": []}
                for name in self._feedback.damaged_ids()
            ),
        ]

    def picture(self, alarm_id: str) -> Path:
        """Path of the camera's whole picture of an alarm that is kept or marked."""
        copy = self._feedback.picture(alarm_id)
        return copy if copy.is_file() else self._alarms.path(alarm_id)

    def mark(
        self, alarm_id: str, word: str, *, who: str, name: str, card: SeenCard | None = None
    ) -> Facts:
        """Mark an alarm; it waits in feedback/. Refuse what is not on the card that was pressed."""
        mark = new_mark(word, who=who, name=name)
        there = self._feedback.find(alarm_id)
        alarm = self._alarms.find(alarm_id) if there is None else there.alarm
        if card is not None and card != SeenCard(id=alarm.id, part=alarm.part):
            raise UsageError(Message("mark_other_card", name=alarm_id))
        marked = self._feedback.mark(alarm, self.picture(alarm_id), mark)
        self._project.log("mark", alarm=alarm_id, mark=word, who=who, name=mark.name)
        return _facts(alarm, marked.marks)

    def withdraw(self, alarm_id: str, *, by: Author, of: Author | None) -> Facts:
        """Take back an author's mark, or all marks; return those left.

        A supervisor may take back any mark, others their own.
        """
        if by.who != "supervisor" and (of is None or of.key != by.key):
            raise UsageError(Message("mark_others"))
        gone = self._feedback.withdraw(alarm_id, of)
        self._project.log(
            "withdraw",
            alarm=alarm_id,
            who=by.who,
            name=by.name,
            of=[f"{mark.name} ({mark.who}): {mark.mark}" for mark in gone],
        )
        left = self._feedback.find(alarm_id)
        return {"alarm": alarm_id, "marks": [] if left is None else _marks(left)}

    def _add_marks(self, alarms: list[Alarm]) -> list[Facts]:
        marked = {item.alarm.id: item.marks for item in self._feedback.items()}
        return [_facts(alarm, marked.get(alarm.id, ())) for alarm in alarms]


def _facts(alarm: Alarm, marks: tuple[Mark, ...]) -> Facts:
    box = None if alarm.box is None else list(alarm.box)
    address = f"/teach/alarms/{alarm.id}"
    facts = {name: value for name, value in asdict(alarm).items() if name not in ("kind", "why")}
    return {
        **facts,
        "told": alarm.explanation,
        "box": box,
        "picture": f"{address}?width=640",
        "large": address,
        "marks": _marks(MarkedAlarm(alarm=alarm, marks=marks)),
    }


def _marks(item: MarkedAlarm) -> list[Facts]:
    """List the marks with whether each counts: a supervisor's overrides those of operators."""
    role: Who = "supervisor" if item.decided_above else "operator"
    return [{**asdict(mark), "counts": mark.who == role} for mark in item.marks]
