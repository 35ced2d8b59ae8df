"""Counters of the shift: identities, shifts over midnight, restarts, damaged files."""

import json
import threading
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.runtime.events.codes import Check
from edgeseg.runtime.sinks.counters import VERDICTS, Counters, Tally
from edgeseg.runtime.sinks.shift_times import ShiftTimes
from edgeseg.runtime.station.records import Inspection, Job, StationResult
from edgeseg.runtime.station.station import Station
from tests.support.scored_frames import make_result

THREE = ShiftTimes.parse("06:00,14:00,22:00")


def at(day: int, hour: int, minute: int = 0) -> float:
    return time.mktime((2026, 11, day, hour, minute, 0, 0, 0, -1))


class Desk:
    """Counters with a clock, and what they told."""

    def __init__(self, path: Path, *, now_s: float, times: ShiftTimes = THREE) -> None:
        self.now_s = now_s
        self.events: list[dict[str, object]] = []
        self.errors: list[str] = []
        self.counters = Counters(
            path,
            times=times,
            on_error=lambda name, text: self.errors.append(text),
            publish=lambda event: self.events.append(event.facts()),
            clock_s=lambda: self.now_s,
        )


def test_the_parts_are_the_sum_of_all_verdicts(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "c.json", now_s=at(17, 10))
    for index in range(60):
        desk.counters.count([*VERDICTS, "never heard of"][index % 8], f"recipe {index % 3}")
    desk.counters.close()
    counts = desk.counters.counts
    for period in (counts.shift, counts.total):
        for tally in (period.all, *period.recipes.values()):
            facts = asdict(tally)
            assert facts.pop("parts") == sum(facts.values())
        assert period.all.parts == 60
        assert sum(tally.parts for tally in period.recipes.values()) == 60
    assert counts.shift.all.invalid == 8 + 7, "an unknown word is no verdict to trust"


def test_counters_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    for run in range(3):
        desk = Desk(path, now_s=at(17, 10, run))
        desk.counters.count("good", "bottle")
        desk.counters.count("defect", "bottle")
        desk.counters.close()
    counts = Desk(path, now_s=at(17, 11)).counters.counts
    assert counts.shift.recipes == {"bottle": Tally(parts=6, good=3, defect=3)}
    assert counts.before == ()


def test_a_shift_begins_at_its_time_also_over_midnight_and_while_nothing_ran(
    tmp_path: Path,
) -> None:
    path = tmp_path / "c.json"
    desk = Desk(path, now_s=at(17, 21, 59))
    desk.counters.count("good")
    desk.now_s = at(17, 22)
    desk.counters.count("defect")
    desk.now_s = at(18, 5, 59)
    desk.counters.count("unsure")
    counts = desk.counters.counts
    assert counts.shift.begun_s == at(17, 22)
    assert counts.shift.all == Tally(parts=2, defect=1, unsure=1)
    assert [period.all for period in counts.before] == [Tally(parts=1, good=1)]
    desk.counters.close()
    later = Desk(path, now_s=at(20, 7))
    assert later.counters.counts.shift.begun_s == at(20, 6)
    assert later.counters.counts.shift.all == Tally()
    assert later.counters.counts.total.all == Tally(parts=3, good=1, defect=1, unsure=1)
    (event,) = later.events
    assert event["event"] == "shift_end"
    assert event["counts"] == asdict(Tally(parts=2, defect=1, unsure=1))
    later.counters.close()


def test_a_shift_by_a_call(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "c.json", now_s=at(17, 10), times=ShiftTimes())
    desk.counters.count("good")
    desk.now_s = at(30, 10)
    desk.counters.count("good")
    assert desk.counters.counts.shift.all.parts == 2, "no times: it never ends by itself"
    desk.counters.close()


