"""What the model that runs says of marked pictures and of known defects.

A known defect is what people call one, a picture in bad/, a golden one, or a missed one that was or
is to be learned, if the model of today finds it. It guards the threshold: whatever is learned, it
must still be found.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from edgeseg.base.errors import EdgesegError
from edgeseg.data.samples import Sample
from edgeseg.decision.judgement import is_alarming
from edgeseg.runtime.recipes.recipe import read_recipe
from edgeseg.teach.feedback import Feedback, MarkedAlarm
from edgeseg.teach.golden_set import withdrawn
from edgeseg.teach.missed import learned_defects, name_of
from edgeseg.teach.project import Box, Project
from edgeseg.vision.images import images_in, read_image

if TYPE_CHECKING:
    from edgeseg.runtime.scoring.detector import Detector

GuardKind = Literal["mark", "bad", "golden", "missed"]


@dataclass(frozen=True, kw_only=True)
class GuardedDefect:
    """A known defect for whose sake marked pictures are held back."""

    name: str
    kind: GuardKind  # where it can be taken back


@dataclass(frozen=True, kw_only=True)
class Survey:
    """Scores of marked pictures and known defects by the present model."""

    scores: dict[str, float]  # of marked pictures
    guards: dict[str, float]  # of defects that it finds
    found: dict[str, list[Box]]  # where it finds them
    kinds: dict[str, GuardKind]  # of all known defects, found or not
    paths: dict[str, Path]  # of both
    boxes: dict[str, Box]  # of marked pictures

    def hidden(self, place: str, defects: Sequence[str]) -> float:
        """Count the pixels of found defects that lie in the place of a marked picture."""
        x, y, w, h = self.boxes[place]
        shared = 0
        for left, top, width, height in (box for name in defects for box in self.found[name]):
            across = min(x + w, left + width) - max(x, left)
            down = min(y + h, top + height) - max(y, top)
            shared += max(across, 0) * max(down, 0)
        return shared

    def defects(self, names: Iterable[str]) -> tuple[GuardedDefect, ...]:
        """Say of known defects what they are, each once."""
        return tuple(
            GuardedDefect(name=name, kind=self.kinds[name]) for name in dict.fromkeys(names)
        )


def survey(
    project: Project,
    items: list[MarkedAlarm],
    detector: "Detector",
    *,
    missed: Sequence[Sample] = (),
) -> Survey:
    """Score marked pictures and known defects by a model; `missed` are to be learned next."""
    feedback = Feedback(project.feedback)
    paths = {item.alarm.id: feedback.picture(item.alarm.id) for item in items}
    scores = {}
    for name, path in paths.items():
        with suppress(EdgesegError):  # gone or damaged: one mark must not stop all others
            scores[name] = detector.predict(read_image(path)).score
    marked = [item.alarm.id for item in items if item.guarded and item.alarm.id in scores]
    sources: dict[GuardKind, dict[str, Path]] = {
        "golden": _golden_bad(project),
        "bad": {path.name: path for path in images_in(project.pictures("bad"))},
        "mark": {name: paths[name] for name in marked},
        "missed": {name_of(each): each.image for each in (*learned_defects(project), *missed)},
    }
    watched = {name: path for source in sources.values() for name, path in source.items()}
    kinds = {name: kind for kind, source in sources.items() for name in source}
    guards: dict[str, float] = {}
    found: dict[str, list[Box]] = {}
    for name, path in watched.items():
        judged = detector.predict(read_image(path))
        if is_alarming(judged.verdict):
            # Invalid ones are found whatever their score, and say nothing of scores.
            guards[name] = judged.score if np.isfinite(judged.score) else float("inf")
            found[name] = [region.box_xywh for region in judged.regions]
    boxes = {item.alarm.id: item.alarm.box for item in items if item.alarm.box is not None}
    return Survey(
        scores=scores,
        guards=guards,
        found=found,
        kinds=kinds,
        paths=paths | watched,
        boxes=boxes,
    )


def _golden_bad(project: Project) -> dict[str, Path]:
    """Return the golden bad parts that people did not take out of the project since."""
    recipe = read_recipe(project.recipe)
    without = withdrawn(project, recipe)
    return {
        path.name: path
        for path in images_in(recipe.golden / "bad")
        if f"bad/{path.name}" not in without
    }


def is_alarm(detector: "Detector", path: Path) -> bool:
    """Tell whether a model would stop a picture."""
    return is_alarming(detector.predict(read_image(path)).verdict)


@contextmanager
def open_detector(model: Path) -> "Iterator[Detector]":
    """Open a model for single pictures."""
    from edgeseg.runtime import open as open_model

    with open_model(model) as detector:
        yield detector
