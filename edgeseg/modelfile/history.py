"""The history of a model: a list in its header that grows with every command."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from edgeseg.base.plain import JsonObject
from edgeseg.base.progress import Note
from edgeseg.base.utc import utc_time
from edgeseg.decision.calibration import GoodImageScores

MOST_NAMED = 10


@dataclass(frozen=True, kw_only=True)
class FittedData:
    """The data set of a fit, as the artefact's header stores it."""

    name: str
    layout: str
    held_out: int
    camera_hw: tuple[int, int] | None = None  # of the first image; None: they were resized before
    group_by: str | None = None  # what was said of which images show one part; None: nothing

    def facts(self, *, images: int, bad: Iterable[str]) -> JsonObject:
        """Return the values for the header."""
        return {
            "name": self.name,
            "layout": self.layout,
            "fitted": images,
            "held_out": self.held_out,
            "unreadable": sorted(PurePosixPath(path).name for path in bad),
            **({} if self.camera_hw is None else {"camera_hw": list(self.camera_hw)}),
            **({} if self.group_by is None else {"group_by": self.group_by}),
        }


def highest(good: GoodImageScores) -> list[JsonObject]:
    """Return the good images with the highest scores, which decide the threshold.

    There is one for each part, and none where names are not known. Only names of files are stored,
    not of folders: a model travels farther than its images.
    """
    if not good.images:
        return []
    return [
        {"image": PurePosixPath(good.images[place]).name, "score": float(good.scores[place])}
        for place in good.leading[:MOST_NAMED]
    ]


def entry(action: str, *, images: int, source: str, newest: float) -> JsonObject:
    """Make one line of a history.

    `when` is the last change of the newest image and not the time of the fit: the same images
    must give the same bytes.
    """
    return {"action": action, "images": images, "from": source, "when": utc_time(newest)}


def note_value(history: Sequence[JsonObject], threshold: float, note: Note) -> None:
    """Note that a threshold which was chosen as a value is about to be replaced."""
    last = history[-1] if history else {}
    if last.get("action") == "threshold" and last.get("rate", 0.0) is None:
        note(
            f"the threshold {threshold:.4f} was chosen as a value and is replaced by that of its "
            f"rate; choose it again: edgeseg threshold MODEL --value {threshold:.6g}"
        )
