"""Missed defects that people mark on parts that passed: stored, learned, and taken back."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from edgeseg.base.errors import UsageError
from edgeseg.base.progress import ignore
from edgeseg.cli.group import cli
from edgeseg.data.known_defects import read_known_defects
from edgeseg.runtime import open as open_model
from edgeseg.runtime.web.access import Access
from edgeseg.teach.background_job import BackgroundJob
from edgeseg.teach.feedback import Author, Feedback
from edgeseg.teach.last_parts import LastParts
from edgeseg.teach.learner import Learner
from edgeseg.teach.learning import Preview, next_version, read_preview
from edgeseg.teach.marks import SeenCard
from edgeseg.teach.missed import asked_defects, learned_defects, marked_defects
from edgeseg.teach.missed_marks import MissedMarks
from edgeseg.teach.pictures import Pictures
from edgeseg.teach.project import Project
from edgeseg.teach.service import TeachService
from edgeseg.teach.versions import Versions
from edgeseg.teach.web import serve
from edgeseg.vision.ignored import read_regions
from edgeseg.vision.images import read_image
from tests.doubles.fakes import wait
from tests.support.http_client import request
from tests.support.messages import refuses
from tests.support.missed_project import fitted_project, outline_of, passed, striped
from tests.support.teach_engine import LISTENER

MARKED, NEXT = (39, 34, 35, 24, 26, 19), 62  # that pass, and so does the next one
OPERATOR, SUPERVISOR = "an-operators-token-0", "a-supervisors-token-0"
ANN = Author(who="operator", name="Ann")
BOB = Author(who="operator", name="Bob")
BOSS = Author(who="supervisor", name="Ada")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted_project(tmp_path_factory.mktemp("marked") / "line3").folder


@pytest.fixture
def project(tmp_path):
    return Project.open_or_create(tmp_path / "line3")


@pytest.fixture
def parts():
    kept = LastParts(note=ignore)
    yield kept
    kept.close()


@pytest.fixture
def marks(project, parts):
    return MissedMarks(project, parts=parts)


def card_of(number: int) -> SeenCard:
    return SeenCard(id=passed(number).key, part=f"SN {number}")


def bring(parts: LastParts, number: int) -> SeenCard:
    """Let a part pass; its card."""
    parts.offer(passed(number))
    wait(lambda: any(part.id == passed(number).key for part in list(parts._kept)), "the part")
    return card_of(number)


def mark(marks: MissedMarks, parts: LastParts, number: int, *, by: Author = ANN) -> str:
    card = bring(parts, number)
    marks.mark(card, [outline_of(number)], kind="stripes", who=by.who, name=by.name)
    return card.id


def test_a_mark_is_a_known_defect_as_the_shell_takes_it(marks, parts, project):
    card = bring(parts, 3)
    told = marks.mark(card, [outline_of(3)], kind=" faint  stripes", who="operator", name=" Ann")
    assert (told["id"], told["kind"], told["who"], told["name"]) == (
        *(card.id, "faint stripes"),
        *("operator", "Ann"),
    )
    (sample,) = read_known_defects(project.folder / "missed.marked")
    assert (sample.kind, sample.label) == ("faint stripes", 1)
    assert np.array_equal(read_image(sample.image), striped(3))
    assert read_regions(sample.mask) == (outline_of(3),)
    assert asked_defects(project) == (sample,)
    assert marks.kinds() == ["faint stripes"]
    assert project.history()[-1]["event"] == "missed"


def test_a_mark_of_another_part_or_of_none_is_refused(marks, parts):
    card = bring(parts, 3)
    said = {"kind": "stripes", "who": "operator", "name": "Ann"}
    with refuses(UsageError, "missed_other_card", name=card.id):
        marks.mark(SeenCard(id=card.id, part="SN 4"), [outline_of(3)], **said)
    with refuses(UsageError, "part_gone"):
        marks.mark(card_of(4), [outline_of(4)], **said)
    assert marks.waiting() == []


NO_KINDS = ("", " ", "good", "OK", "../up", ".hidden", "a/b", "x" * 41, "a\0")


@pytest.mark.parametrize("kind", NO_KINDS)
def test_a_kind_is_the_name_of_a_folder(marks, parts, kind):
    card = bring(parts, 3)
    with refuses(UsageError, "missed_kind"):
        marks.mark(card, [outline_of(3)], kind=kind, who="operator", name="Ann")
    assert marks.waiting() == []


@pytest.mark.parametrize(
    "outlines",
    [
        [],
        [((1.0, 1.0), (5.0, 5.0))],
        [((1.0, 1.0), (5.0, 5.0), (9.0, 9.0))],  # a line
        [((1.0, 1.0), (65.0, 1.0), (1.0, 9.0))],  # outside
        [((1.0, 1.0), (float("nan"), 1.0), (1.0, 9.0))],
        [((1.0, 1.0), (9.0, 1.0), (1.0, 9.0))] * 33,
    ],
)
def test_an_outline_marks_something_of_the_picture(marks, parts, outlines):
    card = bring(parts, 3)
    with refuses(UsageError, "missed_outline", n_w=64, n_h=64):
        marks.mark(card, outlines, kind="stripes", who="operator", name="Ann")
    assert marks.waiting() == []


def test_a_part_is_marked_once_and_taken_back_by_who_may(marks, parts):
    part = mark(marks, parts, 3)
    with refuses(UsageError, "missed_there", name=part, who="Ann"):
        marks.mark(card_of(3), [outline_of(3)], kind="other", who="operator", name="Bob")
    with refuses(UsageError, "mark_others"):
        marks.withdraw(part, by=BOB)
    marks.withdraw(part, by=ANN)
    assert marks.waiting() == []
    with refuses(UsageError, "missed_unknown", name=part):
        marks.withdraw(part, by=ANN)
    mark(marks, parts, 3)
    marks.withdraw(part, by=BOSS)
    assert marks.count() == 0


def test_of_a_damaged_mark_a_supervisor_decides(marks, parts, project):
    part = mark(marks, parts, 3)
    next(project.folder.glob("missed.marked/*/*.json")).write_text("{")
    assert marks.waiting()[0]["known"] is False
    with refuses(UsageError, "mark_others"):
        marks.withdraw(part, by=ANN)
    marks.withdraw(part, by=BOSS)
    assert marks.waiting() == []


def open_learner(project: Project) -> Learner:
    return Learner(
        project,
        versions=Versions(project),
        feedback=Feedback(project.feedback),
        pictures=Pictures(project),
        work=BackgroundJob(project),
    )


def preview_now(project: Project) -> Preview:
    folder = project.folder / "next"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    next_version(project, folder, LISTENER)
    preview = read_preview(folder)
    assert preview is not None
    return preview


def is_found(model: Path, number: int) -> bool:
    with open_model(model) as detector:
        return detector.predict(striped(number)).anomalous


def test_what_is_marked_is_learned_and_a_rollback_restores(running, tmp_path, parts):
    project = Project.open(shutil.copytree(running, tmp_path / "line3"))
    marks, model = MissedMarks(project, parts=parts), project.recipe / "model.onnx"
    before = model.read_bytes()
    for number in MARKED:
        mark(marks, parts, number)
    assert not any(is_found(model, number) for number in (*MARKED, NEXT))

    learner = open_learner(project)  # a start between mark and preview forgets nothing
    preview = preview_now(project)
    change = preview.change
    assert (change.known, change.found_before, len(preview.missed)) == (6, 0, 6)
    made = project.folder / "next/model.onnx"
    assert change.found_after == sum(is_found(made, number) for number in MARKED)
    assert change.found_after > 0
    assert change.good_after.parts == 24
    learner.preview()  # ready: of the marks as they are
    part = mark(marks, parts, 1)
    assert learner._fresh_preview() is None  # of fewer marks
    marks.withdraw(part, by=ANN)
    assert learner._fresh_preview() is not None

    learner._install("supervisor")
    assert is_found(model, NEXT)
    assert marks.waiting() == []
    assert len(learned_defects(project)) == 6
    with refuses(UsageError, "missed_learned", name=passed(39).key):
        marks.mark(card_of(39), [outline_of(39)], kind="stripes", who="operator", name="Ann")
    learner.rollback("supervisor")
    assert model.read_bytes() == before
    assert not learned_defects(project)
    assert not is_found(model, NEXT)


def test_the_shell_sees_what_is_marked(running, tmp_path, parts):
    project = Project.open(shutil.copytree(running, tmp_path / "line3"))
    part = mark(MissedMarks(project, parts=parts), parts, 39)
    listed = CliRunner().invoke(cli, ["learn", str(project.folder), "--marks"])
    assert f"{part}  missed    Ann (operator): stripes" in listed.output
    assert "0 agreed, 0 waiting, 1 missed defects" in listed.output
    shown = CliRunner().invoke(cli, ["learn", str(project.folder), "--dry-run"])
    assert shown.exit_code == 0, shown.output
    assert f"stripes/{part}.png" in shown.output
    assert "0 of 1 known ones are found" in shown.output
    assert len(marked_defects(project)) == 1  # a dry run changes nothing
    gone = CliRunner().invoke(cli, ["learn", str(project.folder), "--withdraw", part])
    assert "0 agreed, 0 waiting\n" in gone.output
    assert not marked_defects(project)


class Line:
    """A project at its page, with parts that passed."""

    def __init__(self, folder: Path) -> None:
        self.service = TeachService(Project.open_or_create(folder))
        access = Access(host="127.0.0.1", token=OPERATOR, supervisor_token=SUPERVISOR)
        self.server = serve(self.service, access, port=0)

    def ask(self, method: str, path: str, body: object = None, *, token: str = OPERATOR):
        told = {"X_Edgeseg": "1", "Authorization": f"Bearer {token}"}
        sent = None if body is None else json.dumps(body)
        status, about, content = request(
            self.server.server_port, method, path, body=sent, headers=told
        )
        plain = about["Content-Type"] == "application/json"
        return status, json.loads(content) if plain else content


@pytest.fixture
def line(tmp_path):
    opened = Line(tmp_path / "line3")
    yield opened
    opened.server.stop()
    opened.service.close()


def test_an_operator_marks_and_a_supervisor_learns(line):
    for number in (3, 4):
        bring(line.service._parts, number)
    assert line.ask("GET", "/teach/parts")[1]["items"] == []
    shown = line.ask("POST", "/teach/look", {})[1]["items"]
    assert [part["part"] for part in shown] == ["SN 4", "SN 3"]
    bring(line.service._parts, 5)
    assert line.ask("GET", "/teach/parts")[1]["items"] == shown
    status, jpeg = line.ask("GET", shown[0]["picture"])
    assert (status, jpeg[:2]) == (200, b"\xff\xd8")

    said = {"card": {"id": shown[1]["id"], "part": "SN 3"}, "kind": "stripes", "name": "Ann"}
    said["outlines"] = [outline_of(3)]
    other = {**said, "card": {"id": shown[1]["id"], "part": "SN 4"}}
    status, answer = line.ask("POST", "/teach/missed", other)
    assert (status, answer["error_said"]["key"]) == (409, "missed_other_card")
    status, marked = line.ask("POST", "/teach/missed", said)
    assert (status, marked["who"]) == (200, "operator")
    assert line.ask("GET", "/teach/missed")[1] == [marked]
    assert line.ask("GET", "/teach/state")[1]["missed"] == 1
    assert line.ask("GET", marked["picture"])[0] == 200
    for path in ("/teach/preview", "/teach/learn", "/teach/rollback"):
        assert line.ask("POST", path, {})[0] == 403
    theirs = {"id": marked["id"], "name": "Bob"}
    assert line.ask("POST", "/teach/missed/withdraw", theirs)[0] == 409
    assert line.ask("POST", "/teach/missed/withdraw", theirs, token=SUPERVISOR)[0] == 200
    assert line.ask("GET", "/teach/missed")[1] == []
