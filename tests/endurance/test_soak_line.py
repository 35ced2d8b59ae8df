"""The soak of a line: what it counts, and what it does not let pass."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.endurance.soak_line import Heard, Stream, failures, judged, streams, trigger
from tests.endurance.soak_samples import Sample, quarters, settled, slope

FREE = {
    "sources": [
        {"frames_in": 100, "scored": 70, "dropped": {"stale": 30}},
        {"frames_in": 50, "scored": 50, "dropped": {}},
    ]
}
TRIGGERED = {
    "sources": [{"frames_in": 100, "scored": 40, "dropped": {"no trigger": 60}}],
    "station": {"triggers": 40, "results": 40},
}


def samples(*, mb_per_hour: float = 0.0, minutes: int = 60, noise: float = 0.0) -> list[Sample]:
    rng = np.random.default_rng(0)
    return [
        Sample(
            seconds=6.0 * tenth,
            memory_mb=(300.0 if tenth < minutes else 500.0)
            + mb_per_hour * tenth / 600
            + noise * float(rng.normal()),
            threads=20,
            descriptors=40 + tenth % 2,
            p99_ms=12.5,
        )
        for tenth in range(10 * minutes + 1)
    ]


def stream(heard: Heard, tmp_path: Path, **growth: Any) -> Stream:
    made = Stream(name="line", words=[], folder=tmp_path, heard=heard)
    made.samples = samples(**growth)
    return made


def told(made: Stream, report: dict[str, Any]) -> list[str]:
    return list(failures(made, judged(made, report)))


def test_a_calm_hour(tmp_path: Path) -> None:
    made = stream(Heard(results=120, pictures=18, reads=9), tmp_path)
    row = judged(made, FREE)
    assert (row["in"], row["scored"], row["dropped"], row["not accounted for"]) == (150, 120, 30, 0)
    assert (row["minutes"], row["pictures"], row["register reads"]) == (60.0, 18, 9)
    assert row["p99 ms by quarter"] == "12, 12, 12, 12"
    assert (row["threads"], row["descriptors"]) == ("20 to 20", "40 to 41")
    assert told(made, FREE) == []
    assert told(stream(Heard(triggers=40, results=40), tmp_path), TRIGGERED) == []


def test_the_beginning_is_no_leak_and_a_leak_is_one(tmp_path: Path) -> None:
    flat, steep = (slope(settled(samples(mb_per_hour=rate, noise=2.0))) for rate in (0.0, 30.0))
    assert flat.low < 0 < flat.high < 10
    assert 20 < steep.low < 30 < steep.high < 40
    made = stream(Heard(results=120), tmp_path, mb_per_hour=30.0, noise=0.1)
    (said,) = told(made, FREE)
    assert said.startswith("line: memory grows by +30.0 (")


@pytest.mark.parametrize("kind", ["threads", "descriptors"])
def test_threads_and_descriptors_may_not_grow(tmp_path: Path, kind: str) -> None:
    made = stream(Heard(results=120), tmp_path)
    made.samples = [
        replace(one, **{kind: 20 + place // 100}) for place, one in enumerate(made.samples)
    ]
    (said,) = told(made, FREE)
    assert said.startswith(f"line: {kind} grow from at most 2")
    made.samples = made.samples[:250]  # 25 minutes
    assert told(made, FREE) == []


def test_a_few_samples_decide_nothing() -> None:
    assert slope(samples(minutes=60)[:2]).high == np.inf
    assert quarters(samples(minutes=1)) == [12.5] * 4


def test_lost_frames_results_and_triggers_are_named(tmp_path: Path) -> None:
    lost = {"sources": [{"frames_in": 10, "scored": 7, "dropped": {"stale": 2}}]}
    assert told(stream(Heard(results=6), tmp_path), lost) == [
        "line: in is not scored + dropped",
        "line: 7 results wanted, 7 given, 6 received",
    ]
    missed = Heard(triggers=41, results=40, wrong=["a: no result"])
    assert told(stream(missed, tmp_path), TRIGGERED) == [
        "line: 1 wrong results, the first: a: no result",
        "line: 41 triggers, and the station took 40",
        "line: 41 results wanted, 40 given, 40 received",
    ]


@pytest.mark.parametrize("mistake", ["", "part", "order"])
def test_a_client_looks_at_every_result(tmp_path: Path, mistake: str) -> None:
    made = Stream(name="line", words=[], folder=tmp_path)

    class Stop:
        def is_set(self) -> bool:
            return made.heard.triggers == 3

    class Client:
        def inspect(self, part_id: str) -> dict[str, Any]:
            number = 1 if mistake == "order" else made.heard.triggers
            return {"part_id": "x" if mistake == "part" else part_id, "trigger_id": number}

    trigger(made, Client(), Stop())
    assert made.heard.results == 3
    assert len(made.heard.wrong) == {"": 0, "part": 3, "order": 2}[mistake]


def test_two_of_the_cameras_are_triggered(tmp_path: Path) -> None:
    common = {"sources": 4, "fps": 30.0, "threads": 1, "random": False}
    made = streams(tmp_path / "m.onnx", tmp_path, 1883, **common)
    cameras = [one.words.count("--source") for one in made]
    assert [one.name for one in made] == ["free", "modbus", "mqtt"]
    assert cameras == [2, 1, 1]
    assert all(one.words[one.words.index("--trigger") + 1] == one.name for one in made[1:])
