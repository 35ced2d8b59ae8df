"""A recipe whose start needs the live master part: nothing is good before it has passed."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgeseg.runtime.adapters.modbus_map import STATUS, Status
from edgeseg.runtime.capture.frame_tap import FrameTap
from edgeseg.runtime.events.codes import Check, CheckAnswer
from edgeseg.runtime.recipes import changeover
from edgeseg.runtime.recipes.changeover import MASTER_WANTED
from edgeseg.runtime.recipes.recipe import read_recipe
from edgeseg.runtime.web.page_sink import PageSink
from edgeseg.vision.images import write_image
from tests.doubles.plc import ModbusPlc
from tests.doubles.rig import Rig
from tests.support import HANGS_S
from tests.support.recipe_folders import approve_now, edit, new_recipe, part
from tests.support.recipe_line import change, inspect, line

MASTER = part(150)
DARK = (0.5 * MASTER).astype(np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate(("high", "other"), 1):
        made = new_recipe(tmp_path / name, number=number)
        for index in range(8):
            write_image(made.golden / "master" / f"{index}.png", MASTER)
        approve_now(made)
    edit(made, "master_at_start = false", "master_at_start = true")
    return tmp_path


class Gate:
    """Frames of the master part are there when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened, self.reached = threading.Event(), threading.Event()
        take = FrameTap.next_frames

        def gated(tap: FrameTap, *args: object, **options: object) -> object:
            self.reached.set()
            assert self.opened.wait(HANGS_S)
            return take(tap, *args, **options)

        monkeypatch.setattr(FrameTap, "next_frames", gated)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate(monkeypatch)
    yield made
    made.opened.set()


def checked(rig: Rig) -> list[object]:
    return [event["passed"] for event in rig.events if event["event"] == "golden_check"]


def request(rig: Rig) -> Check:
    before = rig.station.status().checks
    assert rig.station.check_now()
    rig.wait(lambda: rig.station.status().checks == before + 1, "the answer")
    return rig.station.status().check


def ended(rig: Rig) -> Check:
    rig.wait(lambda: rig.station.status().check != Check.RUNNING, "the end of the check")
    return rig.station.status().check


def test_a_start_is_held_until_the_part_has_passed(folder: Path, gate: Gate) -> None:
    with line(folder, first="other", picture=MASTER, sinks=True, serve=0) as rig:
        status = rig.station.status()
        assert (status.check, status.reason) == (Check.RUNNING, MASTER_WANTED)
        assert not status.trigger_ready
        assert inspect(rig) == ("other", "no_inspection")
        assert rig.results[-1].reason == MASTER_WANTED
        page = rig.run.sink(PageSink)
        assert page.screen()["halt"] == {"why": "check_failed", "reason": MASTER_WANTED}
        assert page.state(source_index=0, after=0)["station"]["reason"] == MASTER_WANTED
        gate.opened.set()
        assert ended(rig) == Check.PASSED
        assert inspect(rig) == ("other", "good")
        assert checked(rig) == [True]


def test_a_free_running_line_is_held_too_and_goes_on(folder: Path, gate: Gate) -> None:
    values = {"trigger": "free", "modbus": None}
    with line(folder, first="other", picture=DARK, **values) as rig:
        rig.wait(lambda: len(rig.results) > 3, "frames before the check")
        gate.opened.set()
        assert ended(rig) == Check.FAILED
        seen = len(rig.results)
        rig.wait(lambda: len(rig.results) > seen + 3, "frames after it")
        assert {result.verdict for result in rig.results} == {"no_inspection"}
        rig.camera.picture = MASTER
        seen = len(rig.results)
        rig.wait(lambda: len(rig.results) > seen + 3, "the part")
        assert request(rig) == Check.PASSED
        rig.wait(lambda: rig.results[-1].verdict == "good", "a good frame")


