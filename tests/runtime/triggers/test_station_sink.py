"""What a scored frame says to the station."""

from dataclasses import replace

from edgeseg.contract.geometry import Pose
from edgeseg.runtime.station.records import Job, StationResult, TriggerEvent
from edgeseg.runtime.triggers.station_sink import inspection_of
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
