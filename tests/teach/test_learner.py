"""Learning, ignoring and going back; killed at any step, the next start ends or undoes them."""

import shutil
from pathlib import Path

import pytest

from edgeseg.base.messages import Message
from edgeseg.modelfile.versions import Intent
from edgeseg.runtime import open as open_model
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.teach.alarms import Alarm
from edgeseg.teach.background_job import BackgroundJob
from edgeseg.teach.feedback import Feedback, new_mark
from edgeseg.teach.fit_job import fit
from edgeseg.teach.learner import Learner
from edgeseg.teach.learning import next_version
from edgeseg.teach.pictures import Pictures
from edgeseg.teach.project import Project
from edgeseg.teach.versions import Versions
from edgeseg.vision.images import images_in, read_image, write_image
from tests.support.messages import says
from tests.support.teach_engine import LISTENER, part, use_engine, write_project

GOOD, DEFECT = "0000000000150-000000", "0000000000170-000000"
SERIAL = "0000000000180-000000"  # bright where a number is printed, and nowhere else
PLACE = ((30.0, 20.0), (42.0, 20.0), (42.0, 28.0), (30.0, 28.0))


def opened(folder: Path) -> Learner:
    """As a service has it that starts."""
    project = Project.open(folder)
    return Learner(
        project,
        versions=Versions(project),
        feedback=Feedback(project.feedback),
        pictures=Pictures(project),
        work=BackgroundJob(project),
    )


@pytest.fixture(scope="module")
def previewed(tmp_path_factory):
    """A project that runs, with a false alarm and a defect that people marked, and a preview."""
    project = write_project(tmp_path_factory.mktemp("teach") / "line3", bad=(160,))
    with pytest.MonkeyPatch.context() as patch:
        use_engine(patch)
        project.fit.mkdir()
        fit(project, project.fit, LISTENER)
        Versions(project).install()
        for name, word in ((GOOD, "good"), (DEFECT, "defect"), (SERIAL, "ignore")):
            said(project, name, word, who="supervisor", person="Ada")
        made = previewed_now(project)
        assert made == {"learned": 1, "ignored": 1}
    return project.folder


def previewed_now(project: Project) -> dict:
    folder = project.folder / "next"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return next_version(project, folder, LISTENER)


def said(project, name, word, *, who, person):
    """What somebody said of an alarm, whose id begins with its score; SERIAL's place is its own."""
    score, box = int(name[:13]), (12, 8, 12, 8)
    image_hwc = part(score, seed=score)
    if name == SERIAL:
        box = (30, 20, 12, 8)
        image_hwc = part(120, seed=score)
        image_hwc[20:28, 30:42] = score
    picture = project.alarms / f"{name}.png"
    write_image(picture, image_hwc)
    alarm = Alarm(
        id=name, when="", score=float(score), p_value=None, verdict="defect",
        threshold=138.0, box=box, width=48, height=32,
    )  # fmt: skip
    Feedback(project.feedback).mark(alarm, picture, new_mark(word, who=who, name=person))


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


def ignored(folder: Path) -> tuple:
    return Project.open(folder).settings().region.ignore


def events(folder: Path) -> list[str]:
    return [line["event"] for line in Project.open(folder).history()]


def runs(folder: Path) -> float:
    """The threshold that runs; what runs is the fit, and gets its golden pictures right."""
    versions = Versions(Project.open(folder))
    versions.check()
    assert versions.is_installed()
    assert not [path.name for path in folder.glob(".*")]
    assert not (folder / "announced.json").exists()
    return file_metadata(versions.running()).threshold.score


def killed(*_, **__):
    """In place of a step: nothing behind it is done, and nobody clears up."""
    raise KeyboardInterrupt


# What each change does in its turn.
STEPS = {
    "its end": (Learner, "_end", killed),
    "the fit": (Versions, "take_in", killed),
    "its place": (shutil, "copytree", killed),
    "the region": (Project, "change", killed),
    "the history": (Project, "write_line", killed),
    "the announcement": (Intent, "withdraw", killed),
}
LEARNING = STEPS | {
    "the model": (Versions, "install_learned", killed),
    "the pictures": (Pictures, "move_in", killed),
    "their marks": (Feedback, "forget", killed),
}
GOING_BACK = STEPS | {
    "the model": (Versions, "rollback", killed),
    "the pictures": (Pictures, "remove", killed),
}
CHANGES = {
    "learning": (LEARNING, lambda learner: learner._install("supervisor")),
    "going back": (GOING_BACK, lambda learner: learner.rollback("supervisor")),
}


def has_learned(folder: Path) -> None:
    assert runs(folder) == 139
    line = Project.open(folder).history()[-1]
    assert (line["event"], line["names"]) == ("learn", [f"{GOOD}.png"])
    assert (line["confirmed"], line["ignored"]) == ([f"{DEFECT}.png"], [[30, 20, 12, 8]])
    assert ignored(folder) == (PLACE,)
    assert f"{GOOD}.png" in names(folder, "good")
    assert f"{DEFECT}.png" in names(folder, "bad")
    assert Feedback(folder / "feedback").items() == []
    assert not (folder / "next").exists()


def has_not_learned(folder: Path) -> None:
    assert runs(folder) == 138
    assert events(folder) == []
    assert opened(folder).preview()["state"] == "ready"


def has_gone_back(folder: Path) -> None:
    assert runs(folder) == 138
    assert events(folder) == ["learn", "rollback"]
    assert f"{GOOD}.png" in names(folder, "removed")
    assert f"{GOOD}.png" not in names(folder, "good")
    assert (folder / "fit.before").is_dir()
    assert ignored(folder) == ()


