"""What learning missed defects changes: known defects that are found, and alarms on good parts."""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from edgeseg.base.messages import Message
from edgeseg.decision.prediction import above
from edgeseg.modelfile.known_kinds import KnownFacts
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.teach.known_defects import Survey
from edgeseg.teach.report import read_report


@dataclass(frozen=True, kw_only=True)
class GoodAlarms:
    """Good parts above the threshold, each judged by a model that was fitted without it."""

    alarms: int
    parts: int

    @property
    def per_thousand(self) -> float:
        """Alarms in a thousand good parts."""
        return 1000 * self.alarms / self.parts if self.parts else 0.0


@dataclass(frozen=True, kw_only=True)
class ChangeOfKind:
    """The model that runs and the next one, on known defects of one kind."""

    kind: str  # of missed defects; empty: golden and bad parts and confirmed alarms, of no kind
    known: int
    found_before: int  # by the model that runs
    found_after: int  # by the next one, which has learned from the missed ones
    found_by_others: int | None = None  # each by what the others teach; None: not known

    @property
    def sentence(self) -> Message:
        """A sentence for people."""
        known, now, then = self.known, self.found_before, self.found_after
        if not self.kind:
            return Message("change_parts", n_all=known, n_now=now, n_then=then)
        if self.found_by_others is None:
            return Message("change_kind", kind=self.kind, n_all=known, n_now=now, n_then=then)
        others = self.found_by_others
        return Message(
            "change_kind_others", kind=self.kind, n=others, n_all=known, n_now=now, n_then=then
        )


@dataclass(frozen=True, kw_only=True)
class MissedChange:
    """The model that runs and the next one, on known defects and on good parts."""

    kinds: tuple[ChangeOfKind, ...]
    good_before: GoodAlarms
    good_after: GoodAlarms

    @property
    def known(self) -> int:
        """How many known defects there are: golden, bad, confirmed and missed ones."""
        return sum(each.known for each in self.kinds)

    @property
    def found_before(self) -> int:
        """How many of them the model that runs finds."""
        return sum(each.found_before for each in self.kinds)

    @property
    def found_after(self) -> int:
        """How many of them the next model finds."""
        return sum(each.found_after for each in self.kinds)

    @property
    def by_others(self) -> tuple[int, int] | None:
        """How many missed defects are found by what the others teach, and of how many."""
        told = [each for each in self.kinds if each.found_by_others is not None]
        found = sum(each.found_by_others or 0 for each in told)
        return (found, sum(each.known for each in told)) if told else None

    def facts(self) -> dict[str, Any]:
        """Facts for a preview, with alarms per thousand."""
        others = self.by_others
        return {
            "known": self.known,
            "found_before": self.found_before,
            "found_after": self.found_after,
            "by_others": None if others is None else {"found": others[0], "of": others[1]},
            "kinds": [{**asdict(each), "sentence": each.sentence} for each in self.kinds],
            "good_before": asdict(self.good_before),
            "good_after": asdict(self.good_after),
            "per_thousand_before": self.good_before.per_thousand,
            "per_thousand_after": self.good_after.per_thousand,
        }


def change_of(
    fit: Path, folder: Path, known: Survey, found: Collection[str], taught: KnownFacts | None
) -> MissedChange:
    """Compare the model that runs, by its survey, with the one in a folder, which finds `found`.

    `taught` tells what missed defects taught it; None: nothing.
    """
    others: dict[str, int] = {}
    if taught is not None and taught.pictures > 1:  # a single one is found by what itself teaches
        others = {each.kind: each.found for each in taught.kinds}
    names: dict[str, list[str]] = {}
    for name, source in known.kinds.items():
        kind = PurePosixPath(name).parts[0] if source == "missed" else ""
        names.setdefault(kind, []).append(name)
    kinds = (
        ChangeOfKind(
            kind=kind,
            known=len(own),
            found_before=sum(name in known.guards for name in own),
            found_after=sum(name in found for name in own),
            found_by_others=others.get(kind),
        )
        for kind, own in names.items()
    )
    return MissedChange(
        kinds=tuple(kinds), good_before=_good_alarms(fit), good_after=_good_alarms(folder)
    )


def _good_alarms(folder: Path) -> GoodAlarms:
    scores = np.array(read_report(folder).of_parts()[0])
    threshold = file_metadata(folder / "model.onnx").threshold.score
    alarms = int(np.count_nonzero(above(scores, threshold)))
    return GoodAlarms(alarms=alarms, parts=len(scores))
