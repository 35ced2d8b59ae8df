"""The child process of a fit: its end is clear, and what was there before stays."""

import os
import signal
import sys
from pathlib import Path

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message
from edgeseg.teach.background_job import BackgroundJob
from edgeseg.teach.project import Project
from tests.doubles.fakes import wait
from tests.support import HANGS_S
from tests.support.messages import refuses, says

TELLS = "print(json.dumps({'share': 0.5, 'sentence': 'half'}), flush=True); "
DONE = "print(json.dumps({'done': {'images': 3}}), flush=True)"
DONE_FACTS = {"state": "done", "share": 1.0, "setting": None, "left_s": None, "core": None}


def child(code: str) -> tuple[str, ...]:
    """A child process that reads its job and then does this."""
    return sys.executable, "-c", f"import json, os, sys, time; job = json.loads(input()); {code}"


@pytest.fixture
def project(tmp_path):
    return Project.open_or_create(tmp_path / "line3")


def work_of(project, code, taken=None):
    """Started; `taken` gets what its end is handed."""
    taken = [] if taken is None else taken
    work = BackgroundJob(project, command=child(code))
    work.start("fit", finish=lambda folder, done: taken.append(done) or "fine", sentence="begin")
    return work


def left(project) -> list[str]:
    return [path.name for path in project.folder.iterdir() if path.name.startswith(".")]


def test_a_job_that_ends_well(project):
    taken = []
    work = work_of(project, TELLS + "open(job['folder'] + '/x', 'w').close(); " + DONE, taken)
    work.wait(HANGS_S)
    assert work.facts() == {**DONE_FACTS, "sentence": "fine"}
    assert taken == [{"images": 3}]
    assert left(project) == []


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("print(json.dumps({'failed': ['no pictures']})); sys.exit(1)", "no pictures"),
        (
            "print(json.dumps({'failed': [{'key': 'fit_few', 'values': {'n': 1, 'n_few': 5}}]}))",
            Message("fit_few", n=1, n_few=5),
        ),
        ("sys.exit('a library has said so')", Message("work_failed", why="a library has said so")),
        ("1 / 0", Message("work_failed", why="ZeroDivisionError: division by zero")),
        ("os.kill(os.getpid(), 9)", Message("work_killed")),
        ("os.kill(os.getpid(), 11)", Message("work_signal", n=11)),
        ("print('no JSON')", Message("work_failed", why="exit code 0")),
    ],
)
def test_a_job_that_fails_says_why_and_leaves_nothing(project, code, sentence):
    taken = []
    work = work_of(project, code, taken)
    work.wait(HANGS_S)
    facts = work.facts()
    assert facts["state"] == "failed"
    assert facts["sentence"] == sentence
    assert taken == []
    assert left(project) == []


def test_cancel_ends_it_with_all_that_it_has_started(project):
    code = (
        "import subprocess; grandchild = subprocess.Popen(['sleep', '60']); "
        "print(json.dumps({'share': 0.1, 'sentence': str(grandchild.pid)}), flush=True); "
        "time.sleep(60)"
    )
    taken = []
    work = work_of(project, code, taken)
    wait(lambda: str(work.facts()["sentence"]).isdecimal(), "the number of the grandchild")
    grandchild = int(work.facts()["sentence"])
    with refuses(UsageError, "work_busy"):
        work.start("fit", finish=lambda folder, done: "", sentence="")
    work.cancel()
    assert work.facts()["state"] == "cancelled"
    assert (taken, left(project)) == ([], [])
    wait(lambda: not _alive(grandchild), "the end of the grandchild")
    with refuses(UsageError, "work_none"):
        work.cancel()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_a_killed_child_is_a_failure_of_one_sentence(project):
    work = work_of(project, TELLS + "time.sleep(60)")
    wait(lambda: work.facts()["share"] == 0.5, "half of the work")
    os.kill(work._process.pid, signal.SIGKILL)
    work.wait(HANGS_S)
    assert work.facts()["state"] == "failed"
    assert left(project) == []


def test_what_a_killed_service_left_is_swept_by_the_next(project):
    code = (
        "import os, sys; from pathlib import Path\n"
        "from edgeseg.base.files import temporary_folder\n"
        f"with temporary_folder(Path({str(project.folder)!r}), name='fit'): os._exit(9)"
    )
    os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code])
    assert len(left(project)) == 1
    code = f"from edgeseg.teach.project import *; p = Project.open({str(project.folder)!r}); "
    os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code + "p.store(p.settings())"])
    assert left(project) == []


def test_something_that_needs_no_child(project):
    work = BackgroundJob(project)
    work.start_here(lambda: "done here", sentence="begin")
    work.wait(HANGS_S)
    assert work.facts() == {**DONE_FACTS, "sentence": "done here"}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_defect_of_the_program_ends_the_job_too(project):
    work = BackgroundJob(project)
    work.start_here(lambda: {}["missing"], sentence="begin")
    work.wait(HANGS_S)
    assert work.facts()["state"] == "failed"
    says(work.facts()["sentence"], "work_defect", kind="KeyError", what="'missing'")
