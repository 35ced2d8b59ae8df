"""From marks to the version that runs, and back: preview, golden check, swap, history."""

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from edgeseg.errors import UsageError
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
            self.work.start_here(lambda: self._install(self._next, who), sentence=sentence)
        else:
            self.work.start(
                "next", finish=lambda folder, done: self._install(folder, who), sentence="starting"
            )
        return self.work.facts()

    def rollback(self, who: Who) -> Facts:
        """The version of before runs again; pictures that the other had learned leave good/."""
        _check_supervisor(who, "go back")
        if self.work.running:
            raise UsageError("a learning is under way; wait for it")
        left = str((self._versions.facts() or {}).get("version"))
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

    def _install(self, folder: Path, who: Who) -> str:
        """Let a version that was made take over: golden check, swap, history."""
        preview = read_preview(folder)
        if preview is None or preview.threshold_new is None:
            why = "" if preview is None else "; ".join(item.reason for item in preview.held_back)
            raise UsageError(f"nothing to learn: {why or 'nothing was marked'}")
        if not self._is_fresh(preview):
            raise UsageError("marks or the model have changed since; look at the preview again")
        before = (self._versions.facts() or {}).get("version")
        self._versions.learned(folder / "model.onnx")
        self._versions.take_in(folder)
        names = [self._take_marked(item.name, kind="good") for item in preview.would_learn]
        confirmed = [item.alarm.id for item in self._feedback.items() if item.said == "defect"]
        self._project.log(
            "learn",
            who=who,
            names=names,
            confirmed=[self._take_marked(name, kind="bad") for name in confirmed],
            version_old=before,
            version_new=(self._versions.facts() or {}).get("version"),
            threshold_old=preview.threshold_old,
            threshold_new=preview.threshold_new,
            now_passes=list(preview.now_passes),
            still_found=f"{len(preview.still_found)} of {preview.guarded}",
        )
        return preview.sentence

    def _take_marked(self, alarm_id: str, *, kind: Kind) -> str:
        name = self._pictures.moved_in(self._feedback.picture(alarm_id), kind=kind)
        self._feedback.forget(alarm_id)
        return name

    def _unlearned(self, version: str) -> list[str]:
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
