"""One project from an empty folder to a station that has learned, by the calls of a page."""

import json
import shutil
import sys
import time
from dataclasses import asdict

import numpy as np
import pytest

from edgeseg.base import leftovers
from edgeseg.base.errors import UsageError
from edgeseg.base.files import write_json
from edgeseg.base.leftovers import temporary_name
from edgeseg.modelfile import versions as file_versions
from edgeseg.runtime.recipes.approval import read_approval
from edgeseg.runtime.recipes.recipe import read_recipe
from edgeseg.teach import versions
from edgeseg.teach.alarms import Alarm
from edgeseg.teach.project import Project
from edgeseg.teach.service import TeachService
from edgeseg.teach.web import for_page
from edgeseg.vision.images import decode_image, write_image
from tests.support import HANGS_S
from tests.support.messages import refuses, says
from tests.support.teach_engine import CHILD, part, write_project


def ended(service, work, *, timeout_s=HANGS_S):
    """The state of a job after its end."""
    until = time.monotonic() + timeout_s
    while (state := service.state()[work])["state"] == "running":
        assert time.monotonic() < until, state
        time.sleep(0.02)
    return state


def met(condition, *, timeout_s=HANGS_S):
    """Wait for something that another thread does."""
    until = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return value


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A fitted project of 40 good pictures with scores 100 to 139, and a folder as camera."""
    folder = tmp_path_factory.mktemp("teach")
    for index in range(4):
        write_image(folder / "camera" / f"c{index}.png", part(110 + index, seed=90 + index))
    write_image(folder / "camera" / "c5.png", part(150, seed=95))
    project = write_project(folder / "line3", bad=(160, 200), source=str(folder / "camera"))
    service = TeachService(project, child=CHILD)
    service.start_fit({})
    assert ended(service, "fit")["state"] == "done", service.state()
    service.close()
    return project.folder


@pytest.fixture
def taught(fitted, tmp_path):
    """A copy of it, to be changed."""
    shutil.copytree(fitted, tmp_path / "line3")
    service = TeachService(Project.open(tmp_path / "line3"), child=CHILD)
    yield service
    service.close()


def test_a_fit_is_judged_and_a_rate_is_chosen(taught):
    judged = taught.judge()
    assert [item["name"] for item in judged["worst"][:2]] == ["g39.png", "g38.png"]
    assert [item["threshold_without"] for item in judged["worst"][:4]] == [137, 137, 136, None]
    assert [item["found"] for item in judged["bad"]] == [True, True]
    rows = {row["per_thousand"]: row for row in judged["table"]}
    assert rows[50]["threshold"] == 138
    assert judged["chosen"] == 50
    taught.choose(100)
    assert taught.judge()["threshold"] == rows[100]["threshold"] == 136
    assert taught.state()["model"]["rate_per_thousand"] == 100
    below_hwc = decode_image(taught.map_jpeg("g16.png"), name="g16")  # 116, threshold 138
    assert np.ptp(below_hwc[10:14, 16:20].astype(int), axis=2).min() > 50  # its oddest place
    assert [line["event"] for line in taught.history()] == ["threshold", "fit"]


def test_a_region_is_drawn_on_the_newest_picture_and_a_followed_one_on_the_first(taught):
    taught.remove("g39.png")
    write_image(taught.project.pictures("good") / "z.png", part(100))
    first = {"name": "g00.png", "size": [48, 32], "kind": "good"}
    assert taught.view() == {"name": "z.png", "size": [48, 32], "reference": first}
    for item in taught.every_picture("good"):
        taught.remove(item["name"])
    assert taught.view() is None


def test_the_station_runs_learns_and_goes_back_without_losing_a_frame(taught):
    taught.run()
    alarm = met(lambda: taught.alarms())[0]
    assert (alarm["score"], alarm["box"], alarm["width"]) == (150.0, [12, 8, 12, 8], 48)
    assert taught.state()["run"]["threshold"] == 138
    taught.mark(alarm["id"], "good", who="operator", name="Ann")
    marked = taught.mark(alarm["id"], "good", who="operator", name="Bob")
    assert [mark["name"] for mark in marked["marks"]] == ["Ann", "Bob"]
    preview = met(lambda: (p := taught.learn_preview())["state"] == "ready" and p)
    assert [item["name"] for item in preview["would_learn"]] == [alarm["id"]]
    assert (preview["threshold_old"], preview["threshold_new"]) == (138, 139)
    assert preview["still_found"] == {"found": 2, "of": 2}
    facts = [preview, taught.state(), taught.alarms(), taught.judge(), taught.history()]
    json.dumps(for_page(facts), allow_nan=False)
    with refuses(UsageError, "needs_supervisor"):
        taught.learn(who="operator", of=preview["of"])
    taught.learn(who="supervisor", of=preview["of"])
    assert ended(taught, "learn")["state"] == "done", taught.state()["learn"]
    met(lambda: taught.state()["run"]["threshold"] == 139)
    with refuses(UsageError, "needs_supervisor"):
        taught.rollback(who="operator")
    taught.rollback(who="supervisor")
    met(lambda: taught.state()["run"]["threshold"] == 138)
    counters = taught.stop()["counters"]
    assert sum(counters["dropped"].values()) == counters["dropped"].get("shutdown", 0)
    assert counters["frames"] == counters["parts"] + counters["dropped"].get("shutdown", 0)
    assert taught.state()["model"]["installed"]
    events = [line["event"] for line in taught.history()]
    assert events == ["stop", "rollback", "learn", "mark", "mark", "run", "fit"]


def alarmed(service, score):
    """An alarm of that score, as the station would have kept it."""
    picture = service.project.alarms / f"{score:013d}-000000.png"
    write_image(picture, part(score, seed=score))
    alarm = Alarm(
        id=picture.stem, when="", score=float(score), p_value=None, verdict="defect",
        threshold=138.0, box=(12, 8, 12, 8), width=48, height=32,
    )  # fmt: skip
    write_json(picture.with_suffix(".json"), asdict(alarm))
    return alarm.id


def preview_of(service):
    service.install()
    return met(lambda: (p := service.learn_preview())["state"] != "running" and p)


def test_a_mark_that_would_pull_the_threshold_past_a_confirmed_defect_is_held_back(taught):
    mild, bold, defect = alarmed(taught, 145), alarmed(taught, 150), alarmed(taught, 149)
    for alarm in (mild, bold):
        taught.mark(alarm, "good", who="supervisor", name="Ada")
    taught.mark(defect, "defect", who="operator", name="Bob")
    preview = preview_of(taught)
    assert [item["name"] for item in preview["would_learn"]] == [mild]
    reasons = {item["name"]: item["reason"] for item in preview["held_back"]}
    says(reasons[bold], "held_like_defect", name=defect)
    assert preview["still_found"] == {"found": 3, "of": 3}
    assert taught.state()["feedback"] == {"waiting": 1, "agreed": 2}


def test_a_preview_whose_child_dies_is_told_once_and_stands_in_the_history(taught, monkeypatch):
    taught.mark(alarmed(taught, 150), "good", who="supervisor", name="Ann")
    dying = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    monkeypatch.setattr(taught._learner.work, "_command", (sys.executable, "-c", dying))
    failed = preview_of(taught)
    assert failed["state"] == "failed"
    says(failed["sentence"], "work_killed")
    events = [line["event"] for line in taught.history()]
    assert events.count("preview_failed") == 1
    line = taught.history(most=1)[0]
    assert line["event"] == "preview_failed"
    says(line["why"], "work_killed")
    assert [name[:13] for name in line["names"]] == [f"{150:013d}"]
    monkeypatch.setattr(taught._learner.work, "_command", CHILD)
    assert preview_of(taught)["state"] == "ready"  # whoever asks again begins anew


def test_a_golden_bad_part_holds_back_what_scores_like_it(taught):
    taught.install()
    taught.project.picture("bad", "b160.png").unlink()  # it is golden still
    alarm = alarmed(taught, 165)
    taught.mark(alarm, "good", who="supervisor", name="Ada")
    preview = preview_of(taught)
    assert preview["would_learn"] == []
    assert preview["threshold_new"] is None
    says(preview["held_back"][0]["reason"], "held_like_defect", name="b160.png")
    taught.learn(who="supervisor", of=preview["of"])
    assert ended(taught, "learn")["state"] == "failed"
    assert taught.state()["model"]["threshold"] == 138


def killed(*_, **__):
    """In place of the next step: nothing behind it is done, and nobody clears up."""
    raise KeyboardInterrupt


def reopened(service):
    """What the next start makes of the folder; it must pass its golden check."""
    again = TeachService(Project.open(service.project.folder), child=CHILD)
    again.close()
    again._versions.check()
    recipe = service.project.recipe
    assert again._versions.is_installed()
    assert not [path.name for path in recipe.rglob(".*")]
    return read_approval(read_recipe(recipe))


def test_a_model_that_took_over_has_its_own_approval_wherever_it_was_killed(taught, monkeypatch):
    taught._versions.install()
    alarm = alarmed(taught, 150)
    taught.mark(alarm, "good", who="supervisor", name="Ada")
    preview_of(taught)
    monkeypatch.setattr(file_versions, "_take_places", killed)
    with pytest.raises(KeyboardInterrupt):
        taught._learner._install("supervisor")
    monkeypatch.undo()
    monkeypatch.setattr(leftovers, "_swept", set())  # as of a new process
    left = taught.project.recipe / "versions" / temporary_name("version", "").replace("-", "0-", 1)
    left.mkdir()
    assert reopened(taught).threshold == 139
    assert not (taught.project.folder / "next").exists()


@pytest.mark.parametrize("moved", [(), ("good",), ("good", "bad")])
def test_golden_pictures_chosen_anew_are_the_old_or_the_new_ones(taught, monkeypatch, moved):
    taught._versions.install()
    recipe = read_recipe(taught.project.recipe)
    taught.choose(100)
    monkeypatch.setattr(file_versions, "_take_places", killed)
    with pytest.raises(KeyboardInterrupt):
        taught._versions.install()
    monkeypatch.undo()
    for label in moved:
        shutil.rmtree(recipe.golden / label)
        (recipe.folder / ".next/golden" / label).rename(recipe.golden / label)
    assert reopened(taught).threshold == 136


def test_before_the_model_takes_over_the_old_golden_pictures_stand(taught, monkeypatch, tmp_path):
    taught._versions.install()
    taught.choose(100)
    copy = tmp_path / "killed" / "line3"

    def stopped(*_):
        shutil.copytree(taught.project.folder, copy)  # before anybody clears up
        raise UsageError("no")

    monkeypatch.setattr(versions, "stage_model", stopped)
    with pytest.raises(UsageError):
        taught._versions.install()
    monkeypatch.undo()
    assert not list(taught.project.recipe.glob(".next*"))
    assert list((copy / "recipes/line3").glob(".next*"))
    again = versions.Versions(Project.open(copy))
    again.check()
    assert read_approval(read_recipe(copy / "recipes/line3")).threshold == 138
    again.install()
    again.check()


def test_a_preview_of_other_marks_goes(taught):
    taught._versions.install()
    taught.mark(alarmed(taught, 150), "good", who="supervisor", name="Ada")
    preview_of(taught)
    taught.mark(alarmed(taught, 151), "good", who="supervisor", name="Ada")
    reopened(taught)
    assert not (taught.project.folder / "next").exists()


def test_going_back_takes_out_what_ran_had_learned_whatever_was_fitted_since(taught):
    alarm = alarmed(taught, 150)
    taught.mark(alarm, "good", who="supervisor", name="Ada")
    preview = preview_of(taught)
    taught.learn(who="supervisor", of=preview["of"])
    assert ended(taught, "learn")["state"] == "done"
    write_image(taught.project.pictures("good") / "more.png", part(141, seed=41))
    taught.start_fit({})
    assert ended(taught, "fit")["state"] == "done"
    assert not taught.state()["model"]["installed"]
    assert taught.rollback(who="supervisor")["threshold"] == 138
    assert taught.project.picture("removed", f"{alarm}.png").is_file()
    with refuses(UsageError, "learn_other_fit"):
        taught.learn_preview()


def test_a_place_to_ignore_waits_like_other_marks(taught):
    alarm = alarmed(taught, 150)
    taught.mark(alarm, "ignore", who="operator", name="Ann")
    assert taught.state()["feedback"] == {"waiting": 1, "agreed": 0}
    taught.mark(alarm, "ignore", who="supervisor", name="Ada")
    assert taught.state()["feedback"] == {"waiting": 0, "agreed": 1}
    assert taught.region()["ignore"] == []  # nothing changes before somebody learns


@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_a_fit_that_does_not_end_well_leaves_the_model(taught, how):
    before = taught.state()["model"]
    name = "slow" if how == "cancelled" else "broken"
    write_image(taught.project.pictures("good") / f"{name}.png", part(90))
    taught.start_fit({})
    if how == "cancelled":
        met(lambda: taught.state()["fit"]["sentence"] == "now slow")
        assert taught.state()["step"] == "fit"
        with refuses(UsageError, "work_busy"):
            taught.start_fit({})
        taught.cancel_fit()
    state = ended(taught, "fit")
    assert state["state"] == how
    assert taught.state()["model"] == before
    assert not [path for path in taught.project.folder.iterdir() if path.name.startswith(".")]


def test_a_bug_in_the_child_is_a_failure_and_no_silence(taught):
    write_image(taught.project.pictures("good") / "crash.png", part(90))
    taught.start_fit({})
    state = ended(taught, "fit")
    assert state["state"] == "failed"
    says(state["sentence"], "work_failed", why="ZeroDivisionError: a bug")


def test_before_anything_was_fitted(tmp_path):
    service = TeachService(Project.open_or_create(tmp_path / "line3"), child=CHILD)
    try:
        service.open_camera()
        state = service.state()
        assert (state["step"], state["model"], state["fit"]["state"]) == ("collect", None, "none")
        says(state["camera"]["sentence"], "camera_none")
        for key, asked in {
            "fit_nothing": service.judge,
            "fit_before_rate": lambda: service.choose(5),
            "fit_before_run": service.install,
            "learn_no_run": service.learn_preview,
            "camera_unset": service.run,
            "camera_none": service.capture,
        }.items():
            with refuses(UsageError, key):
                asked()
        with refuses(UsageError, "learn_no_run"):
            service.learn(who="supervisor", of="")
        with refuses(UsageError, "alarm_gone"):
            service.alarm_jpeg("0000000000001-000000")
        with refuses(UsageError, "picture_name"):
            service.alarm_jpeg("../history.jsonl")
        with refuses(UsageError, "picture_name"):
            service.map_jpeg("../../x.jpg")
    finally:
        service.close()


def test_the_camera_collects_and_comes_back_after_the_station(taught):
    taught.open_camera()
    assert taught.live_jpeg(5.0).startswith(b"\xff\xd8")
    picture = taught.capture()
    assert taught.count("good") == 41
    assert taught.picture_jpeg("good", picture["name"], width=24).startswith(b"\xff\xd8")
    met(lambda: taught.state()["meters"])
    taught.run()
    met(lambda: taught.state()["run"]["state"] == "running")
    assert taught.live_jpeg(5.0).startswith(b"\xff\xd8")
    assert taught.capture(kind="bad")["name"]
    with refuses(UsageError, "camera_in_use"):
        taught.auto_capture("parts")
    taught.stop()
    assert met(lambda: taught.state()["camera"]["ok"])
    assert taught.auto_capture("parts") == {"capturing": "parts"}


@pytest.mark.parametrize(
    ("region", "says"),
    [
        ({"roi": [1, 2, 3]}, "four integers"),
        ({"roi": "left"}, "region"),
        ({"ignore": [[[0, 0], [1, 1]]]}, "3 or more"),
        ({"locate": "luck"}, "luck"),
        ([], "region"),
    ],
)
def test_a_region_that_cannot_be_meant_is_refused(taught, region, says):
    before = taught.region()
    with pytest.raises(UsageError, match=says):
        taught.set_region(region)
    assert taught.region() == before


def test_a_region_is_stored_for_the_next_fit(taught):
    told = {"roi": [4, 2, 40, 28], "ignore": [[[5, 5], [9, 5], [9, 9]]], "locate": "none"}
    assert taught.set_region(told) == {**told, "drawn_on": "", "smallest": 0, "seen": None}
    assert str(taught.project.settings().config().geometry.roi) == "4,2,40,28"


def test_the_smallest_defect_is_asked_for_and_answered_before_the_fit(taught):
    plain = {"roi": None, "ignore": [], "locate": "none"}
    seen = {
        pixels: taught.set_region({**plain, "smallest": pixels})["seen"].key for pixels in (3, 400)
    }
    assert seen == {3: "smallest_seen", 400: "smallest_seen"}
    assert taught.project.settings().region.smallest == 400
    assert taught.set_region(plain)["seen"] is None
    with pytest.raises(UsageError, match="smallest=1"):
        taught.set_region({**plain, "smallest": 1})
