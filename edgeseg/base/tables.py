"""Rows of text as a table: aligned for a terminal, or in Markdown."""

from collections.abc import Sequence


def align_columns(rows: Sequence[Sequence[str]], *, last_left: bool = False) -> list[str]:
    """Return the lines of a table, the first column aligned left and the others aligned right.

    `last_left` is for a last column of words, which is aligned left and not padded.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)]
        cells[0] = f"{row[0]:<{widths[0]}}"
        if last_left:
            cells[-1] = row[-1]
        lines.append("  ".join(cells).rstrip())
    return lines


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown; a `|` inside a cell is escaped."""
    rule = ["---" for _ in head]
    cells = ([cell.replace("|", "\\|") for cell in row] for row in (head, rule, *rows))
    return [f"| {' | '.join(row)} |" for row in cells]
