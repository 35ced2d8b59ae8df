"""The choice of another false-alarm rate, and the defects that it no longer finds."""

from collections.abc import Container
from dataclasses import replace
from typing import Any

from edgeseg.base.errors import UsageError
from edgeseg.base.files import file_sha256
from edgeseg.base.messages import Message
from edgeseg.decision.lost_defects import Loss, loss_between
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.teach.judging import judge_facts, row
from edgeseg.teach.learning import loss_facts
from edgeseg.teach.project import Project
from edgeseg.teach.report import FitReport, read_report
from edgeseg.teach.second_person import Consent, clear_pending, confirm_pending, request_second
from edgeseg.teach.versions import Versions, full_name

Facts = dict[str, Any]


class RateChoice:
    """Judges the fit and stores a rate; may be called from any thread."""

    def __init__(self, project: Project, versions: Versions) -> None:
        self._project, self._versions = project, versions

    def judge(self, *, kept: Container[str] = ()) -> Facts:
        """Judge the last fit: each rate, with what it loses against the model that runs."""
        report, metadata = read_report(self._project.fit), self._versions.metadata()
        if metadata is None:
            raise UsageError(Message("fit_nothing"))
        facts, running = judge_facts(report, metadata.threshold, kept=kept), self._running()
        for each in facts["table"]:
            each["loss"] = _facts(self._loss(report, each["threshold"], running))
        return facts

    def choose(self, per_thousand: float, consent: Consent) -> Facts:
        """Store a rate, if one person may decide it or two have; return its row of the table."""
        self._versions.check_rate(per_thousand)
        report = read_report(self._project.fit)
        loss = self._loss(report, report.point(per_thousand).score, self._running())
        if loss is not None and loss.asks and not consent.enough:
            raise request_second(
                self._project,
                "choose",
                of=self._of(per_thousand),
                name=consent.name,
                per_thousand=per_thousand,
                sentence=Message("choose_second", loss=loss.sentence),
            )
        self._versions.choose(per_thousand)
        self._project.change(lambda settings: replace(settings, rate=per_thousand / 1000))
        clear_pending(self._project)
        chosen = row(report, per_thousand)
        self._project.log(
            "threshold",
            per_thousand=per_thousand,
            threshold=chosen["threshold"],
            name=consent.name,
            second=consent.second,
            lost="" if loss is None else loss.sentence,
        )
        return {**chosen, "loss": _facts(loss)}

    def confirm(self, name: str) -> Facts:
        """Store the rate that another supervisor has asked for."""
        asked, consent = confirm_pending(self._project, name=name)
        if asked.per_thousand is None or asked.of != self._of(asked.per_thousand):
            raise UsageError(Message("learn_changed"))
        return self.choose(asked.per_thousand, consent)

    def _of(self, per_thousand: float) -> str:
        return f"{full_name(self._versions.model)}:{per_thousand!r}"

    def _running(self) -> float | None:
        """Threshold of the model that runs; None if it is not of this fit."""
        running = self._versions.running()
        if running is None or file_sha256(running) != file_sha256(self._versions.model):
            return None
        return file_metadata(running).threshold.score

    def _loss(self, report: FitReport, threshold: float, running: float | None) -> Loss | None:
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
