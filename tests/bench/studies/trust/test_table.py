"""The tables of docs/trust.md and README.md are what the reports say."""

from typing import Any

import pytest
from click.testing import CliRunner

from edgeseg.bench.studies.trust import table as module
from edgeseg.bench.studies.trust.table import (
    BEGIN,
    END,
    SOURCES,
    faults,
    fuzz,
    kills,
    page_with,
    score_numbers,
    short_table,
    soak,
    table,
)
from tests.support import REPO


def test_the_page_is_made_from_the_reports() -> None:
    text = (REPO / "docs/trust.md").read_text(encoding="utf-8")
    assert page_with(text, table(REPO)) == text, "run python -m edgeseg.bench.studies.trust.table"
    assert table(REPO).count("\n") == len(SOURCES) + 2, "a report is missing"


def test_the_readme_has_the_same_in_short() -> None:
    text, made = (REPO / "README.md").read_text(encoding="utf-8"), short_table(REPO)
    assert page_with(text, made) == text, "run python -m edgeseg.bench.studies.trust.table"
    assert made.count("\n") == table(REPO).count("\n"), "every line of the long one"
    assert len(made) < len(table(REPO)) / 2
    assert "python -m" not in made


def killed(**more: Any) -> dict[str, Any]:
    row = {"job": "fit", "tried": 200, "killed": 190, "old": 150, "new": 50}
    losses = {"damaged": [], "left_after_next_run": [], "not_repeatable": []}
    return {"rows": [row | losses | more, row | losses | {"job": "merge"}]}


def test_losses_are_counted() -> None:
    line = kills(killed())
    assert line.what.endswith(": fit, merge")
    assert (line.often[:24], line.lost) == ("200 each, 400 in all, 38", "nothing")
    line = kills(killed(tried=5, damaged=["x", "y"], not_repeatable=["z"]))
    assert line.often.startswith("5 to 200 each, 205 in all")
    assert line.lost == "2 damaged, 1 not repeatable"


def test_a_traceback_is_a_loss() -> None:
    row = {"fault": "no memory", "runs": 40, "went_well": 20, "one_sentence": 19}
    none = {"damaged": [], "left_after_next_run": [], "not_repeatable": [], "signal": []}
    line = faults({"rows": [row | none | {"traceback": ["export"]}]})
    assert line.lost == "1 traceback; 20 went well, 19 ended in one sentence"


def test_formats_that_were_tried_less_are_told() -> None:
    formats = {
        name: {"cases": cases, "findings": [], "slowest_s": 0.25}
        for name, cases in (("mask", 100_000), ("image", 500))
    }
    line = fuzz({"formats": formats})
    assert line.often.startswith("500 or more each, 100,500 in all")
    assert line.lost == "none ended as none may; the slowest took 0.2 s"


@pytest.mark.parametrize(
    ("off", "told"), [(0, "dropped; 7"), (3, "dropped, 3 not accounted for; 7")]
)
def test_a_line_at_full_speed(off: int, told: str) -> None:
    row = {
        "stream": "modbus",
        "minutes": 60.0,
        "in": 1000,
        "scored": 7,
        "dropped": 993,
        "not accounted for": off,
        "triggers": 7,
        "received": 7,
        "MB per hour": "+0.1 (-0.2 to +0.4)",
        "threads": "15 to 15",
        "descriptors": "14 to 15",
        "p99 ms by quarter": "10, 11, 10, 10",
    }
    line = soak({"rows": [row]})
    assert line.often == "60 minutes, 1,000 frames, 7 triggers"
    assert told in line.lost
    assert "7 triggers, 7 results; threads stay; descriptors: modbus 14 to 15" in line.lost
    assert "p99 of the quarters in ms: modbus 10, 11, 10, 10" in line.lost
    assert line.brief[2].endswith("7 triggers, 7 results")


def test_precisions_that_were_tried_are_named_and_broken_bounds_too() -> None:
    rows = [
        {"what": f"{name}, cpu: another order", "frames": 9, "kept": name != "int8"}
        for name in ("int8", "fp32")
    ]
    line = score_numbers({"rows": rows})
    assert line.what.startswith("scores in fp32, int8, ONNX Runtime")
    assert line.lost == "int8, cpu: another order"


def test_reports_are_taken_in(tmp_path, monkeypatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/trust.md").write_text(f"# Page\n{BEGIN}old\n{END}rest\n")
    (tmp_path / "README.md").write_text(f"# Short\n{BEGIN}{END}")
    (tmp_path / "bench/results/trust").mkdir(parents=True)
    (tmp_path / "new").mkdir()
    report = REPO / "bench/results/trust/flips.json"
    (tmp_path / "new/flips.json").write_text(report.read_text())
    (tmp_path / "new/other.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(module.main, ["new"]).exit_code == 0
    assert [path.name for path in (tmp_path / "bench/results/trust").iterdir()] == ["flips.json"]
    page = (tmp_path / "docs/trust.md").read_text()
    assert page.startswith("# Page\n")
    assert page.endswith(f"{END}rest\n")
    assert "a bit turned over" in page
    assert "a bit turned over" in (tmp_path / "README.md").read_text()
    assert "old" not in page
