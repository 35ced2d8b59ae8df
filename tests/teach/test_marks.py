"""Whose word a mark is: a role and a name together, through every door, in any order."""

import json
from itertools import product

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.base.progress import ignore
from edgeseg.teach.alarms import Alarm, Alarms
from edgeseg.teach.feedback import Author, Feedback, new_mark
from edgeseg.teach.marks import Marks, SeenCard
from edgeseg.teach.project import Project
from edgeseg.vision.images import write_image
from tests.support.messages import refuses
from tests.support.teach_engine import part

ID = "0000000000150-000000"
ALARM = Alarm(
    id=ID, when="", score=150.0, p_value=None, verdict="defect",
    threshold=138.0, box=None, width=48, height=32,
)  # fmt: skip
WORDS, ROLES = ("good", "defect", "ignore"), ("operator", "supervisor")


@pytest.fixture
def project(tmp_path):
    return Project.open_or_create(tmp_path / "line3")


@pytest.fixture
def marks(project):
    write_image(project.alarms / f"{ID}.png", part(150))
    (project.alarms / f"{ID}.json").write_text(json.dumps(vars(ALARM)))
    alarms = Alarms(project.alarms, note=ignore)
    yield Marks(project, alarms=alarms, feedback=Feedback(project.feedback))
    alarms.close()


def said(project) -> tuple[str, bool]:
    """What counts, as a learning reads it from the folder."""
    (item,) = Feedback(project.feedback).items()
    return item.said, item.guarded


def meant(first: tuple[str, str, str], second: tuple[str, str, str]) -> tuple[str, bool]:
    """The rule in other words: of two marks (role, name, word) in this order."""
    (role, name, word), (role_2, name_2, word_2) = first, second
    if role != role_2:  # the supervisor's word, whoever came last and whatever they are called
        word = word if role == "supervisor" else word_2
        return word, word == "defect"
    if name == name_2:  # one person, who has corrected himself
        return (word_2 if role == "supervisor" else "waiting"), word_2 == "defect"
    if word == word_2:
        return word, word == "defect"
    return "contested", "defect" in (word, word_2)


AUTHORS = list(product(ROLES, ("Ada", "Bob")))
PAIRS = [
    ((*one, word), (*other, word_2))
    for one, other in product(AUTHORS, AUTHORS)
    for word, word_2 in product(WORDS, WORDS)
]


def test_of_two_marks_the_supervisors_counts_whatever_the_names_and_the_order(project, tmp_path):
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"pixels")
    feedback = Feedback(project.feedback)
    assert len(PAIRS) == 144
    for first, second in PAIRS:
        for role, name, word in (first, second):
            feedback.mark(ALARM, picture, new_mark(word, who=role, name=name))
        assert said(project) == meant(first, second), (first, second)
        feedback.forget(ID)


@pytest.mark.parametrize("name", ["Ada", "ada", " ADA ", "\uff21da"])  # the last is a wide A
def test_an_operator_who_types_a_supervisors_name_changes_nothing(marks, project, name):
    marks.mark(ID, "defect", who="supervisor", name="Ada")
    told = marks.mark(ID, "good", who="operator", name=name)
    assert said(project) == ("defect", True)
    assert [(mark["who"], mark["counts"]) for mark in told["marks"]] == [
        ("supervisor", True),
        ("operator", False),
    ]
    own, boss = Author(who="operator", name=name), Author(who="supervisor", name="Ada")
    with refuses(UsageError, "mark_others"):
        marks.withdraw(ID, by=own, of=boss)
    marks.withdraw(ID, by=own, of=own)
    assert said(project) == ("defect", True)


@pytest.mark.parametrize("card", [{"id": "another", "part": ""}, {"id": ID, "part": "SN 2"}])
def test_a_mark_of_another_card_than_the_one_that_was_pressed_is_refused(marks, project, card):
    with refuses(UsageError, "mark_other_card", name=ID):
        marks.mark(ID, "good", who="operator", name="Ann", card=SeenCard(**card))
    assert Feedback(project.feedback).items() == []
    marks.mark(ID, "good", who="operator", name="Ann", card=SeenCard(id=ID, part=ALARM.part))
    assert said(project) == ("waiting", False)


def test_a_supervisors_word_gone_the_operators_count_again(marks, project):
    for name in ("Ann", "Bob"):
        marks.mark(ID, "good", who="operator", name=name)
    boss = Author(who="supervisor", name="Ada")
    marks.mark(ID, "defect", who="supervisor", name="Ada")
    marks.withdraw(ID, by=boss, of=boss)
    assert said(project) == ("good", False)
    ann, bob = (Author(who="operator", name=name) for name in ("Ann", "Bob"))
    for of in (None, bob):
        with refuses(UsageError, "mark_others"):
            marks.withdraw(ID, by=ann, of=of)
    marks.withdraw(ID, by=boss, of=ann)
    assert said(project) == ("waiting", False)
    marks.withdraw(ID, by=Author(who="operator", name="bob"), of=bob)
    assert Feedback(project.feedback).items() == []
    assert [line["event"] for line in project.history()].count("withdraw") == 3


def test_a_file_in_the_folder_is_read_by_the_same_rule(project):
    """As another program, or an earlier version, may have written it."""

    def mark(who, word):
        return {"mark": word, "who": who, "name": "Ada", "when": ""}

    path = project.feedback / f"{ID}.json"
    path.parent.mkdir()
    for marks in (
        [mark("supervisor", "defect"), mark("operator", "good")],
        [mark("operator", "good"), mark("supervisor", "defect"), mark("operator", "good")],
    ):
        path.write_text(json.dumps({"alarm": vars(ALARM), "marks": marks}))
        assert said(project) == ("defect", True)
    other = project.feedback / "0000000000151-000000.json"  # which speaks for the alarm above
    good = [mark("supervisor", "good")]
    other.write_text(json.dumps({"alarm": vars(ALARM), "marks": good}))
    assert said(project) == ("defect", True)


def test_a_mark_whose_alarm_and_picture_are_gone_is_seen_and_withdrawn(marks, project):
    marks.mark(ID, "ignore", who="supervisor", name="Ada")
    for path in (*project.alarms.iterdir(), project.feedback / f"{ID}.png"):
        path.unlink()
    (seen,) = marks.waiting()
    assert (seen["id"], seen["said"], seen["marks"][0]["name"]) == (ID, "ignore", "Ada")
    boss = Author(who="supervisor", name="Bob")  # Ada has left the company
    assert marks.withdraw(ID, by=boss, of=Author(who="supervisor", name="Ada"))["marks"] == []
    assert marks.waiting() == []
    with refuses(UsageError, "mark_unknown"):
        marks.withdraw(ID, by=boss, of=None)


def test_a_file_of_marks_that_is_damaged_is_not_believed_and_can_be_withdrawn(marks, project):
    marks.mark(ID, "good", who="supervisor", name="Ada")
    (project.feedback / f"{ID}.json").write_text("{")
    assert marks.waiting() == [{"id": ID, "said": "damaged", "marks": []}]
    boss = Author(who="supervisor", name="Bob")
    marks.withdraw(ID, by=boss, of=None)
    assert list(project.feedback.iterdir()) == []


def test_an_alarm_that_is_no_longer_kept_can_be_marked_again(marks, project):
    marks.mark(ID, "ignore", who="supervisor", name="Ada")
    for path in project.alarms.iterdir():
        path.unlink()
    marks.mark(ID, "defect", who="supervisor", name="Ada")
    assert said(project) == ("defect", True)
    assert marks.picture(ID).is_file()
