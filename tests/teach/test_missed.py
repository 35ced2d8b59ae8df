"""Missed defects become the next version: shown first, kept for later fits, and taken back."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgeseg.base.errors import UsageError
from edgeseg.cli.group import cli
from edgeseg.runtime import open as open_model
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.teach.background_job import BackgroundJob
from edgeseg.teach.feedback import Feedback
from edgeseg.teach.fit_job import fit
from edgeseg.teach.learner import Learner
from edgeseg.teach.learning import Preview, basis_of, next_version, read_preview
from edgeseg.teach.missed import (
    ask_for,
    asked_defects,
    drop_asked,
    files_of,
    learned_defects,
    name_of,
)
from edgeseg.teach.pictures import Pictures
from edgeseg.teach.project import Project, ProjectSettings
from edgeseg.teach.report import read_report
from edgeseg.teach.versions import Versions
from tests.support.missed_project import SIZE_HW, fitted_project
from tests.support.small_models import frames
from tests.support.striped_parts import defective, write_defects
from tests.support.teach_engine import LISTENER


def preview_now(project: Project) -> Preview:
    folder = project.folder / "next"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    next_version(project, folder, LISTENER)
    preview = read_preview(folder)
    assert preview is not None
    return preview


def open_learner(project: Project) -> Learner:
    return Learner(
        project,
        versions=Versions(project),
        feedback=Feedback(project.feedback),
        pictures=Pictures(project),
        work=BackgroundJob(project),
    )


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that runs, fitted on good parts alone."""
    return fitted_project(tmp_path_factory.mktemp("missed") / "line3").folder


@pytest.fixture
def project(running: Path, tmp_path: Path) -> Project:
    return Project.open(shutil.copytree(running, tmp_path / "line3"))


@pytest.fixture
def missed(tmp_path: Path) -> Path:
    return write_defects(tmp_path / "missed", "grey", range(6), size_hw=SIZE_HW)


def found(model: Path, kind: str = "grey") -> int:
    with open_model(model) as detector:
        pictures = [defective(kind, 50 + n, size_hw=SIZE_HW)[0] for n in range(12)]
        return sum(detector.predict(each).anomalous for each in pictures)


def learn_now(project: Project, missed: Path) -> Learner:
    learner = open_learner(project)
    learner.ask_for(missed)
    preview_now(project)
    learner._install("supervisor")
    return learner


def test_a_preview_says_what_would_be_found(project, missed):
    before = found(project.fit / "model.onnx")
    names = ask_for(project, missed)
    preview = preview_now(project)
    assert preview.missed == names
    assert [item.name for item in preview.would_learn] == list(names)
    assert preview.threshold_new is not None
    assert preview.loss is not None
    assert not preview.loss.planted_lost
    assert found(project.folder / "next/model.onnx") > before
    assert found(project.folder / "next/model.onnx", "blot") == 12
    with open_model(project.folder / "next/model.onnx") as detector:
        fresh = frames(10, size_hw=SIZE_HW, first=400)
        assert sum(detector.predict(each).anomalous for each in fresh) <= 2


def test_what_is_learned_runs_and_stays_for_later_fits(project, missed):
    learn_now(project, missed)
    model = project.recipe / "model.onnx"
    (kind,) = file_metadata(model).known
    assert (kind.kind, kind.pictures) == ("grey", 6)
    assert not asked_defects(project)
    learned = learned_defects(project)
    assert len(learned) == 6
    assert all(each.mask is not None for each in learned)
    line = project.history()[-1]
    assert (line["event"], len(line["missed"])) == ("learn", 6)
    again = project.folder / "again"
    again.mkdir()
    fit(project, again, LISTENER)
    assert file_metadata(again / "model.onnx").threshold == file_metadata(model).threshold


def test_the_smallest_defect_is_tried_again_by_what_was_learned(project, missed):
    def ask_for_spots(settings: ProjectSettings) -> ProjectSettings:
        return replace(settings, region=replace(settings.region, smallest=12))

    project.change(ask_for_spots)
    ask_for(project, missed)
    preview_now(project)
    report = read_report(project.folder / "next")
    assert report.smallest == 12
    assert report.spots


def test_a_rollback_takes_them_out(project, missed):
    before = file_metadata(project.fit / "model.onnx").artefact_sha256
    learn_now(project, missed).rollback("supervisor")
    assert file_metadata(project.recipe / "model.onnx").artefact_sha256 == before
    assert not learned_defects(project)
    removed = {path.name for path in project.pictures("removed").glob("*.png")}
    assert len(removed) == 12  # with their masks


def test_a_learning_that_was_killed_before_it_ran_asks_for_nothing(project, missed):
    ask_for(project, missed)
    preview_now(project)
    open_learner(project)
    assert not asked_defects(project)
    assert not (project.folder / "next").exists()


