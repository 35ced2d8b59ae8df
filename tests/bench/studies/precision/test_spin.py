"""Spinning threads beside sleeping ones: both take turns, and what runs beside them does run."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgeseg.bench.studies.precision import spin
from edgeseg.bench.studies.precision.spin import Turn, meanwhile, row_of
from tests.support.brightness_model import write_brightness_model


def test_rows_are_medians_and_ratios_of_rounds() -> None:
    turns = {
        False: [Turn(ms=[4.0, 6.0, 5.0], processor_ms=2.0)] * 2,
        True: [Turn(ms=[2.0, 3.0, 2.5], processor_ms=6.0)] * 2,
    }
    row = row_of("net", "streamed", turns)
    assert (row.asleep_ms, row.awake_ms, row.saved_ms) == (5.0, 2.5, 2.5)
    assert row.ratio == "0.50 (0.50 to 0.50)"
    assert (row.asleep_processor_ms, row.awake_processor_ms) == (2.0, 6.0)


def test_what_runs_beside_ends_with_it() -> None:
    calls: list[int] = []
    with meanwhile(lambda: calls.append(1), period_s=0.0):
        while not calls:
            pass
    count = len(calls)
    with meanwhile(None, period_s=0.0):
        pass
    assert len(calls) == count


def test_every_situation_in_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spin, "Pace", lambda rounds: _PACE(rounds=rounds, frames=1, fps=500))
    model, out = tmp_path / "net.onnx", tmp_path / "spin.json"
    write_brightness_model(model)
    words = [str(model), "--rounds", "2", "--threads", "1", "--out", str(out)]
    result = CliRunner().invoke(spin.main, words, catch_exceptions=False)
    assert result.exit_code == 0
    written = json.loads(out.read_text())
    situations = [row["beside"] for row in written["rows"]]
    assert situations == [
        *("back to back", "streamed", "streamed, second camera", "streamed, decoding"),
    ]
    assert all(row["asleep_ms"] > 0 < row["awake_ms"] for row in written["rows"])
    assert set(written["cores_taken"]) == {"others", "stolen"}


_PACE = spin.Pace
