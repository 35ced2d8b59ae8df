"""One project from an empty folder to a station that has learned, by the calls of a page."""

import shutil
import time

import pytest

from edgeseg.contract.images import write_image
from edgeseg.teach.project import Project
from edgeseg.teach.service import TeachService
from tests.support.teach_engine import CHILD, part, write_project


def ended(service, work, *, timeout_s=60.0):
    """The state of a job after its end."""
    until = time.monotonic() + timeout_s
    while (state := service.state()[work])["state"] == "running":
        assert time.monotonic() < until, state
        time.sleep(0.02)
    return state


def met(condition, *, timeout_s=30.0):
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
    service = TeachService(Project.opened(tmp_path / "line3"), child=CHILD)
    yield service
    service.close()


def test_a_fit_is_judged_and_a_rate_is_chosen(taught):
    judged = taught.judge()
    assert [item["name"] for item in judged["worst"][:2]] == ["g39.png", "g38.png"]
    assert judged["worst"][0]["decides"]
    assert [item["found"] for item in judged["bad"]] == [True, True]
    rows = {row["per_thousand"]: row for row in judged["table"]}
    assert rows[50]["threshold"] == 138
    assert judged["chosen"] == 50
    taught.choose(100)
    assert taught.judge()["threshold"] == rows[100]["threshold"] == 136
    assert taught.state()["model"]["rate_per_thousand"] == 100
    assert taught.map_jpeg("g39.png").startswith(b"\xff\xd8")
    assert [line["event"] for line in taught.history()] == ["threshold", "fit"]


def test_the_station_runs_learns_and_goes_back(taught):
    taught.run()
    alarm = met(lambda: taught.alarms())[0]
    assert (alarm["score"], alarm["box"], alarm["width"]) == (150.0, [12, 8, 12, 8], 48)
    before = taught.state()["run"]["threshold"]
    assert before == 138
    taught.mark(alarm["id"], "good", who="supervisor", name="Ada")
    preview = met(lambda: (p := taught.learn_preview())["state"] == "ready" and p)
    assert [item["name"] for item in preview["would_learn"]] == [alarm["id"]]
    assert (preview["threshold_old"], preview["threshold_new"]) == (138, 139)
    assert preview["still_found"] == {"found": 2, "of": 2}
    taught.learn(who="supervisor")
    assert ended(taught, "learn")["state"] == "done", taught.state()["learn"]
    met(lambda: taught.state()["run"]["threshold"] == 139)
    counters = taught.state()["run"]["counters"]
    assert counters["dropped"] == {}
    taught.rollback(who="supervisor")
    met(lambda: taught.state()["run"]["threshold"] == 138)
    taught.stop()
