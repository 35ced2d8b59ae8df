"""Tables as values: columns that know how their numbers look, and Markdown of them."""

from dataclasses import asdict, dataclass
from typing import Any

from edgeseg.errors import UsageError

Cell = str | float | int | None
BETTER = ("", "high", "low")


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
        """A cell as it is printed; what was not measured is a dash."""
        if cell is None:
            return "-"
        if isinstance(cell, str):
            return cell
        if isinstance(cell, int):
            return str(cell)
        return f"{cell:+.{self.digits}f}" if self.signed else f"{cell:.{self.digits}f}"


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
        """Places (row, column) of the best numbers; a column with one number has none."""
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

    def texts(self) -> list[list[str]]:
        """All cells as they are printed."""
        return [
            [column.text(cell) for column, cell in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]

    def markdown(self) -> str:
        """The table with its title and note."""
        best = self.best()
        lines = [f"### {self.title}", ""]
        lines.append("| " + " | ".join(column.name for column in self.columns) + " |")
        lines.append("| " + " | ".join("---" for _ in self.columns) + " |")
        for row, texts in enumerate(self.texts()):
            cells = [
                f"**{text}**" if (row, index) in best else text.replace("|", "\\|")
                for index, text in enumerate(texts)
            ]
            lines.append("| " + " | ".join(cells) + " |")
        if self.note:
            lines += ["", self.note]
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
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