def test_what_is_learned_already_is_refused(project, missed):
    learn_now(project, missed)
    with pytest.raises(UsageError, match="the project has learned all of its 6 pictures already"):
        ask_for(project, missed)
    write_defects(missed, "grey", range(6, 7), size_hw=SIZE_HW)
    (name,) = ask_for(project, missed)
    assert name.startswith("grey/006")
    drop_asked(project)


FAINT = (39, 62, 67, 98, 106, 117)  # parts with stripes that are found only once they are known


@pytest.fixture(scope="module")
def striped_learned(running: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has learned six faint stripes, each of which it finds from then on."""
    place = tmp_path_factory.mktemp("learned")
    project = Project.open(shutil.copytree(running, place / "line3"))
    for number in FAINT:
        write_defects(place / "faint", "grey", range(number, number + 1), size_hw=SIZE_HW)
    learn_now(project, place / "faint")
    return project.folder


@pytest.fixture
def knowing(striped_learned: Path, tmp_path: Path) -> Project:
    return Project.open(shutil.copytree(striped_learned, tmp_path / "line3"))


def test_a_learning_that_would_lose_a_learned_defect_is_refused(knowing, tmp_path):
    model = (knowing.recipe / "model.onnx").read_bytes()
    spots = write_defects(tmp_path / "spots", "blot", range(12), size_hw=SIZE_HW)
    done = CliRunner().invoke(cli, ["learn", str(knowing.folder), "--missed", str(spots)])
    assert done.exit_code != 0
    assert "these known defects would no longer be found: grey/" in done.output
    assert "a missed defect in missed/, or one to be learned now" in done.output
    assert (knowing.recipe / "model.onnx").read_bytes() == model
    assert len(learned_defects(knowing)) == len(FAINT)


def test_a_preview_says_of_each_kind_what_is_found(knowing, tmp_path):
    spots = write_defects(tmp_path / "spots", "blot", range(12), size_hw=SIZE_HW)
    ask_for(knowing, spots)
    preview = preview_now(knowing)
    assert preview.change is not None
    grey, blot = sorted(preview.change.kinds, key=lambda each: each.kind != "grey")
    assert (grey.kind, grey.known, grey.found_before) == ("grey", 6, 6)  # by what runs
    assert (blot.kind, blot.known, blot.found_before, blot.found_after) == ("blot", 12, 12, 12)
    lost = [item.name for item in preview.guards]
    assert {item.kind for item in preview.guards} == {"missed"}
    assert grey.found_after == 6 - len(lost) < 6
    # What itself teaches cannot make a picture harder to find.
    assert all(each.found_by_others <= each.found_after for each in (grey, blot))


def test_a_learning_that_keeps_what_was_learned_runs(knowing, tmp_path):
    more = write_defects(tmp_path / "more", "grey", range(34, 36), size_hw=SIZE_HW)
    learner = open_learner(knowing)
    learner.ask_for(more)
    preview = preview_now(knowing)
    (grey,) = preview.change.kinds
    assert (grey.known, grey.found_before, grey.found_after) == (8, 8, 8)
    guarded = (*learned_defects(knowing), *asked_defects(knowing))
    assert set(preview.still_found) == {name_of(each) for each in guarded}
    learner._install("supervisor")
    assert len(learned_defects(knowing)) == 8
    (kind,) = file_metadata(knowing.recipe / "model.onnx").known
    assert (kind.kind, kind.pictures) == ("grey", 8)


def test_a_preview_is_old_once_a_learned_defect_is_taken_out(knowing):
    before = basis_of(knowing)
    for path in files_of(learned_defects(knowing)[0].image):
        path.unlink()
    assert basis_of(knowing) != before


def test_by_the_command(project, missed):
    command = ["learn", str(project.folder), "--missed", str(missed)]
    shown = CliRunner().invoke(cli, [*command, "--dry-run"])
    assert shown.exit_code == 0, shown.output
    assert "threshold" in shown.output
    assert f"do it with: edgeseg learn {project.folder} --missed {missed}" in shown.output
    assert not asked_defects(project)
    assert not learned_defects(project)
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 0, done.output
    assert len(learned_defects(project)) == 6
    assert file_metadata(project.recipe / "model.onnx").known


def test_a_folder_of_none_is_refused(project, tmp_path):
    (tmp_path / "none").mkdir()
    result = CliRunner().invoke(
        cli, ["learn", str(project.folder), "--missed", str(tmp_path / "none")]
    )
    assert result.exit_code == 1
    assert "no pictures of defects" in result.output


def test_it_does_not_go_with_another_wish(project, missed):
    command = ["learn", str(project.folder), "--missed", str(missed), "--rollback"]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 2
    assert "--rollback and --missed: they do different things" in result.output
