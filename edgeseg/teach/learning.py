"""The next version of a model from what people marked, made and tried before anything changes.

marks --quarantine--> places --ignore--> pictures --update--> model --all guarded defects--> next/

A guarded defect is what people call a defect, a picture in bad/, or a golden one, if the model of
today finds it. Learning is only another folder until it is installed.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeseg.base.errors import EdgesegError
from edgeseg.base.files import write_json
from edgeseg.base.messages import Message
from edgeseg.base.plain import Malformed, parse_json, record
from edgeseg.decision.judgement import is_alarming
from edgeseg.decision.lost_defects import Loss
from edgeseg.teach import engine
from edgeseg.teach.feedback import Feedback, Marked
from edgeseg.teach.fit_job import Telling, fit_options, graph_of
from edgeseg.teach.project import Box, Project, corners
from edgeseg.teach.quarantine import HeldBack, Sorted, sort_out, without_worst
from edgeseg.teach.report import read_report, store_report, write_report
from edgeseg.teach.versions import full_name
from edgeseg.vision.images import images_in, read_image

if TYPE_CHECKING:
    from edgeseg.runtime.scoring.detector import Detector

FILE = "preview.json"


@dataclass(frozen=True, kw_only=True)
class Learned:
    """A picture that would be learned, or whose place would be ignored."""

    name: str
    score: float  # by the model of today
    why: Message
    ignored: Box | None = None


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a learning would do."""

    basis: str  # of the marks that it rests on
    version: str  # of the model that it goes on from
    would_learn: tuple[Learned, ...]
    held_back: tuple[HeldBack, ...]
    threshold_old: float
    threshold_new: float | None  # None: nothing would be learned
    now_passes: tuple[str, ...]  # marked alarms that would be good
    still_found: tuple[str, ...]  # guarded defects
    guarded: int
    loss: Loss | None = None  # None: nothing would be learned

    @property
    def sentence(self) -> Message:
        """For people."""
        if self.threshold_new is None:
            return Message("learn_held")
        found = Message("learn_unknown")
        if self.guarded:
            found = Message("learn_found", n=len(self.still_found), n_all=self.guarded)
        old, new, passing = self.threshold_old, self.threshold_new, len(self.now_passes)
        places = sum(item.ignored is not None for item in self.would_learn)
        learned = len(self.would_learn) - places
        if not places:
            return Message(
                "learn_would", n=learned, n_old=old, n_new=new, n_pass=passing, found=found
            )
        return Message(
            "learn_would_ignore",
            n=learned,
            n_places=places,
            n_old=old,
            n_new=new,
            n_pass=passing,
            found=found,
        )

    def facts(self) -> dict[str, Any]:
        """As TeachService.learn_preview gives it."""
        return {
            **asdict(self),
            "would_learn": [dict(vars(item)) for item in self.would_learn],
            "held_back": [dict(vars(item)) for item in self.held_back],
            "now_passes": list(self.now_passes),
            "still_found": {"found": len(self.still_found), "of": self.guarded},
            "loss": None if self.loss is None else loss_facts(self.loss),
            "sentence": self.sentence,
        }


def loss_facts(loss: Loss) -> dict[str, Any]:
    """With what follows from them, for a page and a shell."""
    return {**asdict(loss), "share": loss.share, "asks": loss.asks, "sentence": loss.sentence}


def read_preview(folder: Path) -> Preview | None:
    """What was made last, if it is whole."""
    try:
        return record(Preview, parse_json((folder / FILE).read_bytes()))
    except (OSError, Malformed):
        return None


def basis_of(project: Project) -> str:
    """What a preview rests on: marks, and known bad parts."""
    bad = ",".join(path.name for path in images_in(project.pictures("bad")))
    return f"{Feedback(project.feedback).basis()}:{bad}"


def version_of(project: Project) -> str:
    """The model and thresholds of the fit, as one word."""
    return full_name(project.fit / "model.onnx")


