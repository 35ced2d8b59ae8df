"""No trigger is good for a part that was not exposed after it, whatever happens on the way."""

import json

import pytest

from edgeseg.runtime.capture import opencv_capture
from edgeseg.runtime.capture.liveness import Arrival, Arrivals
from edgeseg.runtime.capture.repeats import Repeats
from edgeseg.runtime.capture.stream_clock import StreamClock
from tests.meaning.captures import OPENERS
from tests.meaning.simulated_line import KINDS, SimulatedLine, Tally, run_lines
from tests.meaning.world import CALM, ROUGH, Troubles
from tests.support import REPO

KEPT = REPO / "bench" / "results" / "meaning" / "simulated_line.json"


def check(tallies: list[Tally]) -> None:
    assert {(each.source, each.trigger) for each in tallies} == {
        (source, kind) for source in OPENERS for kind in KINDS
    }
    for each in tallies:
        assert each.wrong == 0, each
        assert each.good, each
        assert each.defect, each
        if not each.disturbed:  # what comes at once when a stream is opened may find no room
            assert each.inspected >= 0.99 or each.no_inspection == 1, each


def test_every_source_and_trigger_in_calm_and_in_trouble() -> None:
    tallies = run_lines(2000, seed=11)
    check(tallies)
    assert sum(each.triggers for each in tallies) >= 2000


def test_the_kept_report_says_the_same() -> None:
    kept = json.loads(KEPT.read_text())
    tallies = [
        Tally(**{key: value for key, value in each.items() if key != "inspected"})
        for each in kept["lines"]
    ]
    check(tallies)
    assert sum(each.triggers for each in tallies) >= kept["triggers"] == 100_000


def wrong(source: str, troubles: Troubles, *, triggers: int = 300) -> int:
    line = SimulatedLine(source, "software", triggers=triggers, seed=5, troubles=troubles)
    return line.run().wrong


LINK = Troubles(link=0.01, dropping=0.0)


def test_the_line_finds_frames_that_are_stamped_when_they_arrive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the clocks are for: without them the same line has parts that nobody looked at."""

    def by_arrival(clock: object, arrival: Arrival, time_s: float = 0.0) -> float:
        return arrival.now_s

    sources = ("MJPEG", "RTSP", "Aravis", "GStreamer")
    assert [wrong(source, LINK) for source in sources] == [0] * 4
    monkeypatch.setattr(Arrivals, "earliest_exposure_s", by_arrival)
    monkeypatch.setattr(StreamClock, "earliest_exposure_s", by_arrival)
    assert all(wrong(source, LINK) > 5 for source in sources)


def test_the_line_finds_a_driver_that_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = Troubles(process=0.02)
    assert wrong("V4L2", stopped) == 0
    monkeypatch.setattr(opencv_capture, "driver_stamp_s", lambda now_s, stamp_s: now_s)
    assert wrong("V4L2", stopped) > 5


def test_the_line_finds_a_frozen_camera(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = Troubles(frozen=0.01)
    assert wrong("V4L2", frozen) == 0
    monkeypatch.setattr(Repeats, "is_repeat", lambda repeats, image_hwc: False)
    assert wrong("V4L2", frozen) > 5


def test_a_delay_that_nobody_declared_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wrong("MJPEG", CALM) == 0
    monkeypatch.setattr("tests.meaning.simulated_line.DECLARED_S", 0.0)
    assert wrong("MJPEG", CALM) > 5


def test_the_same_seed_is_the_same_line() -> None:
    first, second = (
        SimulatedLine("RTSP", "software", triggers=60, seed=3, troubles=ROUGH).run()
        for _ in range(2)
    )
    assert first == second
