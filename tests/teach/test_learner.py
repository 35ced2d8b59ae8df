"""A learning and a way back that are killed at any step: the next start ends or undoes them."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgeseg.contract.images import images_in, write_image
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.teach import engine, learner
from edgeseg.teach.alarms import Alarm
from edgeseg.teach.feedback import Feedback, new_mark
from edgeseg.teach.fit_job import fit
from edgeseg.teach.learner import Learner
from edgeseg.teach.learning import next_version
from edgeseg.teach.pictures import Pictures
from edgeseg.teach.process import Work
from edgeseg.teach.project import Project
from edgeseg.teach.versions import Versions
from tests.support import teach_engine
from tests.support.teach_engine import part, write_project

TELLING = SimpleNamespace(
    at=lambda *_: None, note=lambda _: None, progress=lambda items, **_: items
)
GOOD, DEFECT = "0000000000150-000000", "0000000000170-000000"


def opened(folder: Path) -> Learner:
    """As a service has it that starts."""
    project = Project.opened(folder)
    return Learner(
        project,
        versions=Versions(project),
        feedback=Feedback(project.feedback),
        pictures=Pictures(project),
        work=Work(project),
    )


@pytest.fixture(scope="module")
def previewed(tmp_path_factory):
    """A project that runs, with a false alarm and a defect that people marked, and a preview."""
    project = write_project(tmp_path_factory.mktemp("teach") / "line3", bad=(160,))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("fit_model", "update_model", "write_graph"):
            patch.setattr(engine, name, getattr(teach_engine, name))
        project.fit.mkdir()
        fit(project, project.fit, TELLING)
        Versions(project).install()
        for name, word in ((GOOD, "good"), (DEFECT, "defect")):
            score = int(name[:13])
            picture = project.alarms / f"{name}.png"
            write_image(picture, part(score, seed=score))
            alarm = Alarm(
                id=name, when="", score=float(score), p_value=None, verdict="defect",
                threshold=138.0, box=(12, 8, 12, 8), width=48, height=32,
            )  # fmt: skip
            mark = new_mark(word, who="supervisor", name="Ada")
            Feedback(project.feedback).mark(alarm, picture, mark)
        (project.folder / "next").mkdir()
        assert next_version(project, project.folder / "next", TELLING) == {"learned": 1}
    return project.folder


@pytest.fixture
def folder(previewed, tmp_path):
    return shutil.copytree(previewed, tmp_path / "line3")


@pytest.fixture(scope="module")
def learned_once(previewed, tmp_path_factory):
    folder = shutil.copytree(previewed, tmp_path_factory.mktemp("learned") / "line3")
    opened(folder)._install("supervisor")
    return folder


@pytest.fixture
def learned(learned_once, tmp_path):
    return shutil.copytree(learned_once, tmp_path / "line3")


def names(folder: Path, kind: str) -> set[str]:
    return {path.name for path in images_in(folder / kind)}


def events(folder: Path) -> list[str]:
    return [line["event"] for line in Project.opened(folder).history()]


def runs(folder: Path) -> float:
    """The threshold that runs; what runs is the fit, and gets its golden pictures right."""
    versions = Versions(Project.opened(folder))
    versions.check()
    assert versions.is_installed()
    assert not [path.name for path in folder.glob(".*")]
    assert not (folder / "announced.json").exists()
    return file_metadata(versions.running()).threshold.score


def killed(*_, **__):
    """In place of a step: nothing behind it is done, and nobody clears up."""
    raise KeyboardInterrupt


def after_renames(count):
    """A `Path.rename` that is killed behind so many of the project's own folders."""
    real, done = Path.rename, []

    def rename(self, target):
        if self.name in ("fit", "fit.before", ".fit.spare", "next"):
            if len(done) == count:
                killed()
            done.append(self)
        return real(self, target)

    return rename


STEPS = {
    "the model": (Versions, "learned", killed),
    "its end": (Learner, "_end", killed),
    "the first folder": (Path, "rename", 0),
    "the second folder": (Path, "rename", 1),
    "the pictures": (Pictures, "move_in", killed),
    "their marks": (Feedback, "forget", killed),
    "the history": (Project, "write_line", killed),
    "the announcement": (learner, "withdraw", killed),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_learning_was_done_or_was_not(folder, monkeypatch, step):
    learning = opened(folder)
    place, name, do = STEPS[step]
    monkeypatch.setattr(place, name, do if callable(do) else after_renames(do))
    with pytest.raises(KeyboardInterrupt):
        learning._install("supervisor")
    monkeypatch.undo()
    assert (folder / "announced.json").is_file()
    again = opened(folder)
    if step == "the model":
        assert runs(folder) == 138
        assert events(folder) == []
        assert again.preview()["state"] == "ready"
        again._install("supervisor")
    assert runs(folder) == 139
    assert events(folder) == ["learn"]
    (line,) = Project.opened(folder).history()
    assert (line["names"], line["confirmed"]) == ([f"{GOOD}.png"], [f"{DEFECT}.png"])
    assert f"{GOOD}.png" in names(folder, "good")
    assert f"{DEFECT}.png" in names(folder, "bad")
    assert Feedback(folder / "feedback").items() == []
    assert not (folder / "next").exists()
    opened(folder).rollback("supervisor")
    assert runs(folder) == 138


BACK = {
    "the model": (Versions, "rollback", killed),
    "its end": (Learner, "_end", killed),
    "the first folder": (Path, "rename", 0),
    "the second folder": (Path, "rename", 1),
    "the third folder": (Path, "rename", 2),
    "the pictures": (Pictures, "remove", killed),
    "the history": (Project, "write_line", killed),
    "the announcement": (learner, "withdraw", killed),
}


@pytest.mark.parametrize("step", BACK)
def test_a_way_back_was_gone_or_was_not(learned, monkeypatch, step):
    going = opened(learned)
    place, name, do = BACK[step]
    monkeypatch.setattr(place, name, do if callable(do) else after_renames(do))
    with pytest.raises(KeyboardInterrupt):
        going.rollback("supervisor")
    monkeypatch.undo()
    again = opened(learned)
    if step == "the model":
        assert runs(learned) == 139
        assert events(learned) == ["learn"]
        assert f"{GOOD}.png" in names(learned, "good")
        again.rollback("supervisor")
    assert runs(learned) == 138
    assert events(learned) == ["learn", "rollback"]
    assert f"{GOOD}.png" in names(learned, "removed")
    assert f"{GOOD}.png" not in names(learned, "good")
    assert (learned / "fit.before").is_dir()


def test_a_change_that_is_refused_leaves_nothing(folder, monkeypatch):
    learning = opened(folder)
    golden = next((folder / "recipes/line3/golden/good").iterdir())
    write_image(golden, part(250))
    with pytest.raises(Exception, match="golden"):
        learning._install("supervisor")
    assert not (folder / "announced.json").exists()
    assert events(folder) == []
    assert len(Feedback(folder / "feedback").items()) == 2
