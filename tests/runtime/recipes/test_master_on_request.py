"""The master part before the camera of a running line: pass or fail to whoever asked."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.runtime.capture.frame_buffer import Frame
from edgeseg.runtime.capture.frame_tap import FrameTap
from edgeseg.runtime.recipes import changeover
from edgeseg.vision.images import write_image
from tests.doubles.fakes import wait
from tests.doubles.rig import Rig
from tests.support.http_client import ask
from tests.support.recipe_folders import approve_now, edit, new_recipe, part
from tests.support.recipe_line import inspect, line

MASTER = part(150)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    high = new_recipe(tmp_path / "high", number=1)
    for index in range(8):
        write_image(high.golden / "master" / f"{index}.png", MASTER)
    approve_now(high)
    edit(high, "master_on_request = false", "master_on_request = true")
    return tmp_path


def check(rig: Rig, shown: NDArray[np.uint8]) -> tuple[str, str]:
    rig.camera.picture = shown
    seen = rig.pipeline.snapshot().sources[0].frames_in
    rig.wait(lambda: rig.pipeline.snapshot().sources[0].frames_in > seen + 2, "the picture")
    status, told = ask(rig, "POST", "/check?wait=1")
    assert status == 200
    return told["check"], told["reason"]


def test_it_passes_as_it_was_and_fails_dark_blurred_moved_or_damaged(folder: Path) -> None:
    scratched = part(240)
    wrong = {
        "darker": (0.5 * MASTER).astype(np.uint8),
        "blurred": np.asarray(cv2.GaussianBlur(MASTER, (0, 0), 3.0), np.uint8),
        "moved": np.roll(MASTER, 8, axis=1),
        "judged defect": scratched,
    }
    with line(folder, http="0", trigger_timeout=30.0) as rig:
        assert check(rig, MASTER) == ("passed", "")
        assert inspect(rig) == ("high", "good")
        for picture in wrong.values():
            state, reason = check(rig, picture)
            assert state == "failed"
            assert "master part: " in reason
            assert inspect(rig)[1] == "no_inspection"
        assert check(rig, MASTER) == ("passed", "")
        assert inspect(rig) == ("high", "good")


def test_a_camera_that_gives_no_frames_fails_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changeover, "_MASTER_S", 0.01)
    with line(folder, http="0") as rig:
        rig.camera.plugged = False
        rig.wait(lambda: not rig.station.status().online, "the loss")
        assert rig.station.check_now()
        rig.wait(lambda: rig.station.status().checks == 1, "the answer")
        rig.camera.plugged = True
        rig.wait(lambda: rig.station.status().online, "its return")
        reason = rig.station.status().reason
        assert reason == "master part: 0 of 8 frames within 0.01 s"


class Taken:
    """An intake that remembers."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def put(self, frame: Frame) -> None:
        self.frames.append(frame)

    def count_unread(self, source_index: int, cause: str) -> None:
        raise AssertionError(cause)

    def finish(self, source_index: int) -> None:
        pass


LATER_NS = 2**62  # than any request


def frame(
    level: int, *, source: int = 0, channels: str = "rgb", grabbed_ns: int = LATER_NS
) -> Frame:
    image = np.zeros((2, 3, 3), np.uint8)
    image[:, :, 0] = level
    return Frame(
        source_index=source, frame_index=level, image_hwc=image, channels=channels,
        grabbed_ns=grabbed_ns, wall_s=0.0,
    )  # fmt: skip


def test_a_tap_takes_nothing_away_and_turns_colours_round() -> None:
    taken = Taken()
    tap = FrameTap(taken)
    tap.put(frame(1))
    levels = iter((frame(2, source=1), frame(3), frame(4, channels="bgr")))

    def fire() -> None:
        for each in levels:
            tap.put(each)
            if each.source_index == 0:
                return

    first, second = tap.next_frames(2, timeout_s=30.0, ask=fire)
    assert (first[0, 0, 0], first[0, 0, 2]) == (3, 0)
    assert (second[0, 0, 0], second[0, 0, 2]) == (0, 4)
    tap.put(frame(5))
    assert [each.frame_index for each in taken.frames] == [1, 2, 3, 4, 5]
    assert tap.next_frames(1, timeout_s=0.0) == []
    wait(lambda: not tap._wanted, "nobody waits any more")


def test_a_frame_from_before_the_request_shows_no_master_part() -> None:
    tap = FrameTap(Taken())
    burst = iter((frame(1, grabbed_ns=1), frame(2, grabbed_ns=2), frame(3)))
    (only,) = tap.next_frames(1, timeout_s=30.0, ask=lambda: [tap.put(each) for each in burst])
    assert only[0, 0, 0] == 3
