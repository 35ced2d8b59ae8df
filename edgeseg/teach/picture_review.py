"""The good pictures that somebody has to look at before a fit runs, and those that were kept.

They set its threshold, or score far outside the others: a part among them that is not good lets
such defects pass. Whoever keeps one says so in the history.
"""

from typing import Any

from edgeseg.base.utc import utc_time
from edgeseg.teach.picture_list import PictureList
from edgeseg.teach.planted_warning import striking
from edgeseg.teach.project import Project
from edgeseg.teach.report import FitReport

Facts = dict[str, Any]
_EVENT = "keep"


class PictureReview:
    """Asks for looks at the pictures of the last fit; may be called from any thread."""

    def __init__(self, project: Project, pictures: PictureList) -> None:
        self._project, self._pictures = project, pictures
        self._asked: tuple[FitReport, float, list[str]] | None = None

    def keep(self, name: str, *, who: str) -> None:
        """Store that a picture was looked at, and shows a good part."""
        self._project.picture("good", name)
        self._project.log(_EVENT, picture=name, who=who)

    def waiting(self, threshold: float | None) -> int:
        """Count the pictures that nobody has looked at, at the threshold of the fit."""
        report = self._pictures.report()
        if report is None or threshold is None:
            return 0
        if self._asked is None or (self._asked[0] is not report or self._asked[1] != threshold):
            names = [item.name for item in striking(report, threshold)]
            self._asked = report, threshold, names
        present, kept = self._pictures.times("good"), self.names_kept()
        return sum(name in present and name not in kept for name in self._asked[2])

    def names_kept(self) -> set[str]:
        """Return the names that were kept; a picture that is newer than that was not seen then."""
        present = self._pictures.times("good")
        said = {
            line.get("picture"): str(line["when"])
            for line in self._project.history()
            if line["event"] == _EVENT
        }
        return {name for name, wall_s in present.items() if said.get(name, "") >= utc_time(wall_s)}

    def apply(self, judged: Facts) -> Facts:
        """Return what is judged with what is asked and kept, without pictures that were removed.

        {"asks": names, "waiting": n of them that nobody has kept, "gone": n of the fitted pictures
        that are no longer good ones, "new": n of the good ones that were not fitted on}
        """
        present, bad = self._pictures.times("good"), self._pictures.times("bad")
        fitted = {item["name"] for item in judged["worst"]} - {""}  # "": not known
        worst = [item for item in judged["worst"] if item["name"] in present]
        asks = [item["name"] for item in worst if item["asks"]]
        kept = self.names_kept()
        gone = len(fitted - present.keys())
        return {
            **judged,
            "worst": [{**item, "kept": item["name"] in kept} for item in worst],
            "bad": [item for item in judged["bad"] if item["name"] in bad],
            "asks": asks,
            "waiting": sum(name not in kept for name in asks),
            "gone": gone,
            "new": max(0, len(present) - (judged["images"] - gone)),
        }
