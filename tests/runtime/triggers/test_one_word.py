"""What a frame is called is decided once: station, events, page and counters say the same."""

from collections.abc import Callable
from pathlib import Path

import pytest

from edgeseg.runtime.events.codes import Check, ErrorCode
from edgeseg.runtime.events.records import FrameResult, SourceEvent
from edgeseg.runtime.sinks.counters import Counters
from edgeseg.runtime.sinks.event_log import frame_event
from edgeseg.runtime.station.records import StationResult
from edgeseg.runtime.web.page_sink import PageSink
from tests.doubles.fakes import BrightnessSession
from tests.doubles.rig import Rig


class Words:
    """A sink that keeps what frames are called."""

    name = "words"

    def __init__(self) -> None:
        self.frames: list[FrameResult] = []

    def on_frame(self, result: FrameResult) -> None:
        self.frames.append(result)

    def on_source(self, event: SourceEvent) -> None:
        pass

    def close(self) -> None:
        pass


def block_after_judging(rig: Rig, block: Callable[[], None]) -> None:
    """Between the scoring of the next frame and its report."""
    judge = rig.pipeline.scorer.score

    def score(taken: list) -> list[FrameResult]:
        results = judge(taken)
        assert [result.verdict for result in results] == ["good"]
        block()
        return results

    rig.pipeline.scorer.score = score


def blocks(rig: Rig) -> dict[ErrorCode, Callable[[], None]]:
    def time_out() -> None:
        rig.station._timeout_ns = 0
        rig.station.tick()

    return {
        ErrorCode.CHECK_FAILED: lambda: rig.station.set_check(Check.FAILED, "too dark"),
        ErrorCode.UNKNOWN_JOB: lambda: rig.station.fail_job("there is no job 9"),
        ErrorCode.TIMEOUT: time_out,
    }


@pytest.mark.parametrize(
    ("trigger", "error"),
    [
        ("free", ErrorCode.CHECK_FAILED),
        ("free", ErrorCode.UNKNOWN_JOB),
        ("http", ErrorCode.CHECK_FAILED),
        ("http", ErrorCode.TIMEOUT),
    ],
)
def test_a_block_between_judging_and_reporting_is_in_every_output(
    tmp_path: Path, trigger: str, error: ErrorCode
) -> None:
    values = {
        "trigger": trigger,
        "http": "0",
        "serve": 0,
        "counters": tmp_path / "counters.json",
        "trigger_timeout": 60.0,
    }
    rig, words = Rig(BrightnessSession(), values, sinks=True), Words()
    rig.pipeline.add_sink(words)
    block_after_judging(rig, blocks(rig)[error])
    with rig:
        if trigger != "free":
            rig.station.trigger(origin="test")
        rig.wait(lambda: words.frames, "a frame")
        page, counters = rig.run.sink(PageSink), rig.run.sink(Counters)
    frames, results = words.frames, rig.results
    assert {frame.verdict for frame in frames} == {"no_inspection"}
    assert [result.verdict for result in results] == ["no_inspection"] * len(frames)
    assert {result.error for result in results} == {error}
    event = frame_event(frames[0])
    assert (event["verdict"], event["error"]) == ("no_inspection", error.name.lower())
    assert event["alarm"]
    assert rig.pipeline.snapshot().sources[0].verdicts == {"no_inspection": len(frames)}
    assert page.screen()["part"]["verdict"] == "no_inspection"
    assert counters.counts.total.all.good == 0
    assert counters.counts.total.all.parts == len(frames)


def test_a_block_after_the_decision_changes_no_word_of_it() -> None:
    rig, words = Rig(BrightnessSession(), {"trigger": "http", "http": "0"}), Words()
    rig.pipeline.add_sink(words)
    # The station tells its listeners of a result before any sink hears of the frame.
    rig.station.events.subscribe(
        StationResult, lambda result: rig.station.set_check(Check.FAILED, "too dark"), name="test"
    )
    with rig:
        rig.station.trigger(origin="test")
        rig.wait(lambda: words.frames, "the frame")
    (frame,), (result,) = words.frames, rig.results
    assert (frame.verdict, frame.refusal) == (result.verdict, None) == ("good", None)
    assert rig.pipeline.snapshot().sources[0].verdicts == {"good": 1}


def test_a_station_that_fails_answers_for_no_frame() -> None:
    rig, words = Rig(BrightnessSession(), {"trigger": "free"}), Words()
    rig.pipeline.add_sink(words)

    def broken(result: FrameResult) -> None:
        raise ValueError("no station")

    rig.pipeline._decide = broken
    with rig:
        rig.wait(lambda: words.frames, "a frame")
    assert {frame.verdict for frame in words.frames} == {"no_inspection"}
    assert words.frames[0].refusal == (ErrorCode.CRASHED, "the station failed (ValueError)")
    assert rig.faults.totals()["station"] == len(words.frames)
