"""Units of work: what is done is not done again, what changed is."""

import json
from pathlib import Path
from typing import Any

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.bench.harness.units import FAILED, Store, Unit, duration_text, run_units


class Bench:
    """Counts how often each unit runs; one of them may be made to stop the run."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.stop_at = ""
        self.lines: list[str] = []

    def unit(self, name: str, **settings: Any) -> Unit:
        def run() -> dict[str, Any]:
            if name == self.stop_at:
                raise KeyboardInterrupt
            self.runs.append(name)
            return {"value": len(name)}

        return Unit(name=name, settings=settings, run=run)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_killed_run_continues_where_it_was(bench: Bench, tmp_path: Path) -> None:
    units = [bench.unit(name, seed=0) for name in ("a", "bb", "ccc")]
    bench.stop_at = "ccc"
    with pytest.raises(KeyboardInterrupt):
        run_units(units, Store(tmp_path), note=bench.lines.append)
    bench.stop_at = ""
    done = run_units(units, Store(tmp_path), note=bench.lines.append)
    assert bench.runs == ["a", "bb", "ccc"]
    assert done.results == {"a": {"value": 1}, "bb": {"value": 2}, "ccc": {"value": 3}}
    assert "2 of 3 results are there already" in bench.lines
    assert any("[1 of 1] ccc" in line and "left" in line for line in bench.lines)


def test_changed_settings_do_not_reuse_results(bench: Bench, tmp_path: Path) -> None:
    run_units([bench.unit("a", k=100)], Store(tmp_path), note=bench.lines.append)
    run_units([bench.unit("a", k=150)], Store(tmp_path), note=bench.lines.append)
    run_units([bench.unit("a", k=100)], Store(tmp_path), note=bench.lines.append)
    assert bench.runs == ["a", "a"]


def test_a_torn_file_is_measured_again(bench: Bench, tmp_path: Path) -> None:
    run_units([bench.unit("a")], Store(tmp_path), note=bench.lines.append)
    (path,) = (tmp_path / "units").glob("*.json")
    path.write_text(path.read_text()[:20])
    run_units([bench.unit("a")], Store(tmp_path), note=bench.lines.append)
    assert bench.runs == ["a", "a"]
    assert json.loads(path.read_text())["result"] == {"value": 1}


def test_a_failed_unit_runs_again(tmp_path: Path) -> None:
    lines: list[str] = []
    outcomes = iter([{FAILED: "out of memory"}, {"value": 1}])
    unit = Unit(name="peer", settings={}, run=lambda: next(outcomes))
    first = run_units([unit], Store(tmp_path), note=lines.append)
    second = run_units([unit], Store(tmp_path), note=lines.append)
    assert first.results["peer"] == {FAILED: "out of memory"}
    assert second.results["peer"] == {"value": 1}
    assert any("failed: out of memory" in line for line in lines)


def test_fresh_forgets(bench: Bench, tmp_path: Path) -> None:
    run_units([bench.unit("a")], Store(tmp_path), note=bench.lines.append)
    run_units([bench.unit("a")], Store(tmp_path, fresh=True), note=bench.lines.append)
    assert bench.runs == ["a", "a"]


def test_large_and_foreign_files_stay_out_of_a_repository(tmp_path: Path) -> None:
    Store(tmp_path)
    ignored = (tmp_path / ".gitignore").read_text().splitlines()
    assert {"units/", "models/", "staged/", "examples*.png"} <= set(ignored)


def test_mistakes_are_named(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"units of work \['a'\]: named twice"):
        run_units([bench.unit("a"), bench.unit("a")], Store(tmp_path), note=bench.lines.append)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UsageError, match="a file, expected a folder for results"):
        Store(file)


@pytest.mark.parametrize(("seconds", "text"), [(3.4, "3 s"), (600, "10 min"), (9000, "2.5 h")])
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
