"""Every fit is in the history: well, failed, cancelled, or killed at any moment."""

import subprocess
import sys
from pathlib import Path

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message
from edgeseg.teach.fit_log import FitLog
from edgeseg.teach.project import Project
from edgeseg.teach.service import TeachService
from edgeseg.teach.versions import Versions
from edgeseg.vision.images import write_image
from tests.support import HANGS_S, REPO
from tests.support.messages import refuses
from tests.support.teach_engine import CHILD, part, write_project

# A service that is killed once its fit is slow, or just before it writes the line of its fit.
KILLED = """
import os, sys, time
from pathlib import Path
from edgeseg.teach.project import Project
from edgeseg.teach.service import TeachService
from tests.support.teach_engine import CHILD

Project.log = lambda *_, **__: os._exit(9)
service = TeachService(Project.opened(Path(sys.argv[1])), child=CHILD)
service.start_fit({})
while service.state()["fit"]["sentence"] != "now slow":
    time.sleep(0.02)
os._exit(9)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return write_project(tmp_path / "line3", good=6)


def killed(project: Project) -> None:
    command = [sys.executable, "-c", KILLED, str(project.folder)]
    assert subprocess.run(command, cwd=REPO, timeout=HANGS_S).returncode == 9
    assert (project.folder / "fitting.json").is_file()
    assert project.history() == []


def opened(project: Project) -> TeachService:
    service = TeachService(Project.opened(project.folder), child=CHILD)
    service.close()
    assert not (project.folder / "fitting.json").exists()
    return service


def test_a_fit_that_was_killed_is_in_the_history(project: Project) -> None:
    write_image(project.pictures("good") / "slow.png", part(110))
    killed(project)
    opened(project)
    (line,) = opened(project).history()  # once
    assert line["event"] == "fit_failed"
    assert line["why"] == Message("work_gone")
    assert line["begun"] <= line["when"]
    assert not project.fit.exists()


def test_one_that_ended_well_and_was_killed_before_its_line_too(project: Project) -> None:
    killed(project)
    opened(project)
    (line,) = opened(project).history()
    assert (line["event"], line["images"]) == ("fit", 6)
    assert line["version"] == (Versions(project).facts() or {})["version"]


@pytest.mark.parametrize(("name", "why"), [("broken", "cannot be fitted on"), ("crash", "a bug")])
def test_one_that_failed_or_crashed_too(project: Project, name: str, why: str) -> None:
    write_image(project.pictures("good") / f"{name}.png", part(110))
    service = TeachService(project, child=CHILD)
    service.start_fit({})
    service._fit.wait(HANGS_S)
    (line,) = service.history()
    assert (line["event"], why in str(line["why"])) == ("fit_failed", True)
    opened(project)
    assert len(project.history()) == 1


def test_what_another_program_does_is_left_alone(project: Project) -> None:
    with FitLog(project, Versions(project)).under_way():
        other = FitLog(project, Versions(project))
        assert project.history() == []
        with refuses(UsageError, "fit_elsewhere"):
            other.under_way().__enter__()
    with other.under_way():
        pass
    assert project.history() == []


def test_half_a_note_is_a_killed_fit_too(project: Project) -> None:
    (project.folder / "fitting.json").write_text('{"begun": ')
    (line,) = opened(project).history()
    assert (line["event"], line["begun"]) == ("fit_failed", None)
