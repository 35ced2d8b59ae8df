"""How far a job is, and how long it still takes."""

import io
import json

import pytest

from edgeseg.base.messages import Message
from edgeseg.teach.fit_job import fit_costs
from edgeseg.teach.job_progress import ProgressWriter, TimeLeft


def shares(out: io.StringIO) -> list[float]:
    return [json.loads(line)["share"] for line in out.getvalue().splitlines()]


def test_a_stage_takes_the_share_of_its_cost():
    out = io.StringIO()
    writer = ProgressWriter(out)
    writer.plan({"fit_begins": 1, "work_fitting": 3, "work_calibrating": 6})
    writer.at("fit_begins", Message("fit_begins", n=5))
    list(writer.progress(range(3), length=3, label=Message("work_fitting")))
    list(writer.progress((), length=0, label=Message("work_calibrating")))  # which is no loop
    list(writer.progress(range(2), length=2, label=Message("work_calibrating")))
    assert shares(out) == [0, 0.1, 0.2, 0.3, 0.4, 0.4, 0.7, 1.0]


def test_what_was_not_planned_says_something_and_moves_nothing():
    out = io.StringIO()
    writer = ProgressWriter(out)
    writer.plan({"work_fitting": 1, "work_writing": 1})
    writer.at("work_writing", Message("work_writing"))
    list(writer.progress(range(2), length=2, label="a loop of a library"))
    writer.at("work_fitting", Message("work_writing"))  # once more
    assert shares(out) == [0.5] * 5


def test_more_pictures_make_fitting_a_larger_part_of_a_fit():
    few, many = fit_costs(40), fit_costs(400)
    assert few["work_calibrating"] / sum(few.values()) > 0.6
    assert many["work_fitting"] / sum(many.values()) > 0.3


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_the_time_left_follows_what_was_measured():
    clock = Clock()
    left = TimeLeft(clock)
    assert left.seconds() is None
    for second in range(1, 51):
        clock.now_s = float(second)
        left.note(second / 100)
    assert left.seconds() == pytest.approx(50)
    for second in range(51, 200):  # the computer becomes busy: a tenth of the speed
        clock.now_s = float(second)
        left.note(0.5 + (second - 50) / 1000)
    assert left.seconds() == pytest.approx(351, rel=0.05)


def test_work_that_stands_still_takes_longer_and_longer():
    clock = Clock()
    left = TimeLeft(clock)
    for second in range(1, 11):
        clock.now_s = float(second)
        left.note(second / 20)
    said = []
    for clock.now_s in (10.0, 40.0, 100.0, 1000.0):
        said.append(left.seconds())
    assert said == sorted(said)
    assert said[0] == pytest.approx(10)
    assert said[-1] > 900


def test_nothing_is_said_before_something_is_known():
    clock = Clock()
    left = TimeLeft(clock)
    clock.now_s = 100.0
    left.note(0.01)
    assert left.seconds() is None
    clock.now_s = 101.0
    left.note(0.5)
    assert left.seconds() == pytest.approx(101)