@dataclass(frozen=True, kw_only=True)
class _Known:
    """What the model of today says."""

    scores: dict[str, float]  # of marked pictures
    guards: dict[str, float]  # of defects that it finds
    found: dict[str, list[Box]]  # where it finds them
    paths: dict[str, Path]  # of both
    boxes: dict[str, Box]  # of marked pictures

    def hidden(self, place: str, defects: Sequence[str]) -> float:
        """How many pixels, by which it finds defects, lie in the place of a marked picture."""
        x, y, w, h = self.boxes[place]
        shared = 0
        for left, top, width, height in (box for name in defects for box in self.found[name]):
            across = min(x + w, left + width) - max(x, left)
            down = min(y + h, top + height) - max(y, top)
            shared += max(across, 0) * max(down, 0)
        return shared


def next_version(project: Project, folder: Path, telling: Telling) -> dict[str, Any]:
    """Make the next version in a folder, with a preview of what it would change."""
    telling.at(0.02, Message("learn_looking"))
    items = Feedback(project.feedback).items()
    with _opened(project.fit / "model.onnx") as detector:
        known = _known(project, items, detector)
        threshold_old = detector.threshold
    chosen, threshold_new, passes = _tried(project, folder, items, known, telling)
    loss = None if threshold_new is None else _loss(project, folder, chosen, known, telling)
    preview = Preview(
        basis=basis_of(project),
        version=version_of(project),
        would_learn=_learned(items, chosen, known),
        held_back=chosen.held_back,
        threshold_old=threshold_old,
        threshold_new=threshold_new,
        now_passes=passes,
        still_found=tuple(known.guards),  # else it would not have been chosen
        guarded=len(known.guards),
        loss=loss,
    )
    write_json(folder / FILE, asdict(preview))
    return {"learned": len(chosen.learn), "ignored": len(chosen.ignore)}


def _tried(
    project: Project, folder: Path, items: list[Marked], known: _Known, telling: Telling
) -> tuple[Sorted, float | None, tuple[str, ...]]:
    """What loses no known defect, made; its threshold, and the marked alarms that then pass."""
    fitted, located = read_report(project.fit).images, bool(project.settings().region.locate)
    refused: tuple[HeldBack, ...] = ()
    while True:
        names = {each.name for each in refused}  # which take no room in the quota from others
        rest = [item for item in items if item.alarm.id not in names]
        chosen = sort_out(rest, known.scores, known.guards, fitted=fitted, located=located)
        chosen = replace(chosen, held_back=(*chosen.held_back, *refused))
        if chosen.empty:
            return chosen, None, ()
        if chosen.ignore:
            telling.at(0.05, Message("learn_ignoring", n=len(chosen.ignore)))
        if chosen.learn:
            telling.at(0.1, Message("learn_now", n=len(chosen.learn)))
        _make(project, folder, chosen, known, telling)
        with _opened(folder / "model.onnx") as detector:
            lost = [name for name in known.guards if not _alarms(detector, known.paths[name])]
            if not lost:
                marked = [name for name in known.scores if name not in known.guards]
                passes = [name for name in marked if not _alarms(detector, known.paths[name])]
                return chosen, detector.threshold, tuple(passes)
        hidden = {name: known.hidden(name, lost) for name in chosen.ignore}
        fewer = without_worst(chosen, known.scores, hidden, lost)
        refused = (*refused, fewer.held_back[-1])


def _make(project: Project, folder: Path, chosen: Sorted, known: _Known, telling: Telling) -> None:
    """The changed artefact, its graph and its report."""
    settings = project.settings()
    base, out, options = project.fit / "part.edgeseg", folder / "part.edgeseg", fit_options(telling)
    if chosen.ignore:
        regions = [corners(known.boxes[name]) for name in chosen.ignore]
        artefact = engine.ignore_regions(base, regions=regions, options=options, out=out)
        base = out
    if chosen.learn:
        with _copies(folder / "more", chosen.learn, known) as more:
            artefact = engine.update_model(
                base, graph=graph_of(settings), more=more, options=options, out=out
            )
    telling.at(0.87, Message("work_writing"))
    engine.write_graph(folder / "part.edgeseg", graph=graph_of(settings), out=folder / "model.onnx")
    before = [item.name for item in read_report(project.fit).good]
    names = [*(f"{name}.png" for name in chosen.learn), *before]
    write_report(project, folder, artefact, names=names, at=telling.at)


