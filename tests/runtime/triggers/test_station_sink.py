"""What a scored frame says to the station."""

from dataclasses import replace

from edgeseg.runtime.events.codes import ErrorCode
from edgeseg.runtime.station.records import Job, StationResult, TriggerEvent
from edgeseg.runtime.station.station import Station
from edgeseg.runtime.triggers.station_sink import StationSink, inspection_of
from edgeseg.vision.geometry import Pose
from tests.support.scored_frames import make_result


def test_a_result_tells_where_the_part_lies():
    pose = Pose(x=12.344, y=20.0, degrees=-3.456, home_xy=(10.0, 21.5))
    trigger = TriggerEvent(
        trigger_id=1, part_id="", origin="test", monotonic_ns=0, wall_s=0.0, job=Job()
    )
    for given, told in (
        (None, None),
        (pose, {"x": 12.34, "y": 20.0, "degrees": -3.46, "right": 2.34, "down": -1.5}),
    ):
        inspection = inspection_of(replace(make_result(), pose=given))
        result = StationResult(trigger=trigger, inspection=inspection, wall_s=0.0, latency_ms=1.0)
        assert result.facts()["pose"] == told


def test_a_frame_out_of_a_buffer_is_no_inspection_before_anybody_looks_at_the_time() -> None:
    """Its line triggered long ago, and its part is gone; no thread has ticked since."""
    station = Station(timeout_s=2.0, clock_ns=lambda: 100_000_000_000)
    results: list[StationResult] = []
    station.events.subscribe(StationResult, results.append, name="test")
    sink = StationSink(station, sources=1)
    station.start()
    station.restore_source()
    for age_s in (1.9, 2.1):
        event = station.trigger(origin="hardware", at_ns=int((100 - age_s) * 1e9), acquired=True)
        sink.decide(replace(make_result(score=1.0), trigger_id=event.trigger_id))
    assert [(result.verdict, result.error) for result in results] == [
        ("good", ErrorCode.NONE),
        ("no_inspection", ErrorCode.TIMEOUT),
    ]
