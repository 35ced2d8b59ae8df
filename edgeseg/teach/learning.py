"""The next version of a model, made from people's marks and tried before anything changes.

marks --quarantine--> places --ignore--> pictures --update--> model --all guarded defects--> next/

Learning is only another folder until it is installed. A preview makes all of it, golden check
included: what is installed is what was shown.
"""

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from edgeseg.base.errors import EdgesegError
from edgeseg.base.files import file_sha256, write_json
from edgeseg.base.messages import Message
from edgeseg.base.plain import Malformed, parse_json, record
from edgeseg.data.samples import Sample
from edgeseg.decision.lost_defects import Loss
from edgeseg.runtime.recipes.recipe import APPROVAL, read_recipe
from edgeseg.teach import engine
from edgeseg.teach.feedback import Feedback, MarkedAlarm
from edgeseg.teach.fit_job import fit_costs, fit_good, fit_options, graph_of
from edgeseg.teach.golden_set import withdrawn
from edgeseg.teach.job_progress import JobProgress
from edgeseg.teach.known_defects import GuardedDefect, Survey, is_alarm, open_detector, survey
from edgeseg.teach.missed import asked_defects, basis_of_missed, name_of
from edgeseg.teach.missed_change import MissedChange, change_of
from edgeseg.teach.next_trial import WrongGolden, count_lost, prove_next
from edgeseg.teach.project import Box, Project, corners
from edgeseg.teach.quarantine import HeldBack, Selection, sort_out, without_worst
from edgeseg.teach.report import read_report, write_report
from edgeseg.teach.versions import full_name
from edgeseg.vision.images import images_in, read_image

FILE = "preview.json"
_NAMED = 3  # pictures in a sentence


@dataclass(frozen=True, kw_only=True)
class LearnedPicture:
    """A picture that would be learned, or whose place would be ignored."""

    name: str
    score: float  # by the model of today
    why: Message
    ignored: Box | None = None


@dataclass(frozen=True, kw_only=True)
class Preview:
    """The effect of a learning."""

    basis: str  # of the marks and the known pictures that it rests on
    version: str  # of the model that it goes on from
    would_learn: tuple[LearnedPicture, ...]
    held_back: tuple[HeldBack, ...]
    threshold_old: float
    threshold_new: float | None  # None: nothing would be learned
    now_passes: tuple[str, ...]  # marked alarms that would be good
    still_found: tuple[str, ...]  # guarded defects
    guarded: int
    loss: Loss | None = None  # None: nothing would be learned
    guards: tuple[GuardedDefect, ...] = ()
    golden: tuple[WrongGolden, ...] = ()
    problems: tuple[str, ...] = ()  # why the golden check would refuse it; none: it would not
    missed: tuple[str, ...] = ()  # missed defects that would be learned, in place of marks
    change: MissedChange | None = None  # of missed defects

    @property
    def key(self) -> str:
        """Name of what was shown: learning does this and nothing else."""
        told = f"{self.basis}:{self.version}:{self.threshold_new!r}"
        return hashlib.sha256(told.encode()).hexdigest()

    @property
    def sentence(self) -> Message:
        """Summary for people."""
        wrong = [item.name for item in self.golden if item.approved]
        if wrong:
            return Message("learn_golden", names=", ".join(wrong[:_NAMED]))
        if self.problems:
            return Message("learn_golden_other", why=self.problems[0])
        if self.threshold_new is None:
            return Message("learn_held_missed" if self.held_back and self.missed else "learn_held")
        found = Message("learn_unknown")
        if self.guarded:
            found = Message("learn_found", n=len(self.still_found), n_all=self.guarded)
        if self.missed:
            return Message(
                "learn_missed",
                n=len(self.missed),
                n_old=self.threshold_old,
                n_new=self.threshold_new,
                found=found,
            )
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
        """Facts that `TeachService.learn_preview` returns."""
        return {
            **asdict(self),
            "would_learn": [dict(vars(item)) for item in self.would_learn],
            "held_back": [dict(vars(item)) for item in self.held_back],
            "now_passes": list(self.now_passes),
            "missed": list(self.missed),
            "change": None if self.change is None else self.change.facts(),
            "guards": [dict(vars(item)) for item in self.guards],
            "golden": [dict(vars(item)) for item in self.golden],
            "still_found": {"found": len(self.still_found), "of": self.guarded},
            "loss": None if self.loss is None else loss_facts(self.loss),
            "of": self.key,
            "sentence": self.sentence,
        }


