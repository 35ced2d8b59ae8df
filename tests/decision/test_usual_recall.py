"""What so many good images usually find: the row that fits, and the report that it is of."""

import json
from pathlib import Path

import pytest

from edgeseg.bench.harness.report import read_report
from edgeseg.bench.results.recall_table import write_usual_recall
from edgeseg.decision.usual_recall import FILE, known_figures, usual_recall
from tests.support import REPO

REPORT = REPO / "bench" / "results" / "decide" / "by_images"


def test_the_figures_are_those_of_the_report(tmp_path: Path) -> None:
    write_usual_recall(read_report(REPORT).tables[0], tmp_path / "made.json")
    assert json.loads((tmp_path / "made.json").read_text()) == json.loads(FILE.read_text())


def test_figures_are_shares_inside_their_intervals() -> None:
    rows = known_figures()
    assert [row.images for row in rows] == sorted({row.images for row in rows})
    for row in rows:
        assert 0 <= row.recall_low <= row.recall <= row.recall_high <= 1
        assert 0 <= row.flagged <= 1


@pytest.mark.parametrize(("parts", "images"), [(5, 5), (9, 5), (10, 10), (79, 50), (4000, 100)])
def test_the_row_of_the_largest_number_up_to_so_many_parts(parts: int, images: int) -> None:
    row = usual_recall(parts)
    assert row is not None
    assert row.images == images
    assert row.sentence.startswith(f"fits on {images} good images of {row.categories} kinds of ")
    assert f" found {row.recall:.0%} of the defects ({row.recall_low:.0%} to " in row.sentence


def test_fewer_parts_than_were_measured_have_no_row() -> None:
    assert usual_recall(4) is None
