"""Lists that a page asks for again and again: what they cost is counted, and not timed."""

import json
import os

import pytest

from edgeseg.base.messages import Message
from edgeseg.base.progress import ignore
from edgeseg.teach import alarms as alarms_module
from edgeseg.teach import feedback as feedback_module
from edgeseg.teach import folder_list, likeness
from edgeseg.teach.alarms import Alarm, Alarms
from edgeseg.teach.feedback import Feedback, new_mark
from edgeseg.teach.marks import Marks
from edgeseg.teach.picture_list import MOST, PAGE, PictureList
from edgeseg.teach.pictures import Pictures
from edgeseg.teach.project import Project
from edgeseg.vision import images
from edgeseg.vision.images import encode_png, write_image
from tests.support.teach_engine import part

MANY = 250
LONG_AGO_S = 1_000_000_000


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """A folder of many pictures that nobody has touched for long."""
    project = Project.open_or_create(tmp_path_factory.mktemp("many") / "line3")
    png = [encode_png(part(100 + index, seed=index)) for index in range(7)]
    for index in range(MANY):
        path = project.pictures("good") / f"g{index:04d}.png"
        path.write_bytes(png[index % 7])
        os.utime(path, (LONG_AGO_S + index, LONG_AGO_S + index))
    os.utime(project.pictures("good"), (LONG_AGO_S, LONG_AGO_S))
    return project


class Counted:
    """How often something is called."""

    def __init__(self, monkeypatch, module, name) -> None:
        self.calls = 0
        real = getattr(module, name)

        def counting(*args, **named):
            self.calls += 1
            return real(*args, **named)

        monkeypatch.setattr(module, name, counting)


def test_an_unchanged_list_costs_nothing_and_no_poll_decodes(collected, monkeypatch):
    pictures = PictureList(collected)
    decoded = Counted(monkeypatch, images, "_decode_bgr")
    first = pictures.page("good")
    pictures.settle()  # in a thread of its own, each picture once
    assert decoded.calls == MANY
    page = pictures.page("good")
    assert (page["total"], len(page["items"])) == (MANY, PAGE)
    assert page["revision"] != first["revision"]  # for now the flags are known
    reads = Counted(monkeypatch, folder_list.os, "scandir")
    compared = Counted(monkeypatch, likeness, "_distances")
    for _ in range(50):
        again = pictures.page("good", revision=page["revision"])
        assert again == {"revision": page["revision"], "unchanged": True}
        assert pictures.page("good") == page  # to somebody else
        assert pictures.count("good") == MANY
    assert (decoded.calls, reads.calls, compared.calls) == (MANY, 0, 0)


def test_a_list_is_given_in_parts_the_newest_first(collected):
    pictures = PictureList(collected)
    names = []
    for offset in range(0, MANY, PAGE):
        names += [item["name"] for item in pictures.page("good", offset=offset)["items"]]
    assert names == [f"g{index:04d}.png" for index in reversed(range(MANY))]
    assert len(pictures.page("good", most=10**6)["items"]) == MOST
    assert len(pictures.page("good", most=0, offset=-5)["items"]) == 1
    assert pictures.page("good", offset=MANY)["items"] == []


def test_flags_come_after_the_list_and_are_those_of_all_pictures(collected):
    pictures = PictureList(collected)
    pictures.page("good")
    pictures.settle()
    page = pictures.page("good")
    assert page["items"] == [*reversed(pictures.every("good"))][:PAGE]
    newest = page["items"][0]
    assert newest["flags"] == [Message("flag_duplicate", name=f"g{(MANY - 1) % 7:04d}.png")]


def test_what_one_picture_more_costs_is_that_picture(tmp_path, monkeypatch):
    pictures = Pictures(Project.open_or_create(tmp_path / "line3"))
    decoded = Counted(monkeypatch, images, "_decode_bgr")
    for index in range(8):
        pictures.add(part(100, seed=index), kind="good", stem=f"a{index}")
        assert pictures.list.page("good")["total"] == index + 1
    pictures.list.settle()
    assert decoded.calls == 0  # it was looked at on its way
    before = pictures.list.page("good")
    pictures.remove("a3.png")
    after = pictures.list.page("good", revision=before["revision"])
    assert after["total"] == 7
    assert decoded.calls == 0


def test_a_picture_that_was_replaced_is_looked_at_again(tmp_path, monkeypatch):
    project = Project.open_or_create(tmp_path / "line3")
    pictures = Pictures(project)
    for index in range(3):
        pictures.add(part(100, seed=index), kind="good", stem=f"a{index}")
    assert not any(item["flags"] for item in pictures.list.page("good")["items"])
    write_image(project.pictures("good") / "a2.png", part(100, seed=0))
    pictures.list.page("good")
    pictures.list.settle()
    items = {item["name"]: item["flags"] for item in pictures.list.page("good")["items"]}
    assert items["a2.png"] == [Message("flag_duplicate", name="a0.png")]


def test_a_damaged_picture_does_not_stop_the_list(tmp_path):
    project = Project.open_or_create(tmp_path / "line3")
    (project.pictures("good") / "a.png").write_bytes(b"no picture")
    pictures = PictureList(project)
    for _ in range(2):
        assert [item["name"] for item in pictures.page("good")["items"]] == ["a.png"]
        pictures.settle()
    assert [item["flags"] for item in pictures.every("good")] == [[]]


def test_a_thumbnail_is_made_once(collected, monkeypatch):
    pictures = Pictures(collected)
    decoded = Counted(monkeypatch, images, "_decode_bgr")
    jpegs = {pictures.jpeg("good", "g0001.png", width=24) for _ in range(5)}
    assert (len(jpegs), decoded.calls) == (1, 1)
    for _ in range(2):
        pictures.jpeg("good", "g0001.png", width=0)  # somebody looks closely
    assert decoded.calls == 3


def test_alarms_and_marks_are_read_once(tmp_path, monkeypatch):
    project = Project.open_or_create(tmp_path / "line3")
    alarms, feedback = Alarms(project.alarms, note=ignore), Feedback(project.feedback)
    for index in range(30):
        alarm = Alarm(
            id=f"{index:013d}-000000", when="", score=1.0, p_value=None, verdict="defect",
            threshold=1.0, box=None, width=4, height=3,
        )  # fmt: skip
        picture = project.alarms / f"{alarm.id}.png"
        picture.parent.mkdir(exist_ok=True)
        picture.write_bytes(b"pixels")
        feedback_module.write_text(picture.with_suffix(".json"), json.dumps(vars(alarm)))
        feedback.mark(alarm, picture, new_mark("good", who="operator", name="Ann"))
    for folder in (project.alarms, project.feedback):
        os.utime(folder, (LONG_AGO_S, LONG_AGO_S))
    marks = Marks(project, alarms=alarms, feedback=feedback)
    reads = [
        Counted(monkeypatch, each, "read_bounded") for each in (alarms_module, feedback_module)
    ]
    for _ in range(20):
        shown = marks.alarms("", most=24)
        assert [alarm["id"][:13] for alarm in shown[:2]] == ["0000000000029", "0000000000028"]
        assert feedback.counts() == {"waiting": 30, "agreed": 0}
    assert [each.calls for each in reads] == [24, 30]
    marks.mark("0000000000029-000000", "good", who="operator", name="Bob")
    assert feedback.counts() == {"waiting": 29, "agreed": 1}
    assert len(marks.alarms("", most=24)[0]["marks"]) == 2
    alarms.close()
