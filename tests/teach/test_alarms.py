"""Alarms of the station: which frames are shown, whole, and how many are kept."""

from dataclasses import replace

import numpy as np
import pytest

from edgeseg.base.errors import UsageError
from edgeseg.decision.kinds import KindGuess
from edgeseg.decision.prediction import Region
from edgeseg.decision.why import Why
from edgeseg.teach import alarms as alarms_module
from edgeseg.teach.alarms import Alarms, alarm_of
from tests.support.messages import refuses
from tests.support.scored_frames import make_result


def bad(index: int = 0, **values):
    """A defect of a free-running camera, looked at through a region."""
    region = Region(box_xywh=(2, 3, 4, 5), area_px=20, peak=9.0)
    result = make_result(frame_index=index)
    changed = {
        "verdict": "defect", "alarm": True, "alarm_started": True, "regions": (region,),
        "roi_xy": (10, 20), "wall_s": 1000.0 + index, "frame_name": "",
        "captured_hwc": np.full((48, 64, 3), index, np.uint8),
    }  # fmt: skip
    return replace(result, **{**changed, **values})


def test_the_box_is_in_pixels_of_the_whole_picture():
    alarm = alarm_of(bad())
    assert alarm.box == (12, 23, 4, 5)
    assert (alarm.width, alarm.height) == (64, 48)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({}, True),
        ({"alarm_started": False}, False),  # the same part, a frame later
        ({"alarm_started": False, "trigger_id": 3}, True),
        ({"alarm_started": False, "frame_name": "a.png"}, True),
        ({"verdict": "good", "trigger_id": 3}, False),
        ({"verdict": "unsure", "trigger_id": 3}, False),
        ({"verdict": "not_found", "trigger_id": 3}, True),
        ({"verdict": "invalid", "trigger_id": 3}, True),
    ],
)
def test_every_part_is_shown_once(values, shown):
    assert (alarm_of(bad(**values)) is not None) == shown


def test_kind_and_reason_are_those_of_the_strongest_region(tmp_path):
    kind = KindGuess(name="scratch", number=2, like=3, of=5)
    told = Region(box_xywh=(2, 3, 4, 5), area_px=20, peak=9.0, kind=kind, why=Why(change="darker"))
    alarms = Alarms(tmp_path, note=print)
    alarms.offer(bad(regions=(told, Region(box_xywh=(9, 9, 8, 8), area_px=64, peak=7.0))))
    alarms.settle()
    (kept,) = alarms.after("")
    alarms.close()
    assert str(kept.explanation) == "kind: scratch (like 3 of 5); reason: darker than usual"
    assert alarm_of(bad()).explanation is None


def test_the_newest_are_kept_whole_and_those_after_an_id_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(alarms_module, "KEPT", 3)
    store = Alarms(tmp_path / "alarms", note=print)
    try:
        for index in range(5):
            store.offer(bad(index))
            store.settle()
        assert [alarm.id for alarm in store.after("")] == [
            f"{1000 * (1000 + index):013d}-{index:06d}" for index in (4, 3, 2)
        ]
        newest, older, _ = store.after("")
        assert store.after(older.id) == [newest]
        assert store.picture(newest.id).tolist() == np.full((48, 64, 3), 4).tolist()
        with refuses(UsageError, "alarm_gone"):
            store.find(f"{1000 * 1000:013d}-000000")
        assert store.lost == 0
    finally:
        store.close()


def test_more_than_can_be_written_is_counted_and_never_waited_for(tmp_path, monkeypatch):
    store = Alarms(tmp_path / "alarms", note=lambda text: None)
    store.close()  # nobody writes any more
    for index in range(alarms_module._WAITING + 4):
        store.offer(bad(index))
    assert store.lost == 4
