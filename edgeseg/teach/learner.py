"""From marks to the version that runs, and back: preview, golden check, swap, history."""

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from edgeseg.errors import EdgesegError, UsageError
from edgeseg.teach.feedback import Feedback, Who
from edgeseg.teach.learning import Preview, basis_of, read_preview, version_of
from edgeseg.teach.pictures import Pictures
from edgeseg.teach.process import Work
from edgeseg.teach.project import Kind, Project
from edgeseg.teach.versions import Versions

Facts = dict[str, Any]
_EMPTY: Facts = {
    "would_learn": [],
    "held_back": [],
    "threshold_old": None,
    "threshold_new": None,
    "now_passes": [],
    "still_found": {"found": 0, "of": 0},
}


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
        self._go_on()

    def preview(self) -> Facts:
        """What learning would do; where that is not known yet, begin to find out."""
        self._versions.check_learnable()
        preview = self._fresh_preview()
        if preview is not None:
            return {"state": "ready", **preview.facts()}
        if not self.work.running:
            self.work.start("next", finish=self._keep_preview, sentence="starting")
        now = self.work.facts()
        return {"state": now["state"], **_EMPTY, "sentence": now["sentence"]}

    def learn(self, who: Who) -> Facts:
        """Begin; the version of a preview that still holds is taken as it is."""
        _check_supervisor(who, "learn")
        self._versions.check_learnable()
        if self._fresh_preview() is not None:
            sentence = "checking the golden pictures"
            self.work.start_here(lambda: self._install(who), sentence=sentence)
        else:
            self.work.start(
                "next",
                finish=lambda folder, done: self._keep_preview(folder, done) and self._install(who),
                sentence="starting",
            )
        return self.work.facts()

    def rollback(self, who: Who) -> Facts:
        """The version of before runs again; pictures that the other had learned leave good/."""
        _check_supervisor(who, "go back")
        if self.work.running:
            raise UsageError("a learning is under way; wait for it")
        left = self._versions.running()
        back = self._versions.rollback()
        self._project.log("rollback", who=who, removed=self._unlearned(left), **back)
        return back

    def _fresh_preview(self) -> Preview | None:
        preview = read_preview(self._next)
        return preview if preview is not None and self._is_fresh(preview) else None

    def _is_fresh(self, preview: Preview) -> bool:
        """A preview of other marks, or of another model, is worth nothing."""
        now = (basis_of(self._project), version_of(self._project))
        return (preview.basis, preview.version) == now

    def _keep_preview(self, folder: Path, done: Facts) -> str:
        shutil.rmtree(self._next, ignore_errors=True)
        folder.rename(self._next)
        return f"{done.get('learned')} pictures could be learned"

    def _install(self, who: Who) -> str:
        """Let the version that was made take over: golden check, swap, history."""
        preview = read_preview(self._next)
        if preview is None or preview.threshold_new is None:
            why = "" if preview is None else "; ".join(item.reason for item in preview.held_back)
            raise UsageError(f"nothing to learn: {why or 'nothing was marked'}")
        if not self._is_fresh(preview):
            raise UsageError("marks or the model have changed since; look at the preview again")
        self._versions.learned(self._next / "model.onnx")
        self._settle(preview, who)
        return preview.sentence

    def _go_on(self) -> None:
        """A learning that was killed after its model had taken over is ended here."""
        preview = read_preview(self._next)
        with suppress(EdgesegError):  # of damaged files: whoever uses them is told
            made = self._next / "model.onnx"
            if preview is None:
                return
            if not self._versions.is_installed() and self._versions.runs(made):
                self._settle(preview, "supervisor")
            elif not self._is_fresh(preview):
                shutil.rmtree(self._next, ignore_errors=True)

    def _settle(self, preview: Preview, who: Who) -> None:
        """The model runs: its folder is the fit now, and what it learned is a good picture."""
        before = (self._versions.facts() or {}).get("version")
        self._versions.take_in(self._next)
        marked = {item.alarm.id: item.said for item in self._feedback.items()}
        names = [item.name for item in preview.would_learn if item.name in marked]
        confirmed = [name for name, said in marked.items() if said == "defect"]
        self._project.log(
            "learn",
            who=who,
            names=[self._take_marked(name, kind="good") for name in names],
            confirmed=[self._take_marked(name, kind="bad") for name in confirmed],
            version_old=before,
            version_new=(self._versions.facts() or {}).get("version"),
            threshold_old=preview.threshold_old,
            threshold_new=preview.threshold_new,
            now_passes=list(preview.now_passes),
            still_found=f"{len(preview.still_found)} of {preview.guarded}",
        )

    def _take_marked(self, alarm_id: str, *, kind: Kind) -> str:
        name = self._pictures.moved_in(self._feedback.picture(alarm_id), kind=kind)
        self._feedback.forget(alarm_id)
        return name

    def _unlearned(self, version: str | None) -> list[str]:
        """Pictures that a version had brought leave good/; `restore` has them."""
        learned = [line for line in self._project.history() if line["event"] == "learn"]
        brought = next((line for line in learned[::-1] if line["version_new"] == version), None)
        removed = []
        for name in [] if brought is None else brought["names"]:
            with suppress(UsageError):
                self._pictures.remove(name)
                removed.append(name)
        return removed


def _check_supervisor(who: Who, what: str) -> None:
    if who != "supervisor":
        raise UsageError(f"to {what} changes decisions, and needs a supervisor")
