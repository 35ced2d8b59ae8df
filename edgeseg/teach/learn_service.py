"""The calls by which people decide on a model: judge, mark alarms, learn, roll back.

The part of TeachService that changes what a model says, and asks who says so.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message
from edgeseg.teach.alarms import KEPT, Alarms
from edgeseg.teach.background_job import BackgroundJob
from edgeseg.teach.feedback import Author, Feedback, MarkWord, Who
from edgeseg.teach.golden_set import golden_picture
from edgeseg.teach.last_parts import LastParts
from edgeseg.teach.learner import Learner, check_supervisor
from edgeseg.teach.marks import Marks, SeenCard
from edgeseg.teach.missed_marks import MissedMarks
from edgeseg.teach.picture_review import PictureReview
from edgeseg.teach.pictures import Pictures
from edgeseg.teach.project import Kind, Project
from edgeseg.teach.rate_choice import RateChoice
from edgeseg.teach.second_person import Consent, clear_pending, pending_decision
from edgeseg.teach.thumbnails import ThumbnailCache, shrunk_jpeg
from edgeseg.teach.versions import Versions
from edgeseg.vision.geometry import Polygon
from edgeseg.vision.images import decode_image

Facts = dict[str, Any]
Mark = MarkWord


class LearnService:
    """The part of TeachService that judges and learns."""

    def __init__(
        self,
        project: Project,
        *,
        versions: Versions,
        pictures: Pictures,
        alarms: Alarms,
        parts: LastParts,
        child: Sequence[str],
    ) -> None:
        self.project, self._feedback = project, Feedback(project.feedback)
        self._marks = Marks(project, alarms=alarms, feedback=self._feedback)
        self._parts, self._missed = parts, MissedMarks(project, parts=parts)
        self._thumbnails = ThumbnailCache()
        self._rate_choice = RateChoice(project, versions)
        self._pictures, self._review = pictures, PictureReview(project, pictures.list)
        self._learner = Learner(
            project,
            versions=versions,
            feedback=self._feedback,
            pictures=pictures,
            work=BackgroundJob(project, command=child),
        )

    def judge(self) -> Facts:
        """Judge the last fit.

        {"scores": {"edges": [n + 1], "good": [n], "planted": [n], "bad": [n]},
         "table": [{"per_thousand", "threshold", "promise", "kept": bool, "good_alarms",
                    "planted_found": share | null, "bad_found": share | null,
                    "warning": null | why few planted defects are found,
                    "loss": null | that of `learn_preview`, against what runs}],
         "chosen": per_thousand,
         "worst": [{"name", "score", "p_value", "foreign", "oddest", "asks", "kept",
                    "threshold_without": null | without it and the higher ones}],
         "bad": [{"name", "score", "found"}], "guarantee", "sentence": promise and guarantee,
         and what PictureReview.apply adds: what somebody has to look at}
        """
        return self._review.apply(self._rate_choice.judge(kept=self._review.names_kept()))

    def keep(self, name: str, *, who: Who) -> Facts:
        """Store that a good picture was looked at and is one; returns {"name"}."""
        self._review.keep(name, who=who)
        return {"name": name}

    def choose(self, per_thousand: float, *, name: str = "") -> Facts:
        """Store another false-alarm rate; return its row of the table.

        One that loses many of the defects that are found now waits for `confirm`.
        """
        return self._rate_choice.choose(float(per_thousand), Consent(name=name))

    @property
    def rejects(self) -> Marks:
        """The alarms that are kept, for the operator's screen.

        [{"id", "when", "score", "p_value", "verdict", "box": [x, y, w, h] | null, "width",
          "height", "part", "picture", "large",
          "marks": [{"mark", "who", "name", "when", "counts": bool}]}]
        """
        return self._marks

    def alarms(self, after: str = "", *, most: int = KEPT) -> list[Facts]:
        """List the alarms after an id, the newest first, as in `rejects`."""
        return self._marks.alarms(after, most=most)

    def alarm_jpeg(self, alarm_id: str, *, width: int = 0) -> bytes:
        """Encode the whole picture of the camera, not only the region; width 0 is its own."""
        return self._thumbnails.jpeg(self._marks.picture(alarm_id), width=width)

    def mark(
        self, alarm_id: str, mark: Mark, *, who: Who, name: str, card: SeenCard | None = None
    ) -> Facts:
        """Mark an alarm; it waits in feedback/. Returns the alarm as in `alarms`.

        `card` is what the person pressed; a mark of anything else is refused.
        """
        clear_pending(self.project)
        return self._marks.mark(alarm_id, mark, who=who, name=name, card=card)

    def marks(self) -> list[Facts]:
        """List what is marked and not learned, as in `alarms`; "said" is the mark that counts.

        Of a mark whose file is damaged only {"id", "said": "damaged", "marks": []} is known.
        """
        return self._marks.waiting()

    def withdraw(self, alarm_id: str, *, by: Author, of: Author | None) -> Facts:
        """Take back somebody's mark, or all; returns {"alarm", "marks": those left}."""
        left = self._marks.withdraw(alarm_id, by=by, of=of)
        clear_pending(self.project)
        return left

    def learn_preview(self) -> Facts:
        """Tell what learning would do now.

        {"state": "running|ready|failed|cancelled" (what follows is empty until it is ready),
         "would_learn": [{"name", "score", "why", "ignored": [x, y, w, h] | null (learned, unless
                         this place of it is to be ignored)}], "held_back": [{"name", "reason"}],
         "threshold_old", "threshold_new": number | null, "now_passes": [names],
         "still_found": {"found": n, "of": m}, "sentence",
         "guards": [{"name", "kind": "mark|bad|golden|missed"}] for whose sake pictures are held
                    back,
         "golden": [{"name", "kind": "good|bad", "ours": bool, "approved": bool}] that it would
                   judge wrong, or that nobody has approved,
         "missed": [names] of missed defects, which are learned in place of marks,
         "change": null | {"known": n defects, "found_before", "found_after",
                           "by_others": null | {"found", "of"} (missed ones, each by a model that
                           has learned from the others alone), "kinds": [{"kind", "known",
                           "found_before", "found_after", "found_by_others", "sentence"}],
                           "good_before", "good_after": {"alarms": n, "parts": m},
                           "per_thousand_before", "per_thousand_after"} of missed defects,
         "problems": [why the golden check would refuse it],
         "of": what `learn` is given to do this and nothing else,
         "loss": null | {"planted_found": n, "planted_lost": m of these, "share": null | m / n,
                         "known_found", "known_lost", "asks": bool, "sentence", ...}}
        """
        return self._learner.preview()

    def passed_parts(self) -> Facts:
        """List the parts that are shown; they stand still until somebody looks again.

        {"items": [{"id", "when", "part", "verdict", "score", "threshold", "width", "height",
                    "picture", "large"}], "kinds": [names of kinds so far]}
        """
        items = [part.facts() for part in self._parts.shown_parts()]
        return {"items": items, "kinds": self._missed.kinds()}

    def look_at_parts(self) -> Facts:
        """Show the newest parts that passed from now on; returns `passed_parts`."""
        self._parts.look()
        return self.passed_parts()

    def part_jpeg(self, part_id: str, *, width: int = 0) -> bytes:
        """Encode all that the camera saw of a part that passed; width 0 is its own."""
        part = self._parts.find(part_id)
        return shrunk_jpeg(decode_image(part.png, name=part_id), width=width)

    def mark_missed(
        self, card: SeenCard, outlines: Sequence[Polygon], *, kind: str, who: Who, name: str
    ) -> Facts:
        """Mark a missed defect of a part that passed; returns it as in `missed_defects`."""
        clear_pending(self.project)
        return self._missed.mark(card, outlines, kind=kind, who=who, name=name)

    def missed_defects(self) -> list[Facts]:
        """List the missed defects that wait.

        [{"id", "part", "kind", "file", "who", "name", "when", "verdict", "score", "picture",
          "large", "known": bool (else nobody knows who marked it)}]
        """
        return self._missed.waiting()

    def missed_jpeg(self, part_id: str, *, width: int = 0) -> bytes:
        """Encode the picture of a missed defect that waits; width 0 is its own."""
        return self._thumbnails.jpeg(self._missed.picture(part_id), width=width)

    def withdraw_missed(self, part_id: str, *, by: Author) -> Facts:
        """Take back a missed defect that waits; returns it."""
        clear_pending(self.project)
        return self._missed.withdraw(part_id, by=by)

    def golden_jpeg(self, file: str, *, width: int = 0) -> bytes:
        """Encode a golden picture of the recipe; `file` is such as `good/001.png`."""
        return self._thumbnails.jpeg(golden_picture(self.project, file), width=width)

    def withdraw_golden(self, file: str, *, by: Author) -> Facts:
        """Take a golden picture out of what the next version must get right.

        Returns {"name": of its copy, which `restore` makes one of the project's}.
        """
        check_supervisor(by.who)
        path, kind = golden_picture(self.project, file), _golden_kind(file)
        name = self._pictures.withdraw_golden(path, kind=kind)
        clear_pending(self.project)
        self.project.log("golden_withdraw", picture=file, who=by.who, name=by.name)
        return {"name": name}

    def ask_for_missed(self, missed: Path) -> tuple[str, ...]:
        """Let `learn_preview` be of a folder of missed defects; return the names of new ones."""
        return self._learner.ask_for(missed)

    def drop_missed(self) -> None:
        """Let `learn_preview` be of what people marked again."""
        self._learner.drop_asked()

    def cancel_learn(self, *, who: Who) -> Facts:
        """Cancel a preview that is being made; returns the "learn" of `state`."""
        return self._learner.cancel(who)

    def learn(self, *, who: Who, of: str, name: str = "", force: bool = False) -> Facts:
        """Begin to install the version of a preview, its "of"; returns the "learn" of `state`.

        One that loses many of the defects that are found now waits for `confirm`.
        """
        return self._learner.learn(who, Consent(name=name, forced=force), of=of)

    def confirm(self, *, who: Who, name: str) -> Facts:
        """Do what another supervisor has asked for: learn, or choose a rate."""
        check_supervisor(who)
        asked = pending_decision(self.project)
        if asked is not None and asked.what == "choose":
            return self._rate_choice.confirm(name)
        return self._learner.confirm(who, name)

    def withdraw_asked(self, *, by: Author) -> Facts:
        """Take back what waits for a second supervisor; returns {"what"}."""
        check_supervisor(by.who)
        asked = pending_decision(self.project)
        if asked is None:
            raise UsageError(Message("confirm_nothing"))
        clear_pending(self.project)
        self.project.log(f"{asked.what}_withdraw", who=by.who, name=by.name, asked_by=asked.name)
        return {"what": asked.what}

    def rollback(self, *, who: Who) -> Facts:
        """Go back to the version before; returns {"version", "threshold"}."""
        clear_pending(self.project)
        return self._learner.rollback(who)


def _golden_kind(file: str) -> Kind:
    return "bad" if file.startswith("bad/") else "good"
