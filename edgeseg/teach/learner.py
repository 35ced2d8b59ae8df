"""From marks to the version that runs, and back: preview, golden check, swap, history.

announced.json    written before a change: the line that the history will have, and where marked
                  pictures go

The recipe's model decides. Killed before it is replaced, nothing has changed, and the announcement
goes; killed after it, whoever opens the project next does what is left; steps may be done twice.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from edgeseg.base.errors import EdgesegError, UsageError, words_of
from edgeseg.base.files import lock_folder
from edgeseg.base.messages import Message, Words
from edgeseg.base.plain import Malformed, record
from edgeseg.modelfile.versions import Intent
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.teach.asked import SecondNeededError, Word, ask, confirmed, settle_asked
from edgeseg.teach.feedback import Feedback, Who
from edgeseg.teach.learning import Preview, basis_of, read_preview, version_of
from edgeseg.teach.pictures import Pictures
from edgeseg.teach.project import Kind, Project, ProjectSettings, corners, history_line
from edgeseg.teach.report import read_report, store_report
from edgeseg.teach.versions import Versions, full_name, short_name
from edgeseg.teach.work import Work
from edgeseg.vision.geometry import Polygon
from edgeseg.vision.images import images_in

Facts = dict[str, Any]
_EMPTY: Facts = {
    "would_learn": [],
    "held_back": [],
    "threshold_old": None,
    "threshold_new": None,
    "now_passes": [],
    "still_found": {"found": 0, "of": 0},
    "loss": None,
}
NOBODY = Word()
_NAMED = 3  # pictures in a sentence


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


class Learner:
    """Makes the next version in next/, and lets it take over when a supervisor says so."""

    def __init__(
        self,
        project: Project,
        *,
        versions: Versions,
        feedback: Feedback,
        pictures: Pictures,
        work: Work,
    ) -> None:
        self._project, self._versions = project, versions
        self._feedback, self._pictures, self.work = feedback, pictures, work
        self._next = project.folder / "next"
        busy = Message("learn_under_way")
        self._intent = Intent(project.folder / "announced.json", busy=busy)
        self._go_on()

    def preview(self) -> Facts:
        """What learning would do; where that is not known yet, begin to find out."""
        self._versions.check_learnable()
        preview = self._fresh_preview()
        if preview is not None:
            return {"state": "ready", **preview.facts()}
        if not self.work.running:
            self.work.start("next", finish=self._keep_preview, sentence=Message("starting"))
        now = self.work.facts()
        return {"state": now["state"], **_EMPTY, "sentence": now["sentence"]}

    def learn(self, who: Who, word: Word = NOBODY) -> Facts:
        """Begin; the version of a preview that still holds is taken as it is.

        One that loses more than a single person may decide is refused, and waits to be confirmed.
        """
        check_supervisor(who)
        self._versions.check_learnable()
        preview = self._fresh_preview()
        if preview is not None:
            if not self.work.running:
                self._permit(preview, word)
            self._begin(who, word)
        else:
            self.work.start(
                "next",
                finish=lambda folder, done: (
                    self._keep_preview(folder, done) and self._install(who, word)
                ),
                sentence=Message("starting"),
                around=self._failure_told(),
            )
        return self.work.facts()

    def confirm(self, who: Who, name: str) -> Facts:
        """Begin what another supervisor has asked for."""
        check_supervisor(who)
        self._versions.check_learnable()
        asked, word = confirmed(self._project, name=name)
        preview = self._fresh_preview()
        if preview is None or asked.of != _of(preview):
            raise UsageError(Message("learn_changed"))
        self._begin(who, word)
        return self.work.facts()

    def _begin(self, who: Who, word: Word) -> None:
        """Install the version that was made."""

        def install() -> Words:
            with self._failure_told():
                return self._install(who, word)

        self.work.start_here(install, sentence=Message("run_checking"))

    @contextmanager
    def _failure_told(self) -> Iterator[None]:
        """A learning that does not end well stands in the history with what it was about."""
        try:
            yield
        except SecondNeededError:
            raise  # who asked stands there already
        except Exception as error:
            preview = read_preview(self._next)
            names = [] if preview is None else [item.name for item in preview.would_learn]
            with suppress(OSError):  # of a full disk, of which the error tells
                self._project.log("learn_failed", why=words_of(error), names=names)
            raise

    def _permit(self, preview: Preview, word: Word) -> None:
        """Refuse what one person alone must not decide."""
        if preview.loss is None or word.enough:
            return
        loss = replace(preview.loss, may_lose=self._project.settings().may_lose)
        if loss.asks:
            bold = sorted(preview.would_learn, key=lambda item: -item.score)[:_NAMED]
            raise ask(
                self._project,
                "learn",
                of=_of(preview),
                name=word.name,
                sentence=Message(
                    "learn_second", names=", ".join(e.name for e in bold), loss=loss.sentence
                ),
            )

    def rollback(self, who: Who) -> Facts:
        """The version of before runs again; pictures that the other had learned leave good/."""
        check_supervisor(who)
        if self.work.running:
            raise UsageError(Message("learn_under_way"))
        line = self._change(lambda: self._going_back(who), self._versions.rollback)
        return {"version": line["version"], "threshold": line["threshold"]}

    def _fresh_preview(self) -> Preview | None:
        preview = read_preview(self._next)
        if preview is None or not self._is_fresh(preview):
            return None
        tried = preview.loss is not None or preview.threshold_new is None
        return preview if tried else None  # of a version that did not count what is lost

    def _is_fresh(self, preview: Preview) -> bool:
        """A preview of other marks, or of another model, is worth nothing."""
        now = (basis_of(self._project), version_of(self._project))
        return (preview.basis, preview.version) == now

    def _keep_preview(self, folder: Path, done: Facts) -> Words:
        shutil.rmtree(self._next, ignore_errors=True)
        folder.rename(self._next)
        if done.get("ignored"):
            return Message("learn_could_ignore", n=done.get("learned"), n_places=done["ignored"])
        return Message("learn_could", n=done.get("learned"))

    def _install(self, who: Who, word: Word = NOBODY) -> Words:
        """Let the version that was made take over: golden check, swap, history."""
        preview = read_preview(self._next)
        if preview is None or preview.threshold_new is None:
            reasons = [] if preview is None else [item.reason for item in preview.held_back]
            raise UsageError(Message("learn_nothing", why=reasons or Message("mark_none")))
        if not self._is_fresh(preview):
            raise UsageError(Message("learn_changed"))
        self._permit(preview, word)
        if word.enough:  # from here on others are held against what both have seen
            store_report(self._next, replace(read_report(self._next), lost=0.0, rise=1.0))
        made = self._next / "model.onnx"
        self._change(
            lambda: self._learning(preview, who, word), lambda: self._versions.learned(made)
        )
        settle_asked(self._project)
        return preview.sentence

    def _going_back(self, who: Who) -> Announcement:
        """What follows once the version of before runs."""
        earlier = self._versions.earlier()
        brought = self._brought()
        good = {path.name for path in images_in(self._project.pictures("good"))}
        line = history_line(
            "rollback",
            who=who,
            removed=[name for name in brought.get("names", ()) if name in good],
            seen_again=brought.get("ignored", []),
            version=short_name(earlier),
            threshold=file_metadata(earlier).threshold.score,
        )
        return Announcement(model=full_name(earlier), line=line)

    def _learning(self, preview: Preview, who: Who, word: Word) -> Announcement:
        """What follows once the version that was made runs."""
        marked = {item.alarm.id: item.said for item in self._feedback.items()}
        would = [item for item in preview.would_learn if item.name in marked]
        confirmed = [name for name, said in marked.items() if said == "defect"]
        moves = (
            *(self._move(item.name, "good") for item in would if item.ignored is None),
            *(self._move(name, "bad") for name in confirmed),
        )
        line = history_line(
            "learn",
            who=who,
            names=[move.name for move in moves if move.kind == "good"],
            confirmed=[move.name for move in moves if move.kind == "bad"],
            ignored=[item.ignored for item in would if item.ignored is not None],
            version_old=short_name(self._versions.model),
            version_new=short_name(self._next / "model.onnx"),
            threshold_old=preview.threshold_old,
            threshold_new=preview.threshold_new,
            now_passes=list(preview.now_passes),
            still_found=f"{len(preview.still_found)} of {preview.guarded}",
            lost="" if preview.loss is None else preview.loss.sentence,
            name=word.name,
            second=word.second,
            forced=word.forced,
        )
        return Announcement(
            model=full_name(self._next / "model.onnx"),
            line=line,
            moves=moves,
            done_with=tuple(item.name for item in would if item.ignored is not None),
        )

    def _move(self, alarm_id: str, kind: Kind) -> Move:
        name = self._pictures.free_name(alarm_id, kind=kind)
        return Move(alarm=alarm_id, kind=kind, name=name)

    def _change(self, plan: Callable[[], Announcement], do: Callable[[], None]) -> Facts:
        """Announce, let the recipe's model decide, and end it; the line of the history."""
        with lock_folder(self._project.folder):
            announcement = plan()
            with self._intent.hold(asdict(announcement)):
                try:
                    do()
                except Exception:
                    self._end(announcement)
                    raise
                self._end(announcement)
        return announcement.line

    def _go_on(self) -> None:
        """What was killed is ended, and what nobody will take goes."""
        with suppress(EdgesegError), lock_folder(self._project.folder):  # whoever uses them is told
            with self._intent.find_left() as noted:
                if noted is not None:
                    with suppress(Malformed):  # killed before anything was changed
                        self._end(record(Announcement, noted))
                    self._intent.withdraw()
            preview = read_preview(self._next)
            if preview is not None and not self._is_fresh(preview):
                shutil.rmtree(self._next, ignore_errors=True)

    def _end(self, announcement: Announcement) -> None:
        """If the announced model runs, all else follows; each step may have been done already."""
        running = self._versions.running()
        if running is not None and announcement.model == full_name(running):
            self._settle(announcement)
        self._intent.withdraw()

    def _settle(self, announcement: Announcement) -> None:
        """The fit is what runs, pictures are what people said, and the history has it."""
        self._versions.follow(self._next)
        for move in announcement.moves:
            picture = self._feedback.picture(move.alarm)
            self._pictures.move_in(picture, move.name, kind=move.kind)
            self._feedback.forget(move.alarm)
        for alarm_id in announcement.done_with:
            self._feedback.forget(alarm_id)
        line = announcement.line
        for name in line.get("removed", ()):
            with suppress(UsageError):
                self._pictures.remove(name)  # `restore` has it
        self._look_elsewhere([corners(box) for box in line.get("ignored", ())], seen=False)
        self._look_elsewhere([corners(box) for box in line.get("seen_again", ())], seen=True)
        if line not in self._project.history():
            self._project.write_line(line)

    def _look_elsewhere(self, places: list[Polygon], *, seen: bool) -> None:
        """Let the next fit ignore what the model ignores, or not."""

        def changed(settings: ProjectSettings) -> ProjectSettings:
            region = settings.region
            region = region.seeing(places) if seen else region.ignoring(places)
            return replace(settings, region=region)

        if places:
            self._project.change(changed)

    def _brought(self) -> Facts:
        """What the version that runs has learned, if it has."""
        running = self._versions.running()
        version = None if running is None else short_name(running)
        learned = [line for line in self._project.history() if line["event"] == "learn"]
        return next((line for line in learned[::-1] if line["version_new"] == version), {})


def _of(preview: Preview) -> str:
    """By which a preview is known again: its marks, its base, and what it comes to."""
    return f"{preview.basis}:{preview.version}:{preview.threshold_new!r}"


def check_supervisor(who: Who) -> None:
    """Refuse everybody else."""
    if who != "supervisor":
        raise UsageError(Message("needs_supervisor"))
