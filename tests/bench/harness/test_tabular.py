"""Tables of rows that are dataclasses: a field is a column, and a mapping is many."""

import json
import math
from dataclasses import dataclass, field, replace

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.bench.harness.tabular import Column, Table, column, table_of


@dataclass(frozen=True, kw_only=True)
class Cells:
    seconds: float | str = field(metadata=column("{}: s", digits=1, better="low"))
    memory: float | None = field(metadata=column("MB", digits=0))


@dataclass(frozen=True, kw_only=True)
class Row:
    model: str = field(metadata=column("model"))
    secret: str = "not shown"
    accuracy: dict[str, float | None] = field(
        metadata=column("{}", better="high", titles={"pro": "PRO"})
    )
    by_count: dict[str, Cells]
    difference: float | None = field(metadata=column("difference", signed=True))


ROWS = [
    Row(
        model="a",
        accuracy={"pro": 0.9411, "auroc": 0.5},
        by_count={"N=2": Cells(seconds=12.04, memory=100.4)},
        difference=0.001,
    ),
    Row(
        model="b|c",
        accuracy={"pro": 0.9409, "auroc": None},
        by_count={"N=2": Cells(seconds=3.0, memory=None)},
        difference=-0.5,
    ),
    Row(
        model="gone",
        accuracy={"pro": None, "auroc": None},
        by_count={"N=2": Cells(seconds="failed", memory=None)},
        difference=None,
    ),
]


def test_fields_are_columns_in_their_order() -> None:
    table = table_of("Speed", ROWS, note="A note.")
    names = [column.name for column in table.columns]
    assert names == ["model", "PRO", "auroc", "N=2: s", "MB", "difference"]
    assert table.rows[0] == ("a", 0.9411, 0.5, 12.04, 100.4, 0.001)


def test_markdown_marks_the_best_as_printed() -> None:
    lines = table_of("Speed", ROWS, note="A note.").markdown().splitlines()
    assert lines == [
        "### Speed",
        "",
        "| model | PRO | auroc | N=2: s | MB | difference |",
        "| --- | --- | --- | --- | --- | --- |",
        "| a | **0.941** | 0.500 | 12.0 | 100 | +0.001 |",  # equal when printed: both are the best
        "| b\\|c | **0.941** | - | **3.0** | - | -0.500 |",
        "| gone | - | - | failed | - | - |",
        "",
        "A note.",
    ]


def test_a_table_survives_its_json() -> None:
    table = table_of("Speed", ROWS, note="A note.")
    assert Table.from_dict(json.loads(json.dumps(table.to_dict()))) == table


def test_a_mean_of_nothing_was_not_measured() -> None:
    table = table_of("Summary", [replace(ROWS[0], difference=math.nan)])
    assert table.texts()[0][-1] == "-"
    json.dumps(table.to_dict(), allow_nan=False)


def test_columns_in_which_nothing_was_measured_can_go() -> None:
    columns = tuple(Column(name=name) for name in "abc")
    table = Table(title="t", columns=columns, rows=((1, None, 2.0), (0, None, None)))
    shorter = table.without_empty_columns()
    assert [each.name for each in shorter.columns] == ["a", "c"]
    assert shorter.rows == ((1, 2.0), (0, None))


def test_mistakes_are_named() -> None:
    with pytest.raises(UsageError, match="a row of 1 cells under 2 columns"):
        Table(title="t", columns=(Column(name="a"), Column(name="b")), rows=(("x",),))
    with pytest.raises(UsageError, match="better='up', expected one of"):
        column("a", better="up")
    other = replace(ROWS[1], by_count={"N=4": Cells(seconds=1.0, memory=None)})
    with pytest.raises(UsageError, match="table 'Speed': rows under different columns"):
        table_of("Speed", [ROWS[0], other])
