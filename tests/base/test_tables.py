"""Text in columns: for a terminal and in Markdown."""

from edgeseg.base.tables import align_columns, markdown

ROWS = [("stage", "p50", "state"), ("infer", "12.04", "ok"), ("end to end", "3.5", "FAILED, late")]


def test_numbers_stand_under_each_other():
    assert align_columns([row[:2] for row in ROWS]) == [
        "stage         p50",
        "infer       12.04",
        "end to end    3.5",
    ]


def test_a_last_column_of_words_begins_at_one_place():
    assert align_columns(ROWS, last_left=True) == [
        "stage         p50  state",
        "infer       12.04  ok",
        "end to end    3.5  FAILED, late",
    ]
    assert align_columns([("a", "1", ""), ("b", "22", "x")], last_left=True) == [
        "a   1",
        "b  22  x",
    ]


def test_markdown_keeps_cells_apart():
    assert markdown(("a", "b"), [("x|y", "1")]) == ["| a | b |", "| --- | --- |", "| x\\|y | 1 |"]
    assert markdown(("a",), []) == ["| a |", "| --- |"]
