"""Tables of recall by the number of good images, for people and for `edgeseg fit`."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from edgeseg.base.files import write_json
from edgeseg.base.tables import markdown
from edgeseg.bench.choices.by_images import ALL, ImagesRow
from edgeseg.bench.harness.tabular import Table
from edgeseg.decision.usual_recall import UsualRecall

_HEAD = (
    *("good images", "kinds of parts", "promised", "image AUROC"),
    *("found by the tail", "95 %", "flagged", "found by ranks", "95 %", "flagged"),
)

_RULES_SHOWN = (10, 20, 40, 80, ALL)


def recall_table(table: Table) -> str:
    """Write a row for each number of images: what is found and flagged, by both rules."""
    ranked = {row.images: row for row in _rows(table, "ranks")}
    lines = markdown(_HEAD, [_cells(row, ranked[row.images]) for row in _rows(table, "tail")])
    return "\n".join(lines) + "\n"


def _cells(tail: ImagesRow, ranks: ImagesRow) -> list[str]:
    cells = [tail.images, str(tail.categories), f"{tail.stated:.1%}", f"{tail.image_auroc:.3f}"]
    for row in (tail, ranks):
        span = f"{row.recall_low:.2f} to {row.recall_high:.2f}"
        cells += [f"{row.recall:.2f}", span, f"{row.flagged:.1%}"]
    return cells


def rules_table(rows: Sequence[ImagesRow]) -> str:
    """Write a row for each rule: the share found and the share flagged, by number of images."""
    counts = [str(count) for count in _RULES_SHOWN]
    names = dict.fromkeys(row.rule for row in rows)
    cells = {(row.rule, row.images): f"{row.recall:.2f}, {row.flagged:.1%}" for row in rows}
    lines = [[name, *(cells[name, count] for count in counts)] for name in names]
    head = ["threshold by", *(f"{count} images" for count in counts)]
    return "\n".join(markdown(head, lines)) + "\n"


def write_usual_recall(table: Table, path: Path) -> None:
    """Write what `edgeseg fit` says of its number of images."""
    figures = [
        UsualRecall(
            images=int(row.images),
            recall=round(row.recall, 3),
            recall_low=round(row.recall_low, 3),
            recall_high=round(row.recall_high, 3),
            flagged=round(row.flagged, 4),
            categories=row.categories,
        )
        for row in _rows(table, "tail")
        if row.images != ALL
    ]
    write_json(path, [asdict(each) for each in figures])


def _rows(table: Table, rule: str) -> list[ImagesRow]:
    names = [item.name for item in fields(ImagesRow)]  # in the order of the columns
    rows = [ImagesRow(**dict(zip(names, row, strict=True))) for row in table.rows]  # type: ignore[arg-type]
    return [row for row in rows if row.rule == rule]
