"""Triggered frames in a running stream: the first frame after the trigger, and nothing else."""

import contextlib
import queue
import threading
import time

import pytest

from edgeseg.base.errors import EdgesegError, RuntimeFailure
from edgeseg.base.progress import ignore
from edgeseg.runtime.capture.captures import Grab
from edgeseg.runtime.events.codes import ErrorCode, VerdictCode
from edgeseg.runtime.run.line import Line
from edgeseg.runtime.scoring.meters import Faults
from edgeseg.runtime.settings.options import read_options
from edgeseg.runtime.station.records import StationResult, TriggerEvent
from edgeseg.runtime.station.station import Station
from edgeseg.runtime.triggers.station_sink import StationSink
from tests.doubles.fakes import BrightnessSession, Canned, camera, grey, opens, wait
from tests.doubles.rig import Rig, RigCamera
from tests.support import HANGS_S

MODBUS = {"trigger": "modbus", "modbus": "0"}


def rig(**values: object) -> Rig:
    return Rig(BrightnessSession(), {**MODBUS, **values})


def trigger(line: Rig, part_id: str = "") -> None:
    """Once the station is ready, as a PLC does it."""
    line.wait(lambda: line.station.status().trigger_ready, "trigger ready")
    before = len(line.results)
    line.station.trigger(origin="test", part_id=part_id)
    line.wait(lambda: len(line.results) > before, "the result")


def test_every_trigger_gets_a_frame_that_was_taken_after_it() -> None:
    with rig() as line:
        for number in range(20):
            # Changed before the trigger: an older frame would show the level before.
            line.camera.level = 100 + number
            trigger(line, f"part {number}")
    scores = [result.inspection.score for result in line.results if result.inspection]
    assert scores == [100.0 + number for number in range(20)]
    assert [result.trigger.part_id for result in line.results] == [
        f"part {number}" for number in range(20)
    ]
    snapshot = line.pipeline.snapshot()
    assert snapshot.sources[0].scored == 20
    assert snapshot.sources[0].dropped["untriggered"] > 0
    assert [event["trigger_id"] for event in line.events if event["event"] == "result"] == list(
        range(1, 21)
    )
    assert line.line.facts() == {
        "trigger": "modbus",
        "triggers": 20,
        "results": 20,
        "missed": 0,
        "late": 0,
        "outcomes": {"good": 20},
    }


def test_a_defect_and_its_place_reach_the_result() -> None:
    with rig() as line:
        line.camera.level = 250
        trigger(line)
    (result,) = line.results
    assert result.code == VerdictCode.DEFECT
    assert result.inspection is not None
    assert result.inspection.box_xywh == (0, 0, 48, 32)


def test_a_damaged_frame_is_an_answer_and_not_waited_out() -> None:
    with rig(trigger_timeout=600.0) as line:
        line.camera.fps = 1.0
        line.station.events.subscribe(
            TriggerEvent, lambda event: setattr(line.camera, "damaged", True), name="test"
        )
        trigger(line)
    assert [(r.error, r.reason) for r in line.results] == [
        (ErrorCode.INCOMPLETE_FRAME, "the frame is lost (unreadable)")
    ]


def test_a_camera_that_is_cut_answers_its_trigger_and_comes_back() -> None:
    with rig(trigger_timeout=600.0) as line:
        line.camera.plugged = False
        line.station.trigger(origin="test")
        line.wait(lambda: len(line.results) == 1, "the answer")
        line.wait(lambda: not line.station.status().online, "offline")
        line.station.trigger(origin="test")
        line.camera.plugged = True
        line.wait(lambda: line.station.status().online, "online")
        trigger(line)
    # The last frame may have come between the cut and the first trigger.
    codes = [result.code for result in line.results]
    assert codes[1:] == [VerdictCode.NO_INSPECTION, VerdictCode.GOOD]
    assert line.results[1].error == ErrorCode.SOURCE_LOST


def test_a_model_that_hangs_costs_a_time_out_and_its_late_verdict_counts_for_nothing() -> None:
    release = threading.Event()
    session = BrightnessSession()
    with Rig(session, {**MODBUS, "trigger_timeout": 0.05}) as line:
        session.meanwhile = lambda: release.wait(HANGS_S) and None
        trigger(line)
        release.set()
        line.wait(lambda: line.station.status().late == 1, "the late verdict")
        session.meanwhile = None
        trigger(line)
    assert [result.error for result in line.results] == [ErrorCode.TIMEOUT, ErrorCode.NONE]
    assert line.results[0].reason == "no verdict within 0.05 s"


def test_a_model_that_fails_ends_the_run_and_every_trigger_says_so() -> None:
    session = BrightnessSession()
    line = Rig(session, dict(MODBUS))
    with line:
        session._fail_at = len(session.batches)
        trigger(line)
        line.wait(lambda: line.station.status().error == ErrorCode.CRASHED, "the end")
        line.station.trigger(origin="test")
    assert str(line.end()) == "the device is gone"
    assert [result.error for result in line.results] == [ErrorCode.CRASHED] * 2
    assert line.results[0].reason == "the device is gone"


def test_every_frame_of_a_hardware_triggered_camera_is_a_part() -> None:
    images = [grey(10), None, grey(250), grey(20)]
    opener = opens(Canned(images))
    line = Rig(BrightnessSession(), {"trigger": "hardware"}, live=False, opener=opener)
    with line:
        wait(lambda: len(line.results) == 4, "four results")
    assert [result.code for result in line.results] == [
        VerdictCode.GOOD,
        VerdictCode.NO_INSPECTION,
        VerdictCode.DEFECT,
        VerdictCode.GOOD,
    ]
    assert line.results[1].error == ErrorCode.INCOMPLETE_FRAME
    assert line.results[0].trigger.origin == "hardware"


