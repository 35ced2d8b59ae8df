"""The next version of a model from what people marked, made and tried before anything changes.

marks --quarantine--> pictures --update--> model --all guarded defects--> next/ and its preview

A guarded defect is what people call a defect, a picture in bad/, or a golden one, if the model of
today finds it. Learning is only another folder until it is installed.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeseg.contract.images import images_in, read_image
from edgeseg.contract.judgement import is_alarming
from edgeseg.contract.plain import Malformed, parse_json, record
from edgeseg.files import write_json
from edgeseg.teach import engine
from edgeseg.teach.feedback import Feedback, Marked
from edgeseg.teach.fit_job import Telling, fit_options, graph_of
from edgeseg.teach.project import Project
from edgeseg.teach.quarantine import HeldBack, Sorted, sort_out, without_boldest
from edgeseg.teach.report import read_report, write_report
from edgeseg.teach.versions import full_name

if TYPE_CHECKING:
    from edgeseg.runtime.scoring.detector import Detector

FILE = "preview.json"


@dataclass(frozen=True, kw_only=True)
class Learned:
    """A picture that would be learned."""

    name: str
    score: float  # by the model of today
    why: str


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

    @property
    def sentence(self) -> str:
        """For people."""
        if self.threshold_new is None:
            return "nothing can be learned now; see why each picture is held back"
        found = f"{len(self.still_found)} of {self.guarded} known defects are still found"
        return (
            f"learning {len(self.would_learn)} of the marked alarms: the threshold goes from "
            f"{self.threshold_old:.4g} to {self.threshold_new:.4g}, {len(self.now_passes)} of them "
            f"would pass, {found if self.guarded else 'no known defect could tell'}"
        )

    def facts(self) -> dict[str, Any]:
        """As TeachService.learn_preview gives it."""
        return {
            **asdict(self),
            "would_learn": [asdict(item) for item in self.would_learn],
            "held_back": [asdict(item) for item in self.held_back],
            "now_passes": list(self.now_passes),
            "still_found": {"found": len(self.still_found), "of": self.guarded},
            "sentence": self.sentence,
        }


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
    paths: dict[str, Path]  # of both


def next_version(project: Project, folder: Path, telling: Telling) -> dict[str, Any]:
    """Make the next version in a folder, with a preview of what it would change."""
    telling.at(0.02, "Looking at what was marked")
    feedback, report = Feedback(project.feedback), read_report(project.fit)
    items = feedback.items()
    with _opened(project.fit / "model.onnx") as detector:
        known = _known(project, items, detector)
        threshold_old = detector.threshold
    chosen = sort_out(items, known.scores, known.guards, fitted=report.images)
    passes: tuple[str, ...] = ()
    found: tuple[str, ...] = tuple(known.guards)
    threshold_new = None
    while chosen.learn:
        telling.at(0.1, f"Learning {len(chosen.learn)} pictures")
        _make(project, folder, chosen, known, telling)
        with _opened(folder / "model.onnx") as detector:
            found = tuple(name for name in known.guards if _alarms(detector, known.paths[name]))
            lost = [name for name in known.guards if name not in found]
            if not lost:
                passes = tuple(
                    name
                    for name in known.scores
                    if name not in known.guards and not _alarms(detector, known.paths[name])
                )
                threshold_new = detector.threshold
                break
        chosen = without_boldest(chosen, known.scores, lost)
    preview = Preview(
        basis=basis_of(project),
        version=version_of(project),
        would_learn=_learned(items, chosen, known),
        held_back=chosen.held_back,
        threshold_old=threshold_old,
        threshold_new=threshold_new,
        now_passes=passes,
        still_found=found if chosen.learn else tuple(known.guards),
        guarded=len(known.guards),
    )
    write_json(folder / FILE, asdict(preview))
    return {"learned": len(chosen.learn)}


def _make(project: Project, folder: Path, chosen: Sorted, known: _Known, telling: Telling) -> None:
    """The updated artefact, its graph and its report."""
    settings, more = project.settings(), folder / "more"
    shutil.rmtree(more, ignore_errors=True)
    more.mkdir()
    for name in chosen.learn:
        # With its time, which the model tells: the same marks must give the same bytes.
        shutil.copy2(known.paths[name], more / f"{name}.png")
    artefact = engine.update_model(
        project.fit / "part.edgeseg",
        graph=graph_of(settings),
        more=more,
        forget=None,
        options=fit_options(telling),
        out=folder / "part.edgeseg",
    )
    shutil.rmtree(more, ignore_errors=True)
    telling.at(0.87, "Writing the model")
    engine.write_graph(folder / "part.edgeseg", graph=graph_of(settings), out=folder / "model.onnx")
    before = [item.name for item in read_report(project.fit).good]
    names = [*(f"{name}.png" for name in chosen.learn), *before]
    write_report(project, folder, artefact, names=names, at=telling.at)


def _known(project: Project, items: list[Marked], detector: "Detector") -> _Known:
    feedback = Feedback(project.feedback)
    paths = {item.alarm.id: feedback.picture(item.alarm.id) for item in items}
    scores = {name: detector.predict(read_image(path)).score for name, path in paths.items()}
    watched = {item.alarm.id: paths[item.alarm.id] for item in items if item.guarded}
    for folder in (project.pictures("bad"), project.recipe / "golden" / "bad"):
        watched |= {path.name: path for path in images_in(folder)}
    guards: dict[str, float] = {}
    for name, path in watched.items():
        judged = detector.predict(read_image(path))
        if is_alarming(judged.verdict):
            # Invalid ones are found whatever their score, and say nothing of scores.
            guards[name] = judged.score if np.isfinite(judged.score) else float("inf")
    return _Known(scores=scores, guards=guards, paths=paths | watched)


def _alarms(detector: "Detector", path: Path) -> bool:
    return is_alarming(detector.predict(read_image(path)).verdict)


def _learned(items: list[Marked], chosen: Sorted, known: _Known) -> tuple[Learned, ...]:
    by_name = {item.alarm.id: item for item in items}
    return tuple(
        Learned(name=name, score=known.scores[name], why=_why(by_name[name]))
        for name in chosen.learn
    )


def _why(item: Marked) -> str:
    people = ", ".join(f"{mark.name} ({mark.who})" for mark in item.marks if mark.mark == "good")
    return f"good, say {people}"


@contextmanager
def _opened(model: Path) -> "Iterator[Detector]":
    from edgeseg.runtime import open as open_model

    with open_model(model) as detector:
        yield detector