def test_counts_of_many_threads(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "c.json", now_s=at(17, 10))
    threads = [
        threading.Thread(target=lambda: [desk.counters.count("good") for _ in range(500)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    desk.counters.close()
    assert json.loads((tmp_path / "c.json").read_text())["total"]["all"]["parts"] == 2000


def test_free_running_frames_are_parts(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "c.json", now_s=at(17, 10))
    desk.counters.on_frame(make_result(score=5.0))
    desk.counters.on_frame(make_result(score=50.0))
    desk.counters.close()
    assert desk.counters.counts.shift.recipes == {"": Tally(parts=2, good=1, defect=1)}


def test_frames_of_triggers_are_no_parts_of_their_own(tmp_path: Path) -> None:
    counters = Counters(
        tmp_path / "c.json",
        times=ShiftTimes(()),
        on_error=lambda name, text: None,
        count_frames=False,
    )
    counters.on_frame(make_result())
    counters.close()
    assert counters.counts.total.all.parts == 0


def test_results_of_triggers_are_parts_also_without_an_inspection(tmp_path: Path) -> None:
    station = Station(depth=1)
    desk = Desk(tmp_path / "c.json", now_s=at(17, 10))
    station.events.subscribe(StationResult, desk.counters.on_result, name="test")
    station.start()
    station.set_job(Job(number=3, name="bottle"))
    for verdict in ("good", "defect"):
        event = station.trigger(origin="test", acquired=True)
        station.complete(
            event.trigger_id, Inspection(verdict=verdict, score=1.0, threshold=2.0, frame_index=0)
        )
    station.trigger(origin="test", acquired=True)
    station.trigger(origin="test")  # too early
    station.stop()
    desk.counters.close()
    counted = Tally(parts=4, good=1, defect=1, missed=2)
    assert desk.counters.counts.shift.recipes == {"bottle": counted}


@pytest.mark.parametrize("text", ["", "{", '{"schema": 1}', '{"shift": 3}'])
def test_a_damaged_file_is_kept_and_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    desk = Desk(path, now_s=at(17, 10))
    desk.counters.count("good")
    desk.counters.close()
    (error,) = desk.errors
    assert error.startswith(f"{path}: ")
    assert error.endswith(f"counting from 0, what was there is in {path}.damaged")
    assert Path(f"{path}.damaged").read_text() == text
    assert json.loads(path.read_text())["shift"]["all"]["good"] == 1


def test_a_place_that_cannot_be_written_costs_the_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    desk = Desk(tmp_path / "file" / "c.json", now_s=at(17, 10))
    desk.counters.count("good")
    desk.counters.close()
    assert desk.counters.counts.shift.all.good == 1
    assert "counters are not saved" in desk.errors[-1]


@pytest.mark.parametrize(
    "text", ["", "6", "24:00", "06:60", "06:0", "a:b", "06:00;14:00", "06:00,"]
)
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        ShiftTimes.parse(text)
    assert str(refused.value) == (f"shifts={text!r}: expected times such as 06:00,14:00,22:00")


def test_a_part_that_no_approved_model_could_judge_has_its_own_word(tmp_path: Path) -> None:
    desk, station = Desk(tmp_path / "c.json", now_s=at(17, 10)), Station()
    station.events.subscribe(StationResult, desk.counters.on_result, name="test")
    station.start()
    station.set_check(Check.FAILED)
    station.trigger(origin="test")
    station.set_check(Check.PASSED)
    station.lose_source("unplugged")
    station.trigger(origin="test")
    desk.counters.close()
    counted = asdict(desk.counters.counts.shift.all)
    assert {word: count for word, count in counted.items() if count} == {
        "parts": 2,
        "missed": 1,
        "no_inspection": 1,
    }


def test_a_file_of_before_that_word_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    desk = Desk(path, now_s=at(17, 10))
    desk.counters.count("good")
    desk.counters.close()
    values = json.loads(path.read_text())
    for period in (values["shift"], values["total"]):
        for tally in (period["all"], *period["recipes"].values()):
            del tally["no_inspection"]
    path.write_text(json.dumps(values))
    again = Desk(path, now_s=at(17, 11))
    assert again.counters.counts.total.all.parts == 1
