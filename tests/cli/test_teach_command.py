"""`edgeseg teach` and `edgeseg learn`, with the brightness model in the child process."""

import json
import shutil
import subprocess
import sys
import urllib.request
from functools import partial

import pytest

from edgeseg.cli.teach_command import _collect, open_service
from edgeseg.teach import service as teach_service
from edgeseg.teach.alarms import Alarm
from edgeseg.teach.feedback import Feedback, new_mark
from edgeseg.teach.project import Project
from edgeseg.vision.images import write_image
from tests.support import HANGS_S
from tests.support.commands import fail, run, succeed
from tests.support.teach_engine import CHILD, part


@pytest.fixture(autouse=True)
def brightness(monkeypatch):
    """Fits of a second."""
    here = partial(teach_service.TeachService, child=CHILD)
    monkeypatch.setattr(teach_service, "TeachService", here)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for index in range(40):
        write_image(folder / "good" / f"g{index:02d}.png", part(100 + index, seed=index))
    for score in (120, 200):
        write_image(folder / "bad" / f"b{score}.png", part(score, seed=score))
    return folder


@pytest.fixture(scope="module")
def taught_once(photos, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        here = partial(teach_service.TeachService, child=CHILD)
        patch.setattr(teach_service, "TeachService", here)
        folder = tmp_path_factory.mktemp("teach") / "line3"
        done = succeed(
            "teach", folder, "--good", photos / "good", "--bad", photos / "bad", "--rate", "0.05"
        )  # fmt: skip
    return folder, done


@pytest.fixture
def taught(taught_once, tmp_path):
    return shutil.copytree(taught_once[0], tmp_path / "line3")


def test_from_photos_to_a_recipe(taught_once):
    folder, done = taught_once
    assert "40 of 40 good pictures are new" in done.stderr
    assert "50 *" in done.stdout
    assert (
        "139.0000  good/g39.png  threshold 137.0000 without it and the higher ones" in done.stdout
    )
    assert "1 of 2 bad pictures are found; missed: b120.png" in done.stdout
    assert "golden pictures: 9 golden pictures as approved" in done.stderr
    assert f"next: edgeseg stream --recipes {folder / 'recipes'} --source 0" in done.stderr
    assert [line["event"] for line in Project.open(folder).history()] == ["fit"]


def mark(folder, score, *marks):
    """An alarm of that score, as the station would have kept it, and what people said."""
    project = Project.open(folder)
    picture = project.alarms / f"{score:013d}-000000.png"
    write_image(picture, part(score, seed=score))
    alarm = Alarm(
        id=picture.stem, when="", score=float(score), p_value=None, verdict="defect",
        threshold=138.0, box=None, width=48, height=32,
    )  # fmt: skip
    for word, who, name in marks:
        Feedback(project.feedback).mark(alarm, picture, new_mark(word, who=who, name=name))


def threshold(folder) -> str:
    shown = succeed("recipe", "show", folder / "recipes" / "line3").stdout
    return next(line.split()[1] for line in shown.splitlines() if line.startswith("threshold"))


def test_what_was_marked_is_shown_learned_and_taken_back(taught):
    mark(taught, 150, ("good", "operator", "Ann"), ("good", "operator", "Bob"))
    mark(taught, 151, ("good", "operator", "Ann"))
    mark(taught, 210, ("good", "supervisor", "Ada"))
    dry = succeed("learn", taught, "--from", "feedback", "--dry-run")
    assert "learn      0000000000150-000000  score 150.0000  good, say Ann" in dry.stdout
    assert "hold back  0000000000151-000000  one operator says good" in dry.stdout
    assert "as much as the defect b200.png (200)" in dry.stdout
    assert "threshold  138.0000 becomes 139.0000" in dry.stdout
    assert "found      1 of 1 known defects" in dry.stdout
    assert threshold(taught) == "138.0"
    done = succeed("learn", taught)
    assert "go back with" in done.stderr
    assert threshold(taught) == "139.0"
    project = Project.open(taught)
    assert project.picture("good", "0000000000150-000000.png").is_file()
    assert [item.alarm.score for item in Feedback(project.feedback).items()] == [151, 210]
    assert project.history()[-1]["event"] == "learn"
    succeed("learn", taught, "--rollback")
    assert threshold(taught) == "138.0"
    assert project.picture("removed", "0000000000150-000000.png").is_file()


def test_nothing_to_learn_changes_nothing(taught):
    said = fail_learn(taught)
    assert "nothing to learn: nothing was marked" in said
    mark(taught, 151, ("defect", "supervisor", "Ada"))
    assert "a confirmed defect" in fail_learn(taught)
    assert threshold(taught) == "138.0"


def fail_learn(folder) -> str:
    result = run("learn", folder)
    assert result.exit_code == 1
    return result.stderr


def test_mistakes_are_said_at_once(tmp_path, photos):
    assert "which project?" in fail("teach", code=2)
    assert "letters" in fail("teach", tmp_path / "a b", code=2)
    assert "no images there" in fail("teach", tmp_path / "x", "--good", tmp_path, code=2)
    assert "--rate 3.0" in fail("teach", tmp_path / "y", "--rate", 3.0, code=2)
    small = ("teach", tmp_path / "w", "--good", photos / "good", "--max-pixels", 32 * 48 - 1)
    assert "32x48 pixels by its header, more than --max-pixels 1535" in fail(*small, code=1)
    assert "good pictures: 0, expected 5" in fail("teach", tmp_path / "z", code=1)
    assert "no project" in fail("learn", tmp_path, code=2)
    assert "nothing runs yet" in fail("learn", tmp_path / "z", code=2)
    assert "nothing runs yet" in fail("learn", tmp_path / "z", "--rollback", code=2)


def test_what_is_typed_stays_with_the_project(taught, photos):
    polygons = taught.parent / "ignore.json"
    polygons.write_text('{"polygons": [[[0, 0], [4, 0], [4, 4]]]}')
    said = succeed(
        "teach", taught, "--good", photos / "good", "--rate", "0.1", "--roi", "0,0,48,32",
        "--ignore", polygons, "--source", "cam/*.png", "--quiet",
    )  # fmt: skip
    assert said.stderr == ""
    settings = Project.open(taught).settings()
    assert (settings.rate, settings.region.roi, settings.source) == (0.1, "0,0,48,32", "cam/*.png")
    assert settings.region.ignore == (((0.0, 0.0), (4.0, 0.0), (4.0, 4.0)),)
    assert Project.open(taught).history()[-1]["images"] == 40  # none twice


def test_what_was_removed_stays_out_of_the_next_collection(tmp_path, photos):
    with open_service(Project.open_or_create(tmp_path / "line3"), note=print) as service:
        assert _collect(service, photos / "good", "good") == "40 of 40 good pictures are new"
        service.remove("g03.png")
        told = _collect(service, photos / "good", "good")
        assert service.count("good") == 39
    assert told == (
        "0 of 40 good pictures are new; 1 removed before stays out (see removed/): g03.png"
    )


def test_the_page_is_served_until_somebody_ends_it(tmp_path):
    command = [sys.executable, "-m", "edgeseg", "teach", "--project", str(tmp_path / "line3")]
    with subprocess.Popen([*command, "--serve", "0"], stderr=subprocess.PIPE, text=True) as server:
        try:
            said = server.stderr.readline()
            url = said.split()[1]
            with urllib.request.urlopen(f"{url}teach/state", timeout=HANGS_S) as answer:
                state = json.load(answer)
            assert (state["project"], state["step"], state["role"]) == (
                "line3", "collect", "supervisor",
            )  # fmt: skip
        finally:
            server.terminate()
        assert server.wait(HANGS_S) == 0


def test_a_page_for_the_network_needs_a_token(tmp_path):
    page = ("teach", tmp_path / "line3", "--serve", 0)
    assert "expected a token" in fail(*page, "--host", "0.0.0.0", code=2)
    assert "cannot be read" in fail(*page, "--token-file", tmp_path / "none", code=2)
    said = fail("teach", tmp_path / "line3", "--token-file", tmp_path / "none", code=2)
    assert said.endswith("is for the page; add --serve PORT")
