"""What fits on so many good images usually find: figures measured on a dozen kinds of parts.

`usual_recall.json` is made from the report of `edgeseg.bench.choices.by_images`, by
`python -m edgeseg.bench.results.tables`; docs/decisions.md has the same table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgeseg.base.plain import parse_json, record

FILE = Path(__file__).with_name("usual_recall.json")


@dataclass(frozen=True, kw_only=True)
class UsualRecall:
    """The defects found and the good parts flagged by fits on so many images, with 95 %."""

    images: int
    recall: float
    recall_low: float
    recall_high: float
    flagged: float
    categories: int

    @property
    def sentence(self) -> str:
        """What to expect, for people."""
        return (
            f"fits on {self.images} good images of {self.categories} kinds of parts found "
            f"{self.recall:.0%} of the defects ({self.recall_low:.0%} to {self.recall_high:.0%}) "
            f"and flagged {self.flagged:.1%} of the good parts, with default settings"
        )


def usual_recall(parts: int) -> UsualRecall | None:
    """Return the figures of the largest number up to so many parts; None below all."""
    return max(
        (row for row in known_figures() if row.images <= parts),
        key=lambda row: row.images,
        default=None,
    )


def known_figures() -> Sequence[UsualRecall]:
    """Read all figures."""
    values = parse_json(FILE.read_text(encoding="utf-8"))
    rows: Sequence[UsualRecall] = [record(UsualRecall, row) for row in values]
    return rows