def loss_facts(loss: Loss) -> dict[str, Any]:
    """Facts of a loss with its shares and its sentence."""
    return {**asdict(loss), "share": loss.share, "asks": loss.asks, "sentence": loss.sentence}


def read_preview(folder: Path) -> Preview | None:
    """Read the last preview; None if it is missing or damaged."""
    try:
        return record(Preview, parse_json((folder / FILE).read_bytes()))
    except (OSError, Malformed):
        return None


def basis_of(project: Project) -> str:
    """Identify the marks, the known bad parts and the golden set that a preview rests on."""
    bad = ",".join(path.name for path in images_in(project.pictures("bad")))
    recipe, golden = project.recipe, ""
    with suppress(OSError, EdgesegError):
        golden = file_sha256(recipe / APPROVAL)[:16]
        golden += ",".join(["", *sorted(withdrawn(project, read_recipe(recipe)))])
    return ":".join([Feedback(project.feedback).basis(), bad, golden, basis_of_missed(project)])


def version_of(project: Project) -> str:
    """Identify the model and the thresholds of the fit."""
    return full_name(project.fit / "model.onnx")


def next_version(project: Project, folder: Path, job: JobProgress) -> dict[str, Any]:
    """Make the next version in a folder, with a preview of what it would change."""
    if missed := asked_defects(project):
        return next_of_missed(project, folder, job, missed)
    items = Feedback(project.feedback).items()
    job.plan(_costs(len(items)))
    job.at("learn_looking", Message("learn_looking"))
    with open_detector(project.fit / "model.onnx") as detector:
        known = survey(project, items, detector)
        threshold_old = detector.threshold
    chosen, threshold_new, passes = _try_selections(project, folder, items, known, job)
    places = [corners(known.boxes[name]) for name in chosen.ignore]
    loss = None if threshold_new is None else count_lost(project, folder, places, known, job)
    golden, problems = ((), ()) if threshold_new is None else prove_next(project, folder, job)
    preview = Preview(
        basis=basis_of(project),
        version=version_of(project),
        would_learn=_list_learned(items, chosen, known),
        held_back=chosen.held_back,
        threshold_old=threshold_old,
        threshold_new=threshold_new,
        now_passes=passes,
        still_found=tuple(known.guards),  # else it would not have been chosen
        guarded=len(known.guards),
        loss=loss,
        guards=known.defects(name for item in chosen.held_back for name in item.guards),
        golden=golden,
        problems=problems,
    )
    write_json(folder / FILE, asdict(preview))
    return {"learned": len(chosen.learn), "ignored": len(chosen.ignore)}


def next_of_missed(
    project: Project, folder: Path, job: JobProgress, missed: Sequence[Sample]
) -> dict[str, Any]:
    """Fit the next version on the good pictures and all missed defects, in a folder."""
    items, names = Feedback(project.feedback).items(), [name_of(each) for each in missed]
    count = len(images_in(project.pictures("good")))
    job.plan(fit_costs(count) | {"learn_looking": 1.0, "learn_planted": 2.5, "run_checking": 1.0})
    job.at("learn_looking", Message("learn_looking"))
    with open_detector(project.fit / "model.onnx") as detector:
        known, threshold_old = survey(project, items, detector, missed=missed), detector.threshold
        scores = [detector.predict(read_image(each.image)).score for each in missed]
    artefact = fit_good(project, folder, job, missed=missed)
    with open_detector(folder / "model.onnx") as detector:
        threshold_new = detector.threshold
        found = {name for name in known.kinds if is_alarm(detector, known.paths[name])}
    taught = None if artefact.known is None else artefact.known.facts
    lost, reason = [name for name in known.guards if name not in found], None
    if taught is None:
        reason = Message("hold_missed_teach")
    elif lost:
        reason = Message("hold_missed_lost", names=", ".join(lost[:_NAMED]))
    loss = None if reason else count_lost(project, folder, (), known, job)
    golden, problems = ((), ()) if reason else prove_next(project, folder, job)
    learned = [
        LearnedPicture(
            name=name,
            score=float(score),
            why=Message("why_found" if name in found else "why_not_found"),
        )
        for name, score in zip(names, scores, strict=True)
    ]
    preview = Preview(
        basis=basis_of(project),
        version=version_of(project),
        would_learn=() if reason else tuple(learned),
        held_back=() if reason is None else tuple(_hold_all(names, reason, lost)),
        threshold_old=threshold_old,
        threshold_new=None if reason else threshold_new,
        now_passes=(),
        still_found=tuple(name for name in known.guards if name in found),
        guarded=len(known.guards),
        loss=loss,
        guards=known.defects(lost),
        golden=golden,
        problems=problems,
        missed=tuple(names),
        change=change_of(project.fit, folder, known, found, taught),
    )
    write_json(folder / FILE, asdict(preview))
    return {"missed": 0 if reason else len(names)}


