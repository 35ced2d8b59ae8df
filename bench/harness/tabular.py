"""Tables made of rows that are dataclasses: a field says which column shows it, and how.

    @dataclass(frozen=True, kw_only=True)
    class Row:
        model: str = field(metadata=column("model"))
        pro: float | None = field(metadata=column("PRO", better="high"))

`table_of("Summary", rows)` shows them; whoever needs a number reads `row.pro`.
"""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any

from edgeseg.base.errors import UsageError
from edgeseg.base.tables import markdown

Cell = str | float | int | None
BETTER = ("", "high", "low")
_COLUMN, _TITLES = "column", "titles"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A heading, the format of its numbers, and which end of them is the better one."""

    name: str
    digits: int = 3
    signed: bool = False  # a difference: +.012
    better: str = ""  # high or low: the best is printed bold

    def __post_init__(self) -> None:
        if self.better not in BETTER:
            raise UsageError(
                f"column {self.name}: better={self.better!r}, expected one of {BETTER}"
            )

    def text(self, cell: Cell) -> str:
        """Write a cell as it is printed; what was not measured is a dash."""
        if cell is None:
            return "-"
        if isinstance(cell, str):
            return cell
        if isinstance(cell, int):
            return str(cell)
        return f"{cell:+.{self.digits}f}" if self.signed else f"{cell:.{self.digits}f}"


def column(
    name: str,
    *,
    digits: int = 3,
    signed: bool = False,
    better: str = "",
    titles: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Make the metadata of a row's field: its column.

    A field that holds a mapping has a column for every key, a mapping to further dataclasses all
    of their columns for every key. `{}` in a name is the key, by its title if it has one.
    """
    shown = Column(name=name, digits=digits, signed=signed, better=better)
    return {_COLUMN: shown, _TITLES: titles or {}}


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of cells under columns, with a sentence on how to read them."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise UsageError(
                    f"table {self.title!r}: a row of {len(row)} cells under "
                    f"{len(self.columns)} columns; expected as many"
                )

    def best(self) -> set[tuple[int, int]]:
        """Find the places (row, column) of the best numbers; a column with one number has none."""
        places = set()
        for index, column in enumerate(self.columns):
            cells = [(row, cells[index]) for row, cells in enumerate(self.rows)]
            numbers = [(row, cell) for row, cell in cells if isinstance(cell, int | float)]
            if not column.better or len(numbers) < 2:
                continue
            choose = max if column.better == "high" else min
            top = choose(round(number, column.digits) for _, number in numbers)
            places |= {
                (row, index) for row, number in numbers if round(number, column.digits) == top
            }
        return places

    def without_empty_columns(self) -> "Table":
        """Leave out columns in which nothing was measured."""
        kept = [
            index
            for index in range(len(self.columns))
            if any(row[index] is not None for row in self.rows)
        ]
        return replace(
            self,
            columns=tuple(self.columns[index] for index in kept),
            rows=tuple(tuple(row[index] for index in kept) for row in self.rows),
        )

    def texts(self) -> list[list[str]]:
        """Write all cells as they are printed."""
        return [
            [column.text(cell) for column, cell in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]

    def lines(self) -> list[str]:
        """Write the table in Markdown, without title and note."""
        best = self.best()
        rows = [
            [f"**{text}**" if (row, index) in best else text for index, text in enumerate(texts)]
            for row, texts in enumerate(self.texts())
        ]
        return markdown([column.name for column in self.columns], rows)

    def csv(self) -> str:
        """Write the table for a spreadsheet: numbers in full, empty where none was measured."""
        written = io.StringIO()
        writer = csv.writer(written, lineterminator="\n")
        writer.writerow([column.name for column in self.columns])
        writer.writerows([["" if cell is None else cell for cell in row] for row in self.rows])
        return written.getvalue()

    def markdown(self) -> str:
        """Write the table in Markdown with its title and note."""
        note = ["", self.note] if self.note else []
        return "\n".join([f"### {self.title}", "", *self.lines(), *note]) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Table":
        """Read what to_dict wrote."""
        return cls(
            title=values["title"],
            columns=tuple(Column(**column) for column in values["columns"]),
            rows=tuple(tuple(row) for row in values["rows"]),
            note=values["note"],
        )


def table_of(title: str, rows: Sequence[Any], *, note: str = "") -> Table:
    """Make a table of rows that are dataclasses of one kind, by the columns of their fields."""
    shown = [tuple(_cells(row)) for row in rows]
    columns = [tuple(column for column, _ in cells) for cells in shown]
    if len(set(columns)) > 1:
        raise UsageError(f"table {title!r}: rows under different columns, expected the same")
    return Table(
        title=title,
        columns=columns[0] if columns else (),
        rows=tuple(tuple(cell for _, cell in cells) for cells in shown),
        note=note,
    )


def _cells(row: Any, key: str = "") -> Iterator[tuple[Column, Cell]]:
    """List the cells of a row with their columns; fields without a column are not shown."""
    for item in fields(row):
        value, titles = getattr(row, item.name), item.metadata.get(_TITLES, {})
        parts = value if isinstance(value, Mapping) else {key: value}
        for name, part in parts.items():
            title = titles.get(name, name)
            if is_dataclass(part):
                yield from _cells(part, title)
            elif _COLUMN in item.metadata:
                column: Column = item.metadata[_COLUMN]
                yield replace(column, name=column.name.format(title)), _finite_cell(part)


def _finite_cell(cell: Cell) -> Cell:
    """Replace NaN, the mean of nothing, by None: JSON has no NaN."""
    return None if isinstance(cell, float) and math.isnan(cell) else cell