def test_a_wrong_part_leaves_it_blocked_until_a_check_on_request(folder: Path) -> None:
    with (
        line(folder, first="other", picture=DARK) as rig,
        ModbusPlc("127.0.0.1", rig.adapter("modbus").port) as plc,
    ):
        assert ended(rig) == Check.FAILED
        assert rig.station.status().reason.startswith("master part: the light has changed")
        rig.wait(lambda: Status.CHECK_FAILED in Status(plc.read(STATUS, 1)[0]), "the bit")
        assert inspect(rig) == ("other", "no_inspection")
        assert request(rig) == Check.FAILED
        rig.camera.picture = MASTER
        assert inspect(rig) == ("other", "no_inspection")
        seen = rig.pipeline.snapshot().sources[0].frames_in
        rig.wait(lambda: rig.pipeline.snapshot().sources[0].frames_in > seen + 2, "the picture")
        assert request(rig) == Check.PASSED
        assert inspect(rig) == ("other", "good")
        assert checked(rig) == [False, False, True]


def test_too_few_frames_in_time_leave_it_blocked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(changeover, "_MASTER_S", 0.0)
        with line(folder, first="other", picture=MASTER) as rig:
            assert ended(rig) == Check.FAILED
            assert rig.station.status().reason == "master part: 0 of 8 frames within 0 s"
            patch.undo()
            assert request(rig) == Check.PASSED
            assert inspect(rig) == ("other", "good")


def test_a_camera_that_does_not_come_leaves_it_blocked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changeover, "_CAMERA_S", 0.0)

    def dark_start(rig: Rig) -> Rig:
        rig.camera.plugged = False
        rig._thread.start()
        return rig

    monkeypatch.setattr(Rig, "__enter__", dark_start)
    with line(folder, first="other", picture=MASTER) as rig:
        assert ended(rig) == Check.FAILED
        assert rig.station.status().reason == "master part: no camera within 0 s"
        rig.camera.plugged = True
        rig.wait(lambda: rig.station.status().online, "the camera")
        assert request(rig) == Check.PASSED
        assert inspect(rig) == ("other", "good")


def test_a_changeover_is_held_too(folder: Path, gate: Gate) -> None:
    with line(folder, picture=DARK) as rig:
        assert inspect(rig) == ("high", "good")
        change(rig, "other", "other")
        assert rig.station.status().reason == MASTER_WANTED
        assert inspect(rig) == ("other", "no_inspection")
        assert gate.reached.wait(HANGS_S)
        gate.opened.set()
        assert ended(rig) == Check.FAILED
        change(rig, "high", "high")
        assert inspect(rig) == ("high", "good")
        rig.camera.picture = MASTER
        seen = rig.pipeline.snapshot().sources[0].frames_in
        rig.wait(lambda: rig.pipeline.snapshot().sources[0].frames_in > seen + 2, "the picture")
        change(rig, "other", "other")
        assert ended(rig) == Check.PASSED
        assert inspect(rig) == ("other", "good")


def test_a_request_while_it_is_held_gets_the_same_answer(folder: Path, gate: Gate) -> None:
    with line(folder, first="other", picture=MASTER) as rig:
        assert gate.reached.wait(HANGS_S)
        assert rig.station.check_now()
        assert rig.station.status().reason == MASTER_WANTED
        gate.opened.set()
        rig.wait(lambda: rig.station.status().checks == 1, "the answer")
        status = rig.station.status()
        assert (status.check, status.check_answer) == (Check.PASSED, CheckAnswer.PASSED)


def test_golden_pictures_that_fail_need_no_part(folder: Path) -> None:
    other = edit(read_recipe(folder / "other"), "at_start = false", "at_start = true")
    write_image(other.golden / "good" / "150.png", part(151))
    with line(folder, first="other", picture=MASTER) as rig:
        assert ended(rig) == Check.FAILED
        assert rig.station.status().reason.startswith("good/150.png: is not")
        assert inspect(rig) == ("other", "no_inspection")


def test_the_end_of_the_run_and_another_wish_end_the_wait_for_frames() -> None:
    for end in (lambda tap: tap.finish(0), FrameTap.release):
        tap = FrameTap(Quiet())
        assert tap.next_frames(1, timeout_s=600.0, ask=lambda: end(tap)) == []  # noqa: B023
    over = FrameTap(Quiet())
    over.finish(0)
    assert over.next_frames(1, timeout_s=600.0) == []


class Quiet:
    """An intake that nothing comes of."""

    def finish(self, source_index: int) -> None:
        pass
