"""The golden set follows what people say of pictures, and goes back with its version."""

import shutil
from pathlib import Path

import pytest

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.runtime.recipes.recipe import read_recipe
from edgeseg.teach.feedback import Author
from edgeseg.teach.fit_job import fit
from edgeseg.teach.golden_set import withdrawn
from edgeseg.teach.pictures import Pictures
from edgeseg.teach.project import Project
from edgeseg.teach.service import TeachService
from edgeseg.teach.versions import Versions
from edgeseg.vision.images import write_image
from tests.support.messages import refuses, says
from tests.support.teach_engine import LISTENER, part, use_engine, write_project
from tests.teach.test_learner import GOOD, opened, previewed_now, said

BOSS = Author(who="supervisor", name="Bob")


def fit_and_install(project: Project, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    fit(project, folder, LISTENER)
    versions = Versions(project)
    versions.take_in(folder)
    versions.install()


@pytest.fixture(scope="module")
def runs_once(tmp_path_factory):
    project = write_project(tmp_path_factory.mktemp("teach") / "line3", bad=(145, 160))
    with pytest.MonkeyPatch.context() as patch:
        use_engine(patch)
        fit_and_install(project, project.folder.parent / "made")
    return project.folder


@pytest.fixture
def project(runs_once, tmp_path, monkeypatch):
    use_engine(monkeypatch)
    return Project.open(shutil.copytree(runs_once, tmp_path / "line3"))


def golden(project: Project, label: str) -> set[str]:
    return {path.name for path in (project.recipe / "golden" / label).iterdir()}


def learn(project: Project) -> None:
    learner = opened(project.folder)
    learner.preview()
    learner._install("supervisor")


def test_a_bad_part_that_was_none_holds_nothing_back_once_it_is_taken_out(project):
    said(project, GOOD, "good", who="supervisor", person="Ada")  # 150; the bad part has 145
    previewed_now(project)
    preview = opened(project.folder).preview()
    assert preview["would_learn"] == []
    assert preview["guards"] == [{"name": "b145.png", "kind": "bad"}]
    Pictures(project).remove("b145.png")
    assert withdrawn(project, read_recipe(project.recipe)) == {"bad/b145.png"}
    assert opened(project.folder)._fresh_preview() is None  # it was of other known defects
    previewed_now(project)
    preview = opened(project.folder).preview()
    assert [item["name"] for item in preview["would_learn"]] == [GOOD]
    assert (preview["guards"], preview["golden"], preview["problems"]) == ([], [], ())
    assert golden(project, "bad") == {"b145.png", "b160.png"}  # what runs is as it was approved
    learn(project)
    assert golden(project, "bad") == {"b160.png"}
    assert Versions(project).check() == "9 golden pictures as approved"


def test_a_bad_part_that_is_put_back_counts_again(project):
    pictures = Pictures(project)
    pictures.remove("b145.png")
    pictures.restore("b145.png")
    assert withdrawn(project, read_recipe(project.recipe)) == set()


def test_another_picture_of_a_golden_name_takes_nothing_out(project):
    (project.pictures("bad") / "b145.png").unlink()
    write_image(project.pictures("removed") / "b145.png", part(99))
    assert withdrawn(project, read_recipe(project.recipe)) == set()


def test_a_mark_holds_back_others_and_can_be_taken_back(project):
    said(project, GOOD, "good", who="supervisor", person="Ada")
    said(project, "0000000000142-000000", "defect", who="operator", person="Bob")
    previewed_now(project)
    kinds = {item["name"]: item["kind"] for item in opened(project.folder).preview()["guards"]}
    assert kinds == {"b145.png": "bad", "0000000000142-000000": "mark"}


def test_the_version_of_before_comes_back_with_golden_pictures_that_are_there(project, tmp_path):
    versions = Versions(project)
    before = golden(project, "good")
    for name in ("g00.png", "g05.png", "g38.png", "g39.png"):
        Pictures(project).remove(name)
    fit_and_install(project, tmp_path / "made")
    after = golden(project, "good")
    assert before - after
    assert file_metadata(versions.running()).threshold.score == 137
    versions.rollback()
    assert file_metadata(versions.running()).threshold.score == 138
    assert versions.check().endswith("golden pictures as approved")
    assert not golden(project, "good") & {"g00.png", "g05.png"}  # which people took out


def test_there_is_a_version_of_before_only_where_there_is_one(project, tmp_path):
    versions = Versions(project)
    assert versions.facts()["before"] is None
    with pytest.raises(UsageError):
        versions.earlier()
    Pictures(project).remove("g39.png")
    fit_and_install(project, tmp_path / "made")
    assert versions.facts()["before"] is not None
    versions.rollback()
    assert versions.facts()["before"] is None


def test_a_preview_says_what_the_golden_check_would_refuse(project, monkeypatch):
    """The check that decides later is the one that was shown."""
    said(project, "0000000000141-000000", "good", who="supervisor", person="Ada")
    shutil.copy(
        project.recipe / "golden/good/g00.png", project.recipe / "golden/good/never-approved.png"
    )
    previewed_now(project)
    learner = opened(project.folder)
    preview = learner.preview()
    says(preview["sentence"], "learn_golden_other", why=preview["problems"][0])
    assert "never-approved.png" in preview["problems"][0]
    unknown = {"name": "never-approved.png", "kind": "good", "ours": False, "approved": False}
    assert preview["golden"] == [unknown]
    with refuses(UsageError, "learn_golden_other"):
        learner._install("supervisor")
    monkeypatch.setattr(type(learner), "_permit", lambda *_: None)
    with refuses(RuntimeFailure, "learn_golden_other"):  # and so it is, without a preview
        Versions(project).install_learned(project.folder / "next/model.onnx")
    Pictures(project).withdraw_golden(
        project.recipe / "golden/good/never-approved.png", kind="good"
    )
    previewed_now(project)
    assert opened(project.folder).preview()["problems"] == ()
    learn(project)
    assert "never-approved.png" not in golden(project, "good")


@pytest.mark.parametrize("taken", [False, True])
def test_a_golden_picture_placed_by_hand_is_withdrawn_and_learning_goes_on(project, taken):
    """It demands that 147 is bad, and people say that 150 is good."""
    said(project, GOOD, "good", who="supervisor", person="Ada")
    for known in ("b145.png", "b160.png"):
        Pictures(project).remove(known)
    write_image(project.recipe / "golden/bad/hand placed.png", part(147, seed=9))
    if taken:
        write_image(project.pictures("removed") / "hand-placed.png", part(99))
    previewed_now(project)
    guards = opened(project.folder).preview()["guards"]
    assert guards == [{"name": "hand placed.png", "kind": "golden"}]
    service = TeachService(project)
    assert service.golden_jpeg("bad/hand placed.png", width=20).startswith(b"\xff\xd8")
    with refuses(UsageError, "picture_missing"):
        service.withdraw_golden("bad/../../project.toml", by=BOSS)
    with refuses(UsageError, "needs_supervisor"):
        service.withdraw_golden("bad/hand placed.png", by=Author(who="operator", name="Ann"))
    kept = service.withdraw_golden("bad/hand placed.png", by=BOSS)["name"]
    out = withdrawn(project, read_recipe(project.recipe))
    assert out == {"bad/b145.png", "bad/b160.png", "bad/hand placed.png"}
    (line,) = service.history(most=1)
    assert (line["event"], line["picture"]) == ("golden_withdraw", "bad/hand placed.png")
    assert (line["who"], line["name"]) == ("supervisor", "Bob")
    previewed_now(project)
    preview = opened(project.folder).preview()
    assert [item["name"] for item in preview["would_learn"]] == [GOOD]
    assert preview["problems"] == ()
    assert service.restore(kept) == {"name": kept, "kind": "bad"}
    service.close()
