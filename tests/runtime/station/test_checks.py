"""A golden check on request, and what frames are called while no approved model answers."""

from collections.abc import Callable

import pytest

from edgeseg.runtime.events.codes import Check, CheckAnswer, ErrorCode, VerdictCode
from edgeseg.runtime.scoring.verdict import frame_verdict
from edgeseg.runtime.station.records import Inspection, Job, StationResult
from edgeseg.runtime.station.station import Station


def station() -> tuple[Station, list[StationResult]]:
    made = Station()
    results: list[StationResult] = []
    made.events.subscribe(StationResult, results.append, name="test")
    made.start()
    return made, results


def seen(verdict: str = "good") -> Inspection:
    return Inspection(verdict=verdict, score=1.0, threshold=2.0, frame_index=0)


def answered(line: Station) -> tuple[Check, CheckAnswer, int]:
    status = line.status()
    return status.check, status.check_answer, status.checks


@pytest.mark.parametrize(("outcome", "ready"), [(Check.PASSED, True), (Check.FAILED, False)])
def test_a_request_is_answered_once(outcome: Check, ready: bool) -> None:
    line, _ = station()

    def checker() -> bool:
        line.begin_check()
        return True

    line.attach_check(checker)
    assert answered(line) == (Check.NONE, CheckAnswer.NONE, 0)
    assert line.check_now()
    assert answered(line) == (Check.RUNNING, CheckAnswer.RUNNING, 0)
    assert not line.status().trigger_ready
    line.set_check(outcome)
    assert answered(line) == (outcome, CheckAnswer(int(outcome)), 1)
    assert line.status().trigger_ready == ready
    line.set_check(Check.PASSED)  # of a changeover, which nobody asked for
    assert answered(line)[2] == 1


def test_a_refused_request_leaves_the_station_as_it_was() -> None:
    line, _ = station()
    assert not line.check_now()
    assert answered(line) == (Check.NONE, CheckAnswer.REFUSED, 1)
    line.attach_check(lambda: False)
    line.set_check(Check.PASSED)
    assert not line.check_now()
    assert answered(line) == (Check.PASSED, CheckAnswer.REFUSED, 2)
    assert line.status().trigger_ready


BLOCKS: dict[ErrorCode, Callable[[Station], object]] = {
    ErrorCode.CHECK_FAILED: lambda line: line.set_check(Check.FAILED, "too dark"),
    ErrorCode.UNKNOWN_JOB: lambda line: line.load_job(7),
    ErrorCode.JOB_LOADING: lambda line: line.hold_for_job(),
}


@pytest.mark.parametrize("error", BLOCKS)
def test_a_frame_that_nobody_triggered_has_no_verdict_while_there_is_no_approved_model(
    error: ErrorCode,
) -> None:
    line, results = station()
    assert line.free(seen(), at_ns=1) is None
    BLOCKS[error](line)
    assert line.status().unapproved
    for verdict in ("good", "unsure", "defect"):
        refusal = line.free(seen(verdict), at_ns=1)
        assert refusal is not None
        assert frame_verdict(verdict, refusal) == "no_inspection"
        assert (results[-1].error, results[-1].reason) == refusal
        assert (results[-1].code, refusal[0]) == (VerdictCode.NO_INSPECTION, error)


def test_a_trigger_under_way_is_still_for_its_recipe_unless_a_check_fails() -> None:
    line, results = station()
    event = line.trigger(origin="test", acquired=True)
    line.hold_for_job()
    assert line.complete(event.trigger_id, seen()) is None
    assert results[-1].code == VerdictCode.GOOD
    line.set_job(Job())
    event = line.trigger(origin="test", acquired=True)
    line.set_check(Check.FAILED)
    refusal = (ErrorCode.CHECK_FAILED, "the golden check failed")
    assert line.complete(event.trigger_id, seen()) == refusal
    assert (results[-1].error, results[-1].reason) == refusal


def test_a_camera_that_is_away_is_no_reason_not_to_trust_a_frame() -> None:
    line, _ = station()
    line.lose_source("unplugged")
    assert line.free(seen(), at_ns=1) is None
    assert not line.status().unapproved
    assert frame_verdict("good", None) == "good"