STATES = {"learning": (has_not_learned, has_learned), "going back": (has_learned, has_gone_back)}


@pytest.mark.parametrize(
    ("change", "step"), [(change, step) for change, (steps, _) in CHANGES.items() for step in steps]
)
def test_a_change_that_is_killed_was_made_or_was_not(request, monkeypatch, change, step):
    folder = request.getfixturevalue("folder" if change == "learning" else "learned")
    (steps, make), (before, after) = CHANGES[change], STATES[change]
    before(folder)
    place, name, do = steps[step]
    changing = opened(folder)
    monkeypatch.setattr(place, name, do)
    with pytest.raises(KeyboardInterrupt):
        make(changing)
    monkeypatch.undo()
    assert (folder / "announced.json").is_file()
    again = opened(folder)  # the next start
    if step == "the model":
        if change == "learning":  # which stands in the history
            (line,) = Project.open(folder).history()
            assert (line["event"], line["names"]) == ("learn_failed", [f"{GOOD}.png"])
            assert line["why"] == Message("work_gone").to_json()
            (folder / "history.jsonl").unlink()
        before(folder)
        make(again)
    after(folder)
    if change == "learning":
        opened(folder).rollback("supervisor")
        has_gone_back(folder)


def test_a_change_that_is_refused_leaves_nothing(folder, monkeypatch):
    learning = opened(folder)
    golden = next((folder / "recipes/line3/golden/good").iterdir())
    write_image(golden, part(250))
    with pytest.raises(Exception, match="golden"):
        learning._install("supervisor")
    assert not (folder / "announced.json").exists()
    assert events(folder) == []
    assert len(Feedback(folder / "feedback").items()) == 3
    assert ignored(folder) == ()


def judged(folder: Path, picture: Path) -> str:
    with open_model(Versions(Project.open(folder)).running()) as detector:
        return detector.predict(read_image(picture)).verdict


def test_a_place_is_ignored_from_the_next_frame_on_and_seen_again(folder):
    serial = folder / "alarms" / f"{SERIAL}.png"
    assert judged(folder, serial) == "defect"
    preview = opened(folder).preview()
    (place,) = [item for item in preview["would_learn"] if item["ignored"]]
    assert (place["name"], place["ignored"]) == (SERIAL, (30, 20, 12, 8))
    people = "Ada (supervisor)"
    assert place["why"] == Message("why_ignore", n_w=12, n_h=8, n_x=30, n_y=20, people=people)
    assert SERIAL in preview["now_passes"]
    found = Message("learn_found", n=2, n_all=2)
    says(preview["sentence"], "learn_would_ignore", n=1, n_places=1, found=found)
    assert preview["still_found"] == {"found": 2, "of": 2}
    opened(folder)._install("supervisor")
    assert judged(folder, serial) == "good"
    assert ignored(folder) == (PLACE,)
    opened(folder).rollback("supervisor")
    assert judged(folder, serial) == "defect"


@pytest.fixture
def engined(monkeypatch):
    use_engine(monkeypatch)


DEFECTS = ["a bad part", "a confirmed one", "a golden one", "a missed one"]


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_place_that_hides_a_known_defect_is_not_ignored(folder, engined, defect):
    project = Project.open(folder)
    for name in (GOOD, DEFECT, SERIAL):
        Feedback(project.feedback).forget(name)
    if defect == "a bad part":
        shutil.rmtree(folder / "recipes/line3/golden/bad")
    if defect == "a golden one":
        shutil.rmtree(folder / "bad")
    if defect == "a confirmed one":
        shutil.rmtree(folder / "recipes/line3/golden/bad")
        shutil.rmtree(folder / "bad")
        said(project, DEFECT, "defect", who="operator", person="Ann")
    if defect == "a missed one":  # and learned: the next model must find it too
        (folder / "missed/dent").mkdir(parents=True)
        for path in (folder / "recipes/line3/golden/bad").iterdir():
            path.rename(folder / "missed/dent/170.png")
        shutil.rmtree(folder / "bad")
    name = {"a confirmed one": DEFECT, "a missed one": "dent/170.png"}.get(defect, "b160.png")
    said(project, GOOD, "ignore", who="supervisor", person="Ada")
    said(project, SERIAL, "ignore", who="operator", person="Ann")
    said(project, SERIAL, "ignore", who="operator", person="Bob")
    assert previewed_now(project) == {"learned": 0, "ignored": 1}
    preview = opened(folder).preview()
    assert [item["name"] for item in preview["would_learn"]] == [SERIAL]
    reasons = {item["name"]: item["reason"] for item in preview["held_back"]}
    assert reasons[GOOD] == Message("held_hides", names=name)
    if defect == "a golden one":
        says(preview["sentence"], "learn_would_ignore", n=0, n_places=1)
    else:  # whose picture is gone without anybody's word
        says(preview["sentence"], "learn_golden_other")
        assert preview["problems"] == ("bad/b160.png: is gone",)
    said(project, SERIAL, "defect", who="operator", person="Bob")
    assert previewed_now(project) == {"learned": 0, "ignored": 0}
    assert opened(folder).preview()["threshold_new"] is None


def test_a_fit_that_follows_ignores_it_too(folder, engined):
    opened(folder)._install("supervisor")
    project = Project.open(folder)
    shutil.rmtree(project.fit)
    project.fit.mkdir()
    fit(project, project.fit, LISTENER)
    with open_model(project.fit / "model.onnx") as detector:
        assert detector.predict(read_image(folder / "alarms" / f"{SERIAL}.png")).verdict == "good"
