"""Spinning threads beside sleeping ones: both take turns, and what runs beside them does run."""

import json
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from edgeseg.bench.studies.precision import spin
from edgeseg.bench.studies.precision.spin import Row, Turn, meanwhile, row_of
from edgeseg.bench.studies.precision.watched_page import watched_page
from edgeseg.contract.prediction import Prediction
from edgeseg.errors import RuntimeFailure
from edgeseg.runtime.web import live_view
from tests.support.brightness_model import brightness_metadata, write_brightness_model


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
    time.sleep(0.01)
    assert len(calls) == count


def test_somebody_looks_at_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its frames are drawn and sent while it is timed, and it is closed with it."""
    metadata = brightness_metadata()
    picture = np.full((72, 128, 3), 90, np.uint8)
    prediction = Prediction(map_hw=np.zeros((32, 48), np.float32), score=1.0)
    drawn: list[int] = []
    monkeypatch.setattr(live_view, "encode_jpeg", lambda *_, **__: drawn.append(1) or b"jpeg")
    before = pages_open()
    with watched_page(metadata, picture) as show:
        while len(drawn) < 2:
            show(prediction)
            time.sleep(0.01)
        assert pages_open() > before
    assert pages_open() == before


def pages_open() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("page")}


def test_a_page_that_cannot_draw_gives_no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = np.full((72, 128, 3), 90, np.uint8)
    broken = Prediction(map_hw=np.zeros((0, 0), np.float32), score=1.0)
    tried = threading.Event()

    def fails(*_: object, **__: object) -> None:
        tried.set()
        raise ValueError

    def watched() -> None:
        with watched_page(brightness_metadata(), picture) as show:
            show(broken)
            assert tried.wait(30)

    monkeypatch.setattr(live_view, "annotate_result", fails)
    with pytest.raises(RuntimeFailure, match="the live page failed: a frame could not be drawn"):
        watched()


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
        "streamed, live page",
    ]
    assert all(row["asleep_ms"] > 0 < row["awake_ms"] for row in written["rows"])
    assert set(written["cores_taken"]) == {"others", "stolen"}
    readable = out.with_suffix(".md").read_text(encoding="utf-8")
    assert spin.table([Row(**row) for row in written["rows"]]).markdown() in readable
    assert written["facts"]["processor"] in readable


_PACE = spin.Pace
