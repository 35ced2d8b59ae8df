"""A golden check on request, and what frames are called while no approved model answers."""

from collections.abc import Callable

import pytest

from edgeseg.runtime.scoring.verdict import called
from edgeseg.runtime.station.codes import Check, CheckAnswer, ErrorCode, VerdictCode
from edgeseg.runtime.station.records import Inspection, StationResult
from edgeseg.runtime.station.station import Station


def station() -> tuple[Station, list[StationResult]]:
    made = Station()
    results: list[StationResult] = []
    made.subscribe(results.append)
    made.start()
    return made, results


def seen(verdict: str = "good", **values: object) -> Inspection:
    return Inspection(verdict=verdict, score=1.0, threshold=2.0, frame_index=0, **values)


def answered(line: Station) -> tuple[Check, CheckAnswer, int]:
    words = line.words()
    return words.check, words.check_answer, words.checks


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
    assert not line.words().trigger_ready
    line.set_check(outcome)
    assert answered(line) == (outcome, CheckAnswer(int(outcome)), 1)
    assert line.words().trigger_ready == ready
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
    assert line.words().trigger_ready


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
    assert line.no_verdict(triggered=False) is None
    BLOCKS[error](line)
    refusal = line.no_verdict(triggered=False)
    assert refusal is not None
    assert refusal[0] == error
    assert line.words().unapproved
    for verdict in ("good", "unsure", "defect"):
        assert called(verdict, refusal) == "no_inspection"
        line.free(seen(verdict), at_ns=1)
    assert {result.code for result in results} == {VerdictCode.NO_INSPECTION}
    assert {result.error for result in results} == {error}


@pytest.mark.parametrize("error", BLOCKS)
def test_what_was_refused_stays_so_when_the_block_has_gone(error: ErrorCode) -> None:
    line, results = station()
    refused = seen("no_inspection", refusal=(error, "as it was judged"))
    line.free(refused, at_ns=1)
    event = line.trigger(origin="test", acquired=True)
    line.complete(event.trigger_id, refused)
    assert [(result.verdict, result.error) for result in results] == [("no_inspection", error)] * 2


def test_a_trigger_under_way_is_still_for_its_recipe_unless_a_check_fails() -> None:
    line, results = station()
    event = line.trigger(origin="test", acquired=True)
    line.hold_for_job()
    assert line.no_verdict(triggered=True) is None
    line.complete(event.trigger_id, seen())
    assert results[-1].code == VerdictCode.GOOD
    line.job_failed("there is none")
    line.set_check(Check.FAILED)
    assert line.no_verdict(triggered=True) is not None


def test_a_camera_that_is_away_is_no_reason_not_to_trust_a_frame() -> None:
    line, _ = station()
    line.source_lost("unplugged")
    assert line.no_verdict(triggered=False) is None
    assert not line.words().unapproved
    assert called("good", None) == "good"
