"""The study of triggers, small: every trigger has one result although things are cut."""

import json
from collections import Counter
from pathlib import Path

import pytest

from edgeseg.bench.studies.line.broker import mosquitto
from edgeseg.bench.studies.line.triggers import (
    MODEL,
    Levels,
    Tally,
    find_levels,
    report_text,
    study,
)
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.session_options import SessionOptions
from tests.support import REPO
from tests.support.fakes import BrightnessSession


@pytest.mark.parametrize("adapter", ["modbus", "http", "mqtt"])
def test_every_trigger_has_one_result_and_no_good_is_made_up(adapter: str, tmp_path: Path) -> None:
    if adapter == "mqtt":
        pytest.importorskip("paho.mqtt.client", reason="needs paho-mqtt: edgeseg[mqtt]")
        if mosquitto() is None:
            pytest.skip("needs mosquitto: apt install mosquitto")
    session = BrightnessSession()
    levels = find_levels(session)
    assert (levels.good, levels.bad) == (10, 250)
    tallies = study(adapter, session, levels, tmp_path, triggers=25, cuts=1)
    phases = ["nothing cut", "camera cut", "connection cut"]
    assert [tally.phase for tally in tallies] == phases + ["broker killed"] * (adapter == "mqtt")
    for tally in tallies:
        assert tally.whole, vars(tally)
    assert tallies[0].triggers == 25
    assert set(tallies[0].outcomes) == {"good", "defect"}


def test_the_model_of_the_study_tells_two_greys_apart() -> None:
    options = SessionOptions(backend="cpu", threads=1, allow_random_weights=True)
    path = REPO / MODEL
    with open_session(path, options) as session:
        assert find_levels(session).threshold > 0


def test_the_committed_report_is_whole_and_of_every_adapter() -> None:
    report = json.loads((REPO / "bench/results/line/triggers.json").read_text())
    tallies = report["tallies"]
    assert all(tally["whole"] for tally in tallies)
    phases = {(tally["adapter"], tally["phase"]) for tally in tallies}
    for adapter in ("modbus", "mqtt", "http", "opcua"):
        for phase in ("nothing cut", "camera cut", "connection cut"):
            assert (adapter, phase) in phases
    assert ("mqtt", "broker killed") in phases
    assert {tally["cuts"] for tally in tallies} == {0, 50}


def test_the_table_and_what_is_not_whole() -> None:
    tally = Tally(adapter="x", phase="y", triggers=2, results=1, outcomes=Counter(good=1))
    assert not tally.whole
    assert "good 1" in report_text([tally])
    assert Levels(good=1, bad=2, threshold=1.5).threshold == 1.5