def _hold_all(names: Sequence[str], reason: Message, lost: Sequence[str]) -> Iterator[HeldBack]:
    for name in names:
        yield HeldBack(name=name, reason=reason, guards=tuple(lost))


def _costs(marked: int) -> dict[str, float]:
    """Return the stages of a learning, and what each costs with so many marks."""
    return {
        "learn_looking": 0.2 + 0.05 * marked,
        "learn_ignoring": 0.3,
        "learn_now": 1.0,
        "work_fitting": 0.5,
        "work_calibrating": 3.0,
        "work_writing": 1.0,
        "work_looking": 1.0,
        "learn_planted": 2.5,
        "run_checking": 1.0,
    }


def _try_selections(
    project: Project, folder: Path, items: list[MarkedAlarm], known: Survey, job: JobProgress
) -> tuple[Selection, float | None, tuple[str, ...]]:
    """Make a version that loses no known defect.

    Returns what it learns, its threshold, and the marked alarms that it lets pass.
    """
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
            job.at("learn_ignoring", Message("learn_ignoring", n=len(chosen.ignore)))
        if chosen.learn:
            job.at("learn_now", Message("learn_now", n=len(chosen.learn)))
        _make(project, folder, chosen, known, job)
        with open_detector(folder / "model.onnx") as detector:
            lost = [name for name in known.guards if not is_alarm(detector, known.paths[name])]
            if not lost:
                marked = [name for name in known.scores if name not in known.guards]
                passes = [name for name in marked if not is_alarm(detector, known.paths[name])]
                return chosen, detector.threshold, tuple(passes)
        hidden = {name: known.hidden(name, lost) for name in chosen.ignore}
        fewer = without_worst(chosen, known.scores, hidden, lost)
        refused = (*refused, fewer.held_back[-1])


def _make(
    project: Project, folder: Path, chosen: Selection, known: Survey, job: JobProgress
) -> None:
    """Write the changed artefact, its graph and its report."""
    settings = project.settings()
    base, out, options = project.fit / "part.edgeseg", folder / "part.edgeseg", fit_options(job)
    if chosen.ignore:
        regions = [corners(known.boxes[name]) for name in chosen.ignore]
        artefact = engine.ignore_regions(base, regions=regions, options=options, out=out)
        base = out
    if chosen.learn:
        with _copies(folder / "more", chosen.learn, known) as more:
            artefact = engine.update_model(
                base, graph=graph_of(settings), more=more, options=options, out=out
            )
    job.at("work_writing", Message("work_writing"))
    engine.write_graph(folder / "part.edgeseg", graph=graph_of(settings), out=folder / "model.onnx")
    before = [item.name for item in read_report(project.fit).good]
    names = [*(f"{name}.png" for name in chosen.learn), *before]
    write_report(project, folder, artefact, names=names, job=job)


@contextmanager
def _copies(folder: Path, names: Sequence[str], known: Survey) -> Iterator[Path]:
    """Copy pictures into a folder of their own."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in names:
        # With its time, which the model tells: the same marks must give the same bytes.
        shutil.copy2(known.paths[name], folder / f"{name}.png")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _list_learned(
    items: list[MarkedAlarm], chosen: Selection, known: Survey
) -> tuple[LearnedPicture, ...]:
    by_name = {item.alarm.id: item for item in items}
    learned = [
        LearnedPicture(
            name=name, score=known.scores[name], why=Message("why_good", people=_who(by_name[name]))
        )
        for name in chosen.learn
    ]
    for name in chosen.ignore:
        x, y, w, h = known.boxes[name]
        why = Message("why_ignore", n_w=w, n_h=h, n_x=x, n_y=y, people=_who(by_name[name]))
        learned.append(
            LearnedPicture(name=name, score=known.scores[name], why=why, ignored=known.boxes[name])
        )
    return tuple(learned)


def _who(item: MarkedAlarm) -> str:
    """Name the people whose mark counts."""
    return ", ".join(f"{mark.name} ({mark.who})" for mark in item.marks if mark.mark == item.said)
