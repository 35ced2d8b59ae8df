"""What learning missed defects changes: known defects that are found, and alarms on good parts."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeseg.decision.prediction import above
from edgeseg.teach.known_defects import is_alarm, open_detector
from edgeseg.teach.project import Project
from edgeseg.teach.report import read_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgeseg.runtime.scoring.detector import Detector


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
class MissedChange:
    """The model that runs and the next one, on known defects and on good parts."""

    known: int  # defects: golden and bad parts, confirmed alarms, and all missed ones
    found_before: int
    found_after: int
    good_before: GoodAlarms
    good_after: GoodAlarms

    def facts(self) -> dict[str, Any]:
        """Facts for a preview, with alarms per thousand."""
        return {
            **asdict(self),
            "per_thousand_before": self.good_before.per_thousand,
            "per_thousand_after": self.good_after.per_thousand,
        }


def count_change(project: Project, folder: Path, defects: "Sequence[Path]") -> MissedChange:
    """Judge known defects by the model that runs and by the one in a folder."""
    with (
        open_detector(project.fit / "model.onnx") as old,
        open_detector(folder / "model.onnx") as new,
    ):
        return MissedChange(
            known=len(defects),
            found_before=sum(is_alarm(old, path) for path in defects),
            found_after=sum(is_alarm(new, path) for path in defects),
            good_before=_good_alarms(project.fit, old),
            good_after=_good_alarms(folder, new),
        )


def _good_alarms(folder: Path, detector: "Detector") -> GoodAlarms:
    scores = np.array(read_report(folder).of_parts()[0])
    alarms = int(np.count_nonzero(above(scores, detector.threshold)))
    return GoodAlarms(alarms=alarms, parts=len(scores))
