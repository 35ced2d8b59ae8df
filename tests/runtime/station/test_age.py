"""A trigger is as old as its message: what waited too long is answered, and never inspected."""

from collections import Counter

import pytest

from edgeseg.runtime.events.codes import ErrorCode
from edgeseg.runtime.station.age import moment_ns, read_sent
from edgeseg.runtime.station.records import Inspection, StationResult
from edgeseg.runtime.station.station import Station

LIMIT_NS = 2_000_000_000
BURST = 20_000


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now_ns = 10_000_000_000

    def __call__(self) -> int:
        return self.now_ns


def station(clock: Clock, *, depth: int = 1) -> tuple[Station, list[StationResult]]:
    made, results = Station(timeout_s=2.0, depth=depth, clock_ns=clock), list[StationResult]()
    made.events.subscribe(StationResult, results.append, name="test")
    made.start()
    return made, results


GOOD = Inspection(verdict="good", score=1.0, threshold=2.0, frame_index=0)


def test_of_twenty_thousand_at_once_none_is_inspected_later_than_its_limit() -> None:
    """They all came at one moment; the thread that takes them needs 3 ms for each."""
    clock = Clock()
    line, results = station(clock)
    came_ns = clock.now_ns
    for _ in range(BURST):
        clock.now_ns += 2_000_000
        event = line.trigger(origin="test", at_ns=came_ns)
        clock.now_ns += 1_000_000
        taken = line.acquire(grabbed_ns=clock.now_ns)
        if taken is not None:
            assert line.complete(event.trigger_id, GOOD) is None
    assert [each.trigger.trigger_id for each in results] == list(range(1, BURST + 1))
    inspected = [each for each in results if each.inspection is not None]
    assert 600 < len(inspected) < 700  # those whose turn came in time
    assert all(each.latency_ms <= LIMIT_NS / 1e6 for each in inspected)
    late = [each for each in results if each.inspection is None]
    assert {each.error for each in late} == {ErrorCode.TIMEOUT}
    assert late[-1].reason == "it came 60.0 s before it was taken, limit 2 s"


def test_a_burst_behind_one_part_is_answered_when_that_part_is() -> None:
    """The results of missed ones wait for their turn."""
    clock = Clock()
    line, results = station(clock)
    for _ in range(BURST):
        line.trigger(origin="test")
    assert results == []
    clock.now_ns += 1
    first = line.acquire(grabbed_ns=clock.now_ns)
    assert first is not None
    line.complete(first.trigger_id, GOOD)
    assert Counter(each.verdict for each in results) == {"good": 1, "no_inspection": BURST - 1}


def test_the_time_that_it_waited_before_it_was_taken_counts() -> None:
    clock = Clock()
    line, results = station(clock)
    event = line.trigger(origin="test", at_ns=clock.now_ns - LIMIT_NS + 5)
    clock.now_ns += 4
    line.tick()
    assert results == []
    clock.now_ns += 1
    line.tick()
    assert (results[0].trigger, results[0].error) == (event, ErrorCode.TIMEOUT)


def test_neither_a_frame_nor_a_verdict_after_the_limit_counts_though_nobody_looked() -> None:
    """The watch that answers what is overdue is a thread, and may be late itself."""
    clock = Clock()
    line, results = station(clock)
    first = line.trigger(origin="test")
    clock.now_ns += LIMIT_NS
    assert line.acquire(grabbed_ns=clock.now_ns) is None
    second = line.trigger(origin="test")
    clock.now_ns += 1
    assert line.acquire(grabbed_ns=clock.now_ns) == second
    clock.now_ns += LIMIT_NS
    refusal = line.complete(second.trigger_id, GOOD)
    assert refusal is not None
    assert [(each.trigger, each.error) for each in results] == [
        (first, ErrorCode.TIMEOUT),
        (second, ErrorCode.TIMEOUT),
    ]


def test_a_frame_from_before_it_was_taken_may_show_what_was_there_before() -> None:
    """A client may begin a request, and end it when the part lies there."""
    clock = Clock()
    line, _ = station(clock)
    began_ns = clock.now_ns
    clock.now_ns += 1_000_000_000
    event = line.trigger(origin="test", at_ns=began_ns)
    assert line.acquire(grabbed_ns=began_ns + 500_000_000) is None
    assert line.acquire(grabbed_ns=clock.now_ns + 1) == event


def test_a_door_may_refuse_and_the_trigger_is_answered() -> None:
    clock = Clock()
    line, results = station(clock)
    line.trigger(origin="test", request="r-1", refusal=(ErrorCode.REQUEST_REUSED, "named another"))
    assert results[0].facts()["error_code"] == 12
    assert (results[0].trigger.request, results[0].reason) == ("r-1", "named another")
    assert line.status().trigger_ready


@pytest.mark.parametrize(
    ("sent_s", "age_s"),
    [(None, 0.0), (999.5, 0.5), (997.0, 3.0), (1000.9, 0.0)],
    ids=["not told", "half a second ago", "three seconds ago", "by a clock a little ahead"],
)
def test_where_the_sender_says_when_it_sent_that_counts(sent_s: float | None, age_s: float) -> None:
    at_ns = moment_ns(10**10, sent_s, clock_ns=lambda: 10**10, wall=lambda: 1000.0)
    assert (10**10 - at_ns) / 1e9 == pytest.approx(age_s)


def test_a_sender_whose_clock_is_ahead_is_told_to_set_it() -> None:
    clock = Clock()
    line, results = station(clock)
    at_ns = moment_ns(clock.now_ns, 1003.0, clock_ns=clock, wall=lambda: 1000.0)
    line.trigger(origin="test", at_ns=at_ns)
    assert results[0].error == ErrorCode.TIMEOUT
    assert results[0].reason == "it was sent 3.0 s ahead of this computer's clock; set the clocks"
    assert results[0].latency_ms == 0


@pytest.mark.parametrize("value", [True, "now", float("nan"), -1, 1.7e12, [1]])
def test_what_is_no_moment_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="sent"):
        read_sent(value)
