"""Make marks the version that runs, and go back: preview, golden check, swap, history.

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
from edgeseg.teach.background_job import BackgroundJob
from edgeseg.teach.feedback import Feedback, Who
from edgeseg.teach.learning import Preview, basis_of, read_preview, version_of
from edgeseg.teach.missed import ask_for, drop_asked, take_in, take_out
from edgeseg.teach.pictures import Pictures
from edgeseg.teach.project import Kind, Project, ProjectSettings, corners, history_line
from edgeseg.teach.report import read_report, store_report
from edgeseg.teach.second_person import (
    Consent,
    SecondNeededError,
    clear_pending,
    confirm_pending,
    request_second,
)
from edgeseg.teach.versions import Versions, full_name, short_name
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
    "guards": [],
    "golden": [],
    "problems": [],
    "missed": [],
    "change": None,
    "of": "",
}
NOBODY = Consent()
_NAMED = 3  # pictures in a sentence


@dataclass(frozen=True, kw_only=True)
class Move:
    """A marked picture that becomes one of the project's."""

    alarm: str
    kind: Kind
    name: str


@dataclass(frozen=True, kw_only=True)
class Announcement:
    """The steps that follow once a model runs."""

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
        work: BackgroundJob,
    ) -> None:
        self._project, self._versions = project, versions
        self._feedback, self._pictures, self.work = feedback, pictures, work
        self._next = project.folder / "next"
        self._untold = False  # how the last preview ended, if it was begun and is not there
        busy = Message("learn_under_way")
        self._intent = Intent(project.folder / "announced.json", busy=busy)
        self._go_on()

    def preview(self) -> Facts:
        """Tell what learning would do; begin to find out where it is not known yet."""
        self._versions.check_learnable()
        preview = self._fresh_preview()
        if preview is not None:
            self._untold = False
            return {"state": "ready", **preview.facts()}
        failed = self._untold and self.work.facts()["state"] in ("failed", "cancelled")
        if not self.work.running and not failed:
            self._untold = True
            around = self._logging_failure("preview_failed")
            start = Message("starting")
            self.work.start("next", finish=self._keep_preview, sentence=start, around=around)
        now = self.work.facts()
        if now["state"] != "running":
            self._untold = False  # whoever asks again begins anew
        return {"state": now["state"], **_EMPTY, "sentence": now["sentence"]}

    def learn(self, who: Who, consent: Consent = NOBODY, *, of: str) -> Facts:
        """Begin to install the version of a preview, which is the one that was looked at.

        One that loses more than a single person may decide is refused, and waits to be confirmed.
        """
        check_supervisor(who)
        self._versions.check_learnable()
        preview = self._fresh_preview()
        if preview is None or preview.key != of:
            raise UsageError(Message("learn_changed"))
        if not self.work.running:
            self._permit(preview, consent)
        self._begin(who, consent)
        return self.work.facts()

    def ask_for(self, missed: Path) -> tuple[str, ...]:
        """Let the next preview be of missed defects, in place of marks; return their names."""
        self._versions.check_learnable()
        return ask_for(self._project, missed)

    def drop_asked(self) -> None:
        """Let the next preview be of marks again."""
        drop_asked(self._project)

    def cancel(self, who: Who) -> Facts:
        """Cancel a preview that is being made; what runs stays."""
        check_supervisor(who)
        self.work.cancel()
        return self.work.facts()

    def confirm(self, who: Who, name: str) -> Facts:
        """Begin what another supervisor has asked for."""
        check_supervisor(who)
        self._versions.check_learnable()
        asked, consent = confirm_pending(self._project, name=name)
        preview = self._fresh_preview()
        if preview is None or asked.of != preview.key:
            raise UsageError(Message("learn_changed"))
        self._begin(who, consent)
        return self.work.facts()

    def _begin(self, who: Who, consent: Consent) -> None:
        """Install the version that was made."""

        def install() -> Words:
            with self._logging_failure("learn_failed"):
                return self._install(who, consent)

        self.work.start_here(install, sentence=Message("run_checking"))

    @contextmanager
    def _logging_failure(self, event: str) -> Iterator[None]:
        """Log a learning or a preview that fails to the history, with what was marked."""
        try:
            yield
        except SecondNeededError:
            raise  # who asked stands there already
        except Exception as error:
            with suppress(OSError, EdgesegError):  # of a full disk, of which the error tells
                self._project.log(event, why=words_of(error), names=self._names_of(event))
            raise

    def _names_of(self, event: str) -> list[str]:
        """Name the pictures that were to be learned, or all that were marked."""
        if event == "preview_failed":
            return [item.alarm.id for item in self._feedback.items()]
        preview = read_preview(self._next)
        return [] if preview is None else [item.name for item in preview.would_learn]

    def _permit(self, preview: Preview, consent: Consent) -> None:
        """Refuse what one person alone must not decide."""
        if preview.loss is None or consent.enough:
            return
        loss = replace(preview.loss, may_lose=self._project.settings().may_lose)
        if loss.asks:
            bold = sorted(preview.would_learn, key=lambda item: -item.score)[:_NAMED]
            raise request_second(
                self._project,
                "learn",
                of=preview.key,
                name=consent.name,
                sentence=Message(
                    "learn_second", names=", ".join(e.name for e in bold), loss=loss.sentence
                ),
            )

    def rollback(self, who: Who) -> Facts:
        """Go back to the version before; pictures that were learned since leave good/."""
        check_supervisor(who)
        if self.work.running:
            raise UsageError(Message("learn_under_way"))
        line = self._change(lambda: self._announce_rollback(who), self._versions.rollback)
        return {"version": line["version"], "threshold": line["threshold"]}

    def _fresh_preview(self) -> Preview | None:
        preview = read_preview(self._next)
        if preview is None or not self._is_fresh(preview):
            return None
        tried = preview.loss is not None or preview.threshold_new is None
        return preview if tried else None  # of a version that did not count what is lost

    def _is_fresh(self, preview: Preview) -> bool:
        """Tell whether a preview is of the present marks and the present model."""
        now = (basis_of(self._project), version_of(self._project))
        return (preview.basis, preview.version) == now

    def _keep_preview(self, folder: Path, done: Facts) -> Words:
        shutil.rmtree(self._next, ignore_errors=True)
        folder.rename(self._next)
        if "missed" in done:
            return Message("learn_could_missed", n=done["missed"])
        if done.get("ignored"):
            return Message("learn_could_ignore", n=done.get("learned"), n_places=done["ignored"])
        return Message("learn_could", n=done.get("learned"))

    def _install(self, who: Who, consent: Consent = NOBODY) -> Words:
        """Install the version that was made: golden check, swap, history."""
        preview = read_preview(self._next)
        if preview is None or preview.threshold_new is None:
            reasons = [] if preview is None else [item.reason for item in preview.held_back]
            raise UsageError(Message("learn_nothing", why=reasons or Message("mark_none")))
        if preview.problems:
            raise UsageError(preview.sentence)
        if not self._is_fresh(preview):
            raise UsageError(Message("learn_changed"))
        self._permit(preview, consent)
        if consent.enough:  # from here on others are held against what both have seen
            store_report(self._next, replace(read_report(self._next), lost=0.0, rise=1.0))
        made = self._next / "model.onnx"
        self._change(
            lambda: self._announce_learning(preview, who, consent),
            lambda: self._versions.install_learned(made),
        )
        clear_pending(self._project)
        return preview.sentence

    def _announce_rollback(self, who: Who) -> Announcement:
        """List the steps that follow once the version before runs."""
        earlier = self._versions.earlier()
        brought = self._last_learning()
        good = {path.name for path in images_in(self._project.pictures("good"))}
        line = history_line(
            "rollback",
            who=who,
            removed=[name for name in brought.get("names", ()) if name in good],
            seen_again=brought.get("ignored", []),
            missed_out=brought.get("missed", []),
            version=short_name(earlier),
            threshold=file_metadata(earlier).threshold.score,
        )
        return Announcement(model=full_name(earlier), line=line)

    def _announce_learning(self, preview: Preview, who: Who, consent: Consent) -> Announcement:
        """List the steps that follow once the version that was made runs."""
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
            missed=list(preview.missed),
            still_found=f"{len(preview.still_found)} of {preview.guarded}",
            lost="" if preview.loss is None else preview.loss.sentence,
            name=consent.name,
            second=consent.second,
            forced=consent.forced,
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
        """Announce a change, replace the recipe's model, and end it; return the history line."""
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
        """End a change that was killed, and delete a preview that no longer holds."""
        with suppress(EdgesegError), lock_folder(self._project.folder):  # whoever uses them is told
            with self._intent.find_left() as noted:
                if noted is not None:
                    with suppress(Malformed):  # killed before anything was changed
                        announcement = record(Announcement, noted)
                        if not self._end(announcement):
                            self._log_killed(announcement.line)
                    self._intent.withdraw()
            drop_asked(self._project)  # by a command that was killed
            preview = read_preview(self._next)
            if preview is not None and not self._is_fresh(preview):
                shutil.rmtree(self._next, ignore_errors=True)

    def _end(self, announcement: Announcement) -> bool:
        """Do all further steps if the announced model runs; each may have been done already.

        Returns whether it runs.
        """
        running = self._versions.running()
        runs = running is not None and announcement.model == full_name(running)
        if runs:
            self._settle(announcement)
        self._intent.withdraw()
        return runs

    def _log_killed(self, line: Facts) -> None:
        """Log a learning whose process was killed before its model ran."""
        if line["event"] == "learn":
            gone = Message("work_gone")
            self._project.log("learn_failed", why=gone, names=line["names"], begun=line["when"])

    def _settle(self, announcement: Announcement) -> None:
        """Make the fit what runs, move the marked pictures, and write the history line."""
        self._versions.follow(self._next)
        for move in announcement.moves:
            picture = self._feedback.picture(move.alarm)
            self._pictures.move_in(picture, move.name, kind=move.kind)
            self._feedback.forget(move.alarm)
        for alarm_id in announcement.done_with:
            self._feedback.forget(alarm_id)
        line = announcement.line
        if line.get("missed"):
            take_in(self._project, line["missed"])
        take_out(self._project, line.get("missed_out", []))
        for name in line.get("removed", ()):
            with suppress(UsageError):
                self._pictures.remove(name)  # `restore` has it
        self._change_ignored([corners(box) for box in line.get("ignored", ())], seen=False)
        self._change_ignored([corners(box) for box in line.get("seen_again", ())], seen=True)
        if line not in self._project.history():
            self._project.write_line(line)

    def _change_ignored(self, places: list[Polygon], *, seen: bool) -> None:
        """Let the next fit ignore these places, or see them again."""

        def change_region(settings: ProjectSettings) -> ProjectSettings:
            region = settings.region
            region = region.without_ignored(places) if seen else region.with_ignored(places)
            return replace(settings, region=region)

        if places:
            self._project.change(change_region)

    def _last_learning(self) -> Facts:
        """Find the history line of the learning that made the running version."""
        running = self._versions.running()
        version = None if running is None else short_name(running)
        learned = [line for line in self._project.history() if line["event"] == "learn"]
        return next((line for line in learned[::-1] if line["version_new"] == version), {})


def check_supervisor(who: Who) -> None:
    """Refuse everybody but a supervisor."""
    if who != "supervisor":
        raise UsageError(Message("needs_supervisor"))
