"""Another rate of false alarms for the fit, and what it no longer finds of what is found now."""

from dataclasses import replace
from typing import Any

from edgeseg.base.errors import UsageError
from edgeseg.base.files import file_sha256
from edgeseg.base.messages import Message
from edgeseg.decision.lost_defects import Loss, loss_between
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.teach.asked import Word, ask, confirmed, settle_asked
from edgeseg.teach.judging import judged, point, row
from edgeseg.teach.learning import loss_facts
from edgeseg.teach.project import Project
from edgeseg.teach.report import Report, read_report
from edgeseg.teach.versions import Versions, full_name

Facts = dict[str, Any]


class Choosing:
    """May be called from any thread."""

    def __init__(self, project: Project, versions: Versions) -> None:
        self._project, self._versions = project, versions

    def judge(self) -> Facts:
        """What the last fit is worth, each rate with what it loses against what runs."""
        report, metadata = read_report(self._project.fit), self._versions.metadata()
        if metadata is None:
            raise UsageError(Message("fit_nothing"))
        facts, running = judged(report, metadata.threshold), self._running()
        for each in facts["table"]:
            each["loss"] = _facts(self._loss(report, each["threshold"], running))
        return facts

    def choose(self, per_thousand: float, word: Word) -> Facts:
        """Take it, if one person may decide it or two have; the row of the table."""
        self._versions.check_rate(per_thousand)
        report = read_report(self._project.fit)
        loss = self._loss(report, point(report, per_thousand).score, self._running())
        if loss is not None and loss.asks and not word.enough:
            raise ask(
                self._project,
                "choose",
                of=self._of(per_thousand),
                name=word.name,
                per_thousand=per_thousand,
                sentence=Message("choose_second", loss=loss.sentence),
            )
        self._versions.choose(per_thousand)
        self._project.change(lambda settings: replace(settings, rate=per_thousand / 1000))
        settle_asked(self._project)
        chosen = row(report, per_thousand)
        self._project.log(
            "threshold",
            per_thousand=per_thousand,
            threshold=chosen["threshold"],
            name=word.name,
            second=word.second,
            lost="" if loss is None else loss.sentence,
        )
        return {**chosen, "loss": _facts(loss)}

    def confirm(self, name: str) -> Facts:
        """The same for what somebody else has asked for."""
        asked, word = confirmed(self._project, name=name)
        if asked.per_thousand is None or asked.of != self._of(asked.per_thousand):
            raise UsageError(Message("learn_changed"))
        return self.choose(asked.per_thousand, word)

    def _of(self, per_thousand: float) -> str:
        return f"{full_name(self._versions.model)}:{per_thousand!r}"

    def _running(self) -> float | None:
        """The threshold that runs, if it is one of this fit; None: there is none to lose from."""
        running = self._versions.running()
        if running is None or file_sha256(running) != file_sha256(self._versions.model):
            return None
        return file_metadata(running).threshold.score

    def _loss(self, report: Report, threshold: float, running: float | None) -> Loss | None:
        if running is None:
            return None
        loss = loss_between(
            running,
            threshold,
            planted=report.planted,
            known=[float("inf") if item.score is None else item.score for item in report.bad],
            may_lose=self._project.settings().may_lose,
        )
        return replace(loss, earlier_share=report.lost, earlier_rise=report.rise)


def _facts(loss: Loss | None) -> Facts | None:
    return None if loss is None else loss_facts(loss)
