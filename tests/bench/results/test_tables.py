"""The table of docs/trust.md is what the reports say, and the list of reports has them all."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgeseg.bench.results.tables import PAGE, REPORTS, main, page_with, trust_table
from tests.support import REPO

RESULTS = REPO / "bench" / "results"


def test_the_page_has_the_table_of_the_reports() -> None:
    text = (REPO / PAGE).read_text(encoding="utf-8")
    made = trust_table(REPO / REPORTS)
    assert page_with(text, made) == text, "run python -m edgeseg.bench.results.tables"


def test_new_reports_are_taken_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (PAGE.parent, REPORTS, Path("new")):
        folder.mkdir(parents=True)
    PAGE.write_text("# Page\n<!-- trust: begin -->\nold\n<!-- trust: end -->\nafter\n")
    row = {"job": "fit", "tried": 3, "killed": 2, "damaged": ["0.5: half"], "not_repeatable": []}
    Path("new/kills.json").write_text(json.dumps({"rows": [row]}))
    Path("new/other.json").write_text("{}")
    result = CliRunner().invoke(main, ["new"])
    assert result.exit_code == 0, result.output
    assert [path.name for path in REPORTS.iterdir()] == ["kills.json"]
    before, *table, after = PAGE.read_text().splitlines()
    assert (before, after) == ("# Page", "after")
    what, often, lost, _ = table[3].strip("| ").split(" | ")
    assert what == "SIGKILL at random moments: fit"
    assert often == "3 each, 3 in all, 2 of them before the command had ended"
    assert lost == "1 damaged"


def test_every_report_is_listed() -> None:
    page = (RESULTS / "README.md").read_text(encoding="utf-8")
    files = [path for path in RESULTS.rglob("*") if path.suffix in (".json", ".md", ".txt")]
    folders = {path.parent.relative_to(RESULTS).as_posix() for path in files} - {"."}
    assert {name for name in folders if f"]({name}/" not in page} == set()