def test_hardware_triggers_faster_than_the_model_are_missed_and_answered() -> None:
    gate = threading.Semaphore(0)
    session = BrightnessSession(meanwhile=lambda: gate.acquire() and None)
    gate.release(9)  # the warm-up
    values = {"trigger": "hardware", "queue_size": 1, "trigger_timeout": 600.0}
    camera = RigCamera(fps=200.0)
    with Rig(session, values, camera=camera) as line:
        line.wait(lambda: line.station.status().missed > 3, "missed triggers")
        gate.release(10**6)
    errors = {result.error for result in line.results}
    assert errors <= {ErrorCode.NONE, ErrorCode.MISSED, ErrorCode.STOPPED}
    ids = [result.trigger.trigger_id for result in line.results]
    assert ids == list(range(1, len(ids) + 1))
    dropped = line.pipeline.snapshot().sources[0].dropped
    assert dropped["missed"] == sum(result.error == ErrorCode.MISSED for result in line.results)


def test_free_running_shares_the_station() -> None:
    with Rig(BrightnessSession(), {}, camera=RigCamera(fps=100.0)) as line:
        line.wait(lambda: len(line.results) > 5, "results")
    assert {result.trigger.origin for result in line.results} == {"free"}
    assert line.events == []  # its frames are events already


class Fired:
    """A camera that takes a frame when software asks; `broken` makes that fail."""

    fps = 0.0

    def __init__(self, *, broken: bool = False) -> None:
        self.asked: queue.Queue[None] = queue.Queue()
        self._broken, self.closed = broken, threading.Event()

    def fire(self) -> None:
        if self._broken:
            raise RuntimeFailure("rig: the camera does not take commands")
        self.asked.put(None)

    def read(self) -> Grab | None:
        while not self.closed.is_set():
            try:
                self.asked.get(timeout=0.01)
            except queue.Empty:
                continue
            return Grab(grey(10), "rgb", time.monotonic_ns(), time.time())
        return None

    def close(self) -> None:
        self.closed.set()


def test_a_camera_of_its_own_trigger_is_fired_once_for_each() -> None:
    capture = Fired()
    with Rig(BrightnessSession(), dict(MODBUS), fired=True, opener=opens(capture)) as line:
        for _ in range(5):
            trigger(line)
        assert capture.asked.empty()
        capture.closed.set()
    assert [result.verdict for result in line.results] == ["good"] * 5
    assert line.pipeline.snapshot().sources[0].frames_in == 5


def test_a_camera_that_cannot_be_fired_is_no_inspection() -> None:
    capture = Fired(broken=True)
    values = {**MODBUS, "trigger_timeout": 600.0}
    with Rig(BrightnessSession(), values, fired=True, opener=opens(capture)) as line:
        trigger(line)
        capture.closed.set()
    assert [(result.error, result.reason) for result in line.results] == [
        (ErrorCode.SOURCE_LOST, "rig: the camera does not take commands")
    ]


def test_a_camera_that_nobody_would_fire() -> None:
    with pytest.raises(EdgesegError) as caught:
        Rig(BrightnessSession(), {}, fired=True)
    assert str(caught.value) == (
        "trigger=free: rig takes a frame when it is fired, and nobody would; "
        "expected one of modbus, mqtt, http, opcua"
    )


def test_what_is_under_way_is_answered_while_the_other_sinks_still_listen() -> None:
    """The station's sink is closed first, and says what the run ends with."""
    results = []
    for error in (None, RuntimeFailure("the device is gone"), ValueError("x")):
        station = Station()
        station.events.subscribe(StationResult, results.append, name="test")
        sink = StationSink(station, sources=1, jobs={})
        station.start()
        station.restore_source()
        station.trigger(origin="test")
        with contextlib.suppress(RuntimeFailure, ValueError):
            try:
                if error is not None:
                    raise error
            finally:
                sink.close()
    assert [(result.error, result.reason) for result in results] == [
        (ErrorCode.STOPPED, "the run ended"),
        (ErrorCode.CRASHED, "the device is gone"),
        (ErrorCode.CRASHED, "ValueError"),
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"trigger": "modbus"},
            "trigger=modbus: nobody could trigger; add modbus=PORT",
        ),
        (
            {"trigger": "hardware", "policy": "latest"},
            "policy=latest: is for trigger=free; a triggered frame waits its turn",
        ),
        ({"trigger_timeout": 0.0}, "trigger_timeout=0.0: expected more than 0"),
        (
            {"modbus": "plc"},
            "modbus='plc': expected PORT or HOST:PORT, such as 1502 or 0.0.0.0:1502",
        ),
        ({"result_buffer": 0}, "result_buffer=0: expected 1 to 4096"),
    ],
)
def test_options_check_themselves(values: dict[str, object], message: str) -> None:
    with pytest.raises(EdgesegError) as caught:
        read_options({"model": "x", "source": ("0",), **values})
    assert str(caught.value) == message


def test_a_trigger_needs_one_source() -> None:
    options = read_options({"model": "x", "source": ("0", "1"), "trigger": "hardware"})
    with pytest.raises(EdgesegError, match="trigger=hardware: 2 sources, expected one"):
        Line(options, [camera("a"), camera("b")], faults=Faults(ignore), note=ignore)
