"""`--trigger part`: one trigger for each part that rests or passes, with its best frames."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError
from edgeseg.runtime.events.codes import ErrorCode
from edgeseg.runtime.settings.options import read_options
from edgeseg.runtime.station.records import Inspection, StationResult, vote
from edgeseg.runtime.station.station import Station
from tests.doubles.fakes import BrightnessSession, Canned, opens
from tests.doubles.rig import Rig

SIZE_HW = (96, 160)
GROUND = 60


def scene(left: int | None, *, level: int = 150, light: float = 1.0) -> NDArray[np.uint8]:
    """A part of 40x40 pixels at a place, or none."""
    grey = np.full(SIZE_HW, GROUND, np.float32)
    if left is not None:
        begin, end = max(0, left), min(SIZE_HW[1], left + 40)
        if begin < end:
            grey[30:70, begin:end] = level
    return np.repeat((grey * light).clip(0, 255).astype(np.uint8)[:, :, None], 3, axis=2)


def passing(level: int = 150) -> list[NDArray[np.uint8]]:
    return [scene(left, level=level) for left in range(-30, 170, 10)]


NOTHING = [scene(None)] * 8


def results(images: list[NDArray[np.uint8]], **values: object) -> list[StationResult]:
    options = {"trigger": "part", "trigger_timeout": 60.0, **values}
    line = Rig(BrightnessSession(), options, live=False, opener=opens(Canned(images)))
    with line:
        line.wait(line.ended, "the end")
    counted = line.pipeline.snapshot().sources[0]
    assert counted.frames_in == len(images) == counted.scored + sum(counted.dropped.values())
    assert [r.trigger.trigger_id for r in line.results] == list(range(1, len(line.results) + 1))
    return line.results


def frames(found: list[StationResult]) -> list[int]:
    return [result.inspection.frame_index for result in found if result.inspection is not None]


def test_nothing_is_no_part() -> None:
    assert results(NOTHING * 3) == []
    slowly_darker = [scene(None, light=1.0 - 0.005 * step) for step in range(60)]
    assert results(slowly_darker) == []
    assert results([scene(None), *[scene(None, light=0.7)] * 10, *NOTHING]) == []  # exposure


def test_a_part_that_passes_is_judged_once_by_a_frame_that_shows_all_of_it() -> None:
    found = results([*NOTHING, *passing(), *NOTHING])
    ((index,),) = (frames(found),)
    left = -30 + 10 * (index - len(NOTHING))
    assert 0 < left < SIZE_HW[1] - 40


def test_a_part_that_rests_is_judged_while_it_is_there_and_once() -> None:
    coming = [scene(left) for left in range(-30, 60, 10)]
    images = [*NOTHING, *coming, *[scene(60)] * 30, *NOTHING]
    (index,) = frames(results(images))
    rest = len(NOTHING) + len(coming)
    assert rest + 3 <= index < rest + 10


def test_every_part_has_its_own_verdict() -> None:
    images = [*NOTHING, *passing(150), *NOTHING, *passing(250), *NOTHING, *passing(150), *NOTHING]
    assert [result.verdict for result in results(images)] == ["good", "defect", "good"]


def test_what_is_there_at_the_start_counts_against_a_picture_of_the_empty_view(
    tmp_path: Path,
) -> None:
    empty = tmp_path / "empty.png"
    cv2.imwrite(str(empty), scene(None))
    images = [*[scene(60)] * 12, *NOTHING, *passing(), *NOTHING]
    assert len(results(images, part_empty=empty)) == 2


def test_a_part_in_view_when_the_clip_ends_is_judged() -> None:
    assert len(results([*NOTHING, *passing()[:9]])) == 1


def test_a_flicker_is_no_part() -> None:
    assert results([*NOTHING, scene(60), *NOTHING]) == []


def test_only_the_region_counts() -> None:
    images = [*NOTHING, *[scene(0)] * 12, *NOTHING]
    assert len(results(images, roi="0,0,80,96")) == 1
    assert results(images, roi="80,0,80,96") == []


def test_k_of_n_frames() -> None:
    # The best frames show all of the part; one of them is too bright.
    images = [*NOTHING, *passing(), *NOTHING]
    whole = len(NOTHING) + 8
    images[whole] = scene(-30 + 80, level=250)
    assert [r.verdict for r in results(images, part_frames="1/5")] == ["defect"]
    (result,) = results(images, part_frames="3/5")
    assert (result.verdict, result.facts()["frames"]) == ("good", 5)


def seen(verdict: str, score: float) -> Inspection:
    return Inspection(verdict=verdict, score=score, threshold=2.0, frame_index=0)


def test_votes() -> None:
    good, bad, odd = seen("good", 1.0), seen("defect", 3.0), seen("invalid", float("nan"))
    assert vote([good, bad, good], needed=2).verdict == "good"
    assert vote([good, bad, bad], needed=2).verdict == "defect"
    assert vote([bad, odd], needed=1).verdict == "invalid"
    assert vote([good, seen("unsure", 1.9)], needed=1).verdict == "unsure"
    assert vote([good, good, bad], needed=2).frames == 3


def test_a_damaged_frame_of_several_fails_the_part() -> None:
    station = Station()
    station.start()
    found: list[StationResult] = []
    station.events.subscribe(StationResult, found.append, name="test")
    event = station.trigger(origin="part", acquired=True, frames=2, needed=2)
    station.complete(event.trigger_id, seen("good", 1.0))
    station.fail(event.trigger_id, ErrorCode.INCOMPLETE_FRAME, "half of it")
    assert [result.error for result in found] == [ErrorCode.INCOMPLETE_FRAME]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"part_area": 0.0}, "part_area=0.0: expected a share between 0 and 1"),
        (
            {"part_frames": "3/2"},
            "part_frames='3/2': expected K/N with K from 1 to N, and N to 5",
        ),
        ({"part_frames": "1"}, "part_frames='1': expected K/N with K from 1 to N, and N to 5"),
    ],
)
def test_options_check_themselves(values: dict[str, object], message: str) -> None:
    with pytest.raises(EdgesegError) as caught:
        read_options({"model": "x", "source": ("0",), "trigger": "part", **values})
    assert str(caught.value) == message
