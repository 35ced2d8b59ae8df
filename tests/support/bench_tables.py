"""Cells of a benchmark's table, found by the name of their column."""

from edgeseg.bench.harness.tabular import Cell, Table


def by_column(table: Table) -> list[dict[str, Cell]]:
    """Every row by the names of its columns; of columns with one name, the last."""
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]
