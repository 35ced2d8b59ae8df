"""Missed defects that people marked on parts that had passed; they wait until they are learned.

missed.marked/KIND/ID.png     all that the camera saw
missed.marked/KIND/ID.json    where the defect is, as labelme writes outlines, and who says so

It is a folder as `edgeseg learn --missed` takes it.
"""

import math
import re
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgeseg.base.errors import UsageError
from edgeseg.base.files import atomic_path, lock_folder, write_json
from edgeseg.base.messages import Message
from edgeseg.base.plain import Malformed, parse_object, read_bounded, record
from edgeseg.base.utc import utc_time
from edgeseg.data.known_defects import NO_KINDS
from edgeseg.data.samples import Sample
from edgeseg.teach.feedback import Author, Who, check_name_of_person
from edgeseg.teach.last_parts import LastParts, PassedPart
from edgeseg.teach.marks import SeenCard
from edgeseg.teach.missed import (
    files_of,
    learned_defects,
    marked_defects,
    marked_folder,
    missed_folder,
)
from edgeseg.teach.project import Project
from edgeseg.vision.geometry import Polygon

Facts = dict[str, Any]
MOST_OUTLINES = 32
_KIND = re.compile(r"\w[\w -]{0,39}")


@dataclass(frozen=True, kw_only=True)
class MissedMark:
    """Who says that a part has a defect, and what the model said of it."""

    id: str
    part: str
    who: Who
    name: str
    when: str
    verdict: str
    score: float | None

    @property
    def author(self) -> Author:
        """Author of the mark."""
        return Author(who=self.who, name=self.name)


class MissedMarks:
    """The folder of missed defects that wait; may be called from any thread."""

    def __init__(self, project: Project, *, parts: LastParts) -> None:
        self._project, self._parts = project, parts
        self._folder, self._lock = marked_folder(project), threading.Lock()

    def waiting(self) -> list[Facts]:
        """List those that wait; of one whose file cannot be read only id and kind are known."""
        return [_facts(sample) for sample in marked_defects(self._project)]

    def count(self) -> int:
        """Count those that wait, for `state`."""
        return len(marked_defects(self._project))

    def kinds(self) -> list[str]:
        """List the kinds that people have named."""
        known = (*marked_defects(self._project), *learned_defects(self._project))
        return sorted({str(sample.kind) for sample in known})

    def picture(self, part_id: str) -> Path:
        """Path of the picture of one that waits."""
        return self._find(part_id).image

    def mark(
        self, card: SeenCard, outlines: Sequence[Polygon], *, kind: str, who: Who, name: str
    ) -> Facts:
        """Store a missed defect of a part; refuse what is not on the card that was pressed."""
        name, kind = check_name_of_person(name), check_kind(kind)
        part = self._parts.find(card.id)
        if part.part != card.part:
            raise UsageError(Message("missed_other_card", name=card.id))
        shapes = [_shape(kind, outline) for outline in check_outlines(outlines, part)]
        mark = MissedMark(
            id=part.id,
            part=part.part,
            who=who,
            name=name,
            when=utc_time(),
            verdict=part.verdict,
            score=part.score,
        )
        with self._changing():
            self._check_new(part.id)
            target = self._folder / kind / f"{part.id}.png"
            target.parent.mkdir(exist_ok=True)
            size = {"imageWidth": part.width, "imageHeight": part.height}
            facts = {"imagePath": target.name, **size, "shapes": shapes, "mark": asdict(mark)}
            write_json(target.with_suffix(".json"), facts)
            with atomic_path(target) as temporary:  # last: now it waits
                temporary.write_bytes(part.png)
        self._project.log("missed", part=part.id, kind=kind, who=who, name=name)
        return _facts(self._find(part.id))

    def withdraw(self, part_id: str, *, by: Author) -> Facts:
        """Take one back: a supervisor anything, others their own; returns it."""
        with self._changing():
            sample = self._find(part_id)
            mark = _read(sample)
            if by.who != "supervisor" and (mark is None or mark.author.key != by.key):
                raise UsageError(Message("mark_others"))
            facts = _facts(sample)
            for path in files_of(sample.image):  # the picture first: without it nothing waits
                path.unlink()
            with suppress(OSError):  # others of its kind wait
                sample.image.parent.rmdir()
        who = {"who": by.who, "name": by.name}
        self._project.log("missed_withdraw", part=part_id, kind=facts["kind"], **who)
        return facts

    def _find(self, part_id: str) -> Sample:
        for sample in marked_defects(self._project):
            if sample.image.stem == part_id:
                return sample
        raise UsageError(Message("missed_unknown", name=part_id))

    def _check_new(self, part_id: str) -> None:
        """Refuse a part that is marked or learned already."""
        for sample in marked_defects(self._project):
            if sample.image.stem == part_id:
                mark = _read(sample)
                raise UsageError(
                    Message("missed_there", name=part_id, who="" if mark is None else mark.name)
                )
        if list(missed_folder(self._project).glob(f"*/{part_id}.png")):
            raise UsageError(Message("missed_learned", name=part_id))

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Lock the folder for one thread and one process: a shell and the page may both write."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._lock, lock_folder(self._folder):
            yield


def check_kind(kind: str) -> str:
    """Check the name of a kind, which becomes that of a folder; strip the spaces around it."""
    name = unicodedata.normalize("NFC", " ".join(kind.split()))
    if not _KIND.fullmatch(name) or name.lower() in NO_KINDS:
        raise UsageError(Message("missed_kind", name=repr(kind[:40])))
    return name


def check_outlines(outlines: Sequence[Polygon], part: PassedPart) -> list[Polygon]:
    """Refuse outlines that mark nothing of a part's picture."""
    fine = all(
        len(outline) > 2 and all(_within(corner, part) for corner in outline) and _area(outline) > 0
        for outline in outlines
    )
    if not outlines or len(outlines) > MOST_OUTLINES or not fine:
        raise UsageError(Message("missed_outline", n_w=part.width, n_h=part.height))
    return list(outlines)


def _within(corner: tuple[float, float], part: PassedPart) -> bool:
    x, y = corner
    return math.isfinite(x + y) and 0 <= x <= part.width and 0 <= y <= part.height


def _area(outline: Polygon) -> float:
    """Compute the area of a polygon, in pixels."""
    pairs = zip(outline, (*outline[1:], outline[0]), strict=True)
    return abs(sum(x * y_next - x_next * y for (x, y), (x_next, y_next) in pairs)) / 2


def _shape(kind: str, outline: Polygon) -> Facts:
    return {"label": kind, "shape_type": "polygon", "points": [list(corner) for corner in outline]}


def _read(sample: Sample) -> MissedMark | None:
    """Read who marked it; None if nobody knows."""
    try:
        values = parse_object(read_bounded(sample.image.with_suffix(".json")))
        return record(MissedMark, values.get("mark"))
    except (OSError, Malformed):
        return None


def _facts(sample: Sample) -> Facts:
    mark, address = _read(sample), f"/teach/missed/{sample.image.stem}"
    return {
        **({} if mark is None else asdict(mark)),
        "id": sample.image.stem,
        "kind": sample.kind,
        "file": f"{sample.kind}/{sample.image.name}",
        "known": mark is not None,
        "picture": f"{address}?width=320",
        "large": address,
    }
