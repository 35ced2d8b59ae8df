"""Temporary files of killed runs go; those of living ones never do."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edgeseg.base import leftovers
from edgeseg.base.files import temporary_folder, write_text
from edgeseg.base.leftovers import sweep, temporary_name

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="tells processes apart by /proc"
)
# Writes beside its targets, says so, and waits to be killed.
WRITER = """
import sys, time
from pathlib import Path
from edgeseg.base.files import atomic_path, temporary_folder
folder = Path(sys.argv[1])
with atomic_path(folder / "a.mp4") as file, temporary_folder(folder, name="b") as inner:
    file.write_bytes(b"half"); (inner / "graph.onnx").touch()
    print("written", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_swept", set())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_living_process_keeps_its_files_and_a_killed_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        try:
            assert writer.stdout.readline() == "written\n"
            left = names(tmp_path)
            assert len(left) == 2
            write_text(tmp_path / "c.txt", "text")
            assert names(tmp_path) == sorted([*left, "c.txt"])
        finally:
            writer.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, writer.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet buried
        monkeypatch.setattr(leftovers, "_swept", set())
        write_text(tmp_path / "c.txt", "text")
        assert names(tmp_path) == ["c.txt"]


def test_a_number_that_was_given_to_another_process_protects_nothing(tmp_path: Path) -> None:
    mine = temporary_name("a", ".txt")
    pid, start, *rest = mine.partition("~")[2].split("-")
    later = f".a~{pid}-{int(start) + 1}-{'-'.join(rest)}"
    before = f".a~{pid}-{start}-00000000-{'-'.join(rest[1:])}"  # another running of the computer
    for name in (mine, later, before):
        (tmp_path / name).touch()
    sweep(tmp_path)
    assert names(tmp_path) == [mine]


def test_files_of_another_computer_stay_until_nobody_has_written_for_a_day(tmp_path: Path) -> None:
    foreign = [f".a~1-2-00000000-11111111-0000000{index}.txt" for index in range(2)]
    for name in foreign:
        (tmp_path / name).touch()
    stat = (tmp_path / foreign[1]).stat()
    os.utime(tmp_path / foreign[1], (stat.st_mtime - 90_000,) * 2)
    sweep(tmp_path)
    assert names(tmp_path) == foreign[:1]


def test_a_system_that_does_not_tell_keeps_files_for_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "_read", lambda path: "")
    name = temporary_name("a", ".txt")
    assert "-0-" in name
    (tmp_path / name).touch()
    sweep(tmp_path)
    assert names(tmp_path) == [name]


@pytest.mark.parametrize(
    "name", ["a~1-2-00000000-11111111-00000000", ".a-abcdefgh.txt", ".a~b", ".bashrc", "x.onnx"]
)
def test_nothing_else_is_touched(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    os.utime(tmp_path / name, (0, 0))
    sweep(tmp_path)
    assert names(tmp_path) == [name]


def test_a_link_is_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    link = tmp_path / ".a~1-2-00000000-11111111-00000000"
    link.symlink_to(tmp_path / "kept")
    os.utime(link, (0, 0), follow_symlinks=False)
    sweep(tmp_path)
    assert names(tmp_path) == ["kept"]
    assert names(tmp_path / "kept") == ["file"]


def test_a_folder_is_looked_at_once(tmp_path: Path) -> None:
    with temporary_folder(tmp_path, name="a"):
        pass
    name = ".a~1-2-00000000-11111111-00000000.txt"
    (tmp_path / name).touch()
    os.utime(tmp_path / name, (0, 0))
    write_text(tmp_path / "b", "text")
    assert names(tmp_path) == [name, "b"]


def test_names_stay_short_and_keep_their_suffix() -> None:
    name = temporary_name("\u00e4" * 300, ".onnx")
    assert len(name.encode()) < 256
    assert name.endswith(".onnx")
