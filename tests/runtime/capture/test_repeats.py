"""A frozen camera: the same bytes again are no new exposure, no sign of life and no answer."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.runtime.capture import reader as reader_module
from edgeseg.runtime.capture.captures import Grab
from edgeseg.runtime.capture.frame_buffer import FrameBuffer
from edgeseg.runtime.capture.reader import Reader
from edgeseg.runtime.capture.repeats import Repeats
from edgeseg.runtime.capture.sources import SourceSpec, parse_source
from edgeseg.runtime.events.codes import ErrorCode
from edgeseg.runtime.events.records import SourceEvent
from edgeseg.runtime.station.records import StationResult
from edgeseg.runtime.station.station import Station
from edgeseg.runtime.triggers.intakes import HardwareIntake, SoftwareIntake
from tests.doubles.fakes import camera, clip, grey
from tests.meaning.world import Sim


def test_one_byte_makes_another_picture() -> None:
    repeats, image = Repeats(), grey(7, (33, 47))
    assert not repeats.is_repeat(image)
    assert repeats.is_repeat(image.copy())
    for place in (0, 1, 96, image.size // 2, image.size - 1):
        other = image.copy()
        other.reshape(-1)[place] ^= 1
        assert not repeats.is_repeat(other)
        assert not repeats.is_repeat(image)
    assert not repeats.is_repeat(grey(7, (47, 33)))
    assert repeats.is_repeat(grey(7, (47, 66))[:, ::2]), "also where rows do not lie together"


class Bench:
    """A reader that is fed by hand, an eighth of a second apart."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, spec: SourceSpec) -> None:
        self.sim, self.buffer = Sim(0), FrameBuffer(["queue"], queue_size=1000)
        monkeypatch.setattr(reader_module, "time", self.sim)
        self.events: list[SourceEvent] = []
        self.left: list[NDArray[np.uint8]] = []
        self.reader = Reader(
            spec,
            0,
            buffer=self.buffer,
            stop=threading.Event(),
            on_event=self.events.append,
            stall_timeout_s=2.0,
            opener=lambda spec, wait, timeout_s: self,
        )
        self.fps = 8.0

    def read(self) -> Grab | None:
        self.sim.advance(self.sim.monotonic() + 0.125)
        if not self.left:
            return None
        return Grab(self.left.pop(0), "rgb", self.sim.monotonic_ns(), self.sim.time())

    def close(self) -> None:
        """Nothing is held."""

    def connection(self, *levels: int) -> None:
        """One, with frames of these levels."""
        self.left = [grey(level) for level in levels]
        self.reader._read_once()

    def kinds(self) -> list[str]:
        return [event.kind.removeprefix("source_") for event in self.events]


def test_a_picture_that_does_not_change_is_a_lost_camera(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, camera(repeats=False))
    bench.connection(1, 2, *[3] * 40)
    assert bench.kinds() == ["open", "lost"]
    reason = bench.events[-1].reason
    assert reason == "the picture has not changed for 2.1 s: the camera is frozen"
    counters = bench.buffer.counters(0)
    assert dict(counters.dropped) == {"repeated": 16, "stalled": 1}
    assert counters.frames_in == 3 + counters.dropped.total()
    # Opened anew it shows the same: it is not back before it shows something else.
    bench.connection(*[3] * 10)
    assert bench.kinds() == ["open", "lost"]
    bench.connection(3, 4)
    assert bench.kinds()[:3] == ["open", "lost", "back"]


def test_who_says_so_may_repeat_and_a_file_may_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for spec in (camera(repeats=True), clip()):
        bench = Bench(monkeypatch, spec)
        bench.connection(*[3] * 40)
        assert bench.buffer.counters(0).frames_in == 40
        assert not bench.buffer.counters(0).dropped.total()


def test_a_camera_that_repeats_now_and_then_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, camera(repeats=False))
    bench.connection(*[level for level in range(30) for _ in range(3)])
    assert bench.kinds()[0] == "open"
    assert "frozen" not in bench.events[-1].reason
    assert dict(bench.buffer.counters(0).dropped) == {"repeated": 60}


def test_the_delay_that_nobody_sees_makes_a_frame_older(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, replace(camera(repeats=False), delay_s=0.25))
    bench.connection(1)
    ((frame, _),) = bench.buffer.take(1, timeout_s=0)
    assert frame.grabbed_ns == pytest.approx((1000.125 - 0.25) * 1e9)
    assert frame.wall_s == pytest.approx(1000.125 - 0.25)


def test_options_reach_the_source() -> None:
    spec = parse_source("0", delay_s=0.1, repeats=True)
    assert (spec.delay_s, spec.repeats) == (0.1, True)
    assert not parse_source("0").repeats


def online() -> tuple[Station, FrameBuffer]:
    station = Station()
    station.start()
    station.restore_source()
    return station, FrameBuffer(["queue"], queue_size=8)


def test_a_trigger_waits_for_another_picture_unless_it_fired_this_one() -> None:
    for fired, waits in ((False, True), (True, False)):
        station, buffer = online()
        results = []
        station.events.subscribe(StationResult, results.append, name="test")
        event = station.trigger(origin="test")
        SoftwareIntake(buffer, station, fired=fired).count_unread(0, "repeated")
        assert station.waits_for(event.trigger_id) == waits
        assert [result.reason for result in results] == ["the frame is lost (repeated)"] * fired


def test_a_line_that_triggered_and_got_the_picture_before_is_answered() -> None:
    station, buffer = online()
    results = []
    station.events.subscribe(StationResult, results.append, name="test")
    HardwareIntake(buffer, station).count_unread(0, "repeated")
    assert [result.error for result in results] == [ErrorCode.INCOMPLETE_FRAME]