def _loss(project: Project, folder: Path, chosen: Sorted, known: _Known, telling: Telling) -> Loss:
    """What the version that was made loses of planted defects; its report has their scores."""
    from edgeseg.teach.planted_copies import planted_copies  # the service plants none

    telling.at(0.99, Message("learn_planted"))
    places = [corners(known.boxes[name]) for name in chosen.ignore]
    found, scores = [], []
    with _opened(project.fit / "model.onnx") as old, _opened(folder / "model.onnx") as new:
        thresholds = old.threshold, new.threshold
        for copy_hwc in planted_copies(project, ignored=places):
            before, after = old.predict(copy_hwc), new.predict(copy_hwc)
            if np.isfinite(after.score):
                scores.append(after.score)
            if is_alarming(before.verdict):
                found.append(is_alarming(after.verdict))
    earlier = read_report(project.fit)
    loss = Loss(
        threshold_old=thresholds[0],
        threshold_new=thresholds[1],
        planted_found=len(found),
        planted_lost=found.count(False),
        known_found=len(known.guards),  # all of which it still finds
        earlier_share=earlier.lost,
        earlier_rise=earlier.rise,
        may_lose=project.settings().may_lose,
    )
    made = replace(read_report(folder), planted=tuple(scores))
    store_report(folder, replace(made, lost=loss.total_share, rise=min(loss.total_rise, 1e9)))
    return loss


@contextmanager
def _copies(folder: Path, names: Sequence[str], known: _Known) -> Iterator[Path]:
    """Pictures in a folder of their own."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in names:
        # With its time, which the model tells: the same marks must give the same bytes.
        shutil.copy2(known.paths[name], folder / f"{name}.png")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _known(project: Project, items: list[Marked], detector: "Detector") -> _Known:
    feedback = Feedback(project.feedback)
    paths = {item.alarm.id: feedback.picture(item.alarm.id) for item in items}
    scores = {}
    for name, path in paths.items():
        with suppress(EdgesegError):  # gone or damaged: one mark must not stop all others
            scores[name] = detector.predict(read_image(path)).score
    guarded = [item.alarm.id for item in items if item.guarded and item.alarm.id in scores]
    watched = {name: paths[name] for name in guarded}
    for folder in (project.pictures("bad"), project.recipe / "golden" / "bad"):
        watched |= {path.name: path for path in images_in(folder)}
    guards: dict[str, float] = {}
    found: dict[str, list[Box]] = {}
    for name, path in watched.items():
        judged = detector.predict(read_image(path))
        if is_alarming(judged.verdict):
            # Invalid ones are found whatever their score, and say nothing of scores.
            guards[name] = judged.score if np.isfinite(judged.score) else float("inf")
            found[name] = [region.box_xywh for region in judged.regions]
    boxes = {item.alarm.id: item.alarm.box for item in items if item.alarm.box is not None}
    return _Known(scores=scores, guards=guards, found=found, paths=paths | watched, boxes=boxes)


def _alarms(detector: "Detector", path: Path) -> bool:
    return is_alarming(detector.predict(read_image(path)).verdict)


def _learned(items: list[Marked], chosen: Sorted, known: _Known) -> tuple[Learned, ...]:
    by_name = {item.alarm.id: item for item in items}
    learned = [
        Learned(
            name=name, score=known.scores[name], why=Message("why_good", people=_who(by_name[name]))
        )
        for name in chosen.learn
    ]
    for name in chosen.ignore:
        x, y, w, h = known.boxes[name]
        why = Message("why_ignore", n_w=w, n_h=h, n_x=x, n_y=y, people=_who(by_name[name]))
        learned.append(
            Learned(name=name, score=known.scores[name], why=why, ignored=known.boxes[name])
        )
    return tuple(learned)


def _who(item: Marked) -> str:
    """The people whose word counts."""
    return ", ".join(f"{mark.name} ({mark.who})" for mark in item.marks if mark.mark == item.said)


@contextmanager
def _opened(model: Path) -> "Iterator[Detector]":
    from edgeseg.runtime import open as open_model

    with open_model(model) as detector:
        yield detector
