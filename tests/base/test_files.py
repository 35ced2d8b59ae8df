"""Files are whole or absent."""

import os
import stat
from pathlib import Path

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.base.files import (
    atomic_path,
    check_writable,
    size_text,
    temporary_folder,
    write_json,
    write_text,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_target_appears_in_one_step(tmp_path):
    target = tmp_path / "new" / "out.txt"
    with atomic_path(target) as temporary:
        assert temporary.parent == target.parent  # a rename must not cross file systems
        assert temporary.suffix == ".txt"  # encoders choose the format by it
        temporary.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert names(target.parent) == ["out.txt"]


def test_readers_see_the_old_file_or_the_new_one(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("old")
    with target.open() as reader:  # opened before, read after
        write_text(target, "new and longer")
        assert reader.read() == "old"
    assert target.read_text() == "new and longer"


def test_a_failure_leaves_the_old_file(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("old")

    def interrupted() -> None:
        with atomic_path(target) as temporary:
            temporary.write_text("ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert target.read_text() == "old"
    assert names(tmp_path) == ["out.txt"]


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "out.txt", "text")
    finally:
        assert os.umask(before) == 0o027
    assert stat.S_IMODE((tmp_path / "out.txt").stat().st_mode) == 0o640


def test_json_is_stable_and_strict(tmp_path):
    write_json(tmp_path / "a.json", {"b": 1, "a": [1.5, None]})
    assert (tmp_path / "a.json").read_text() == (
        '{\n  "a": [\n    1.5,\n    null\n  ],\n  "b": 1\n}\n'
    )
    with pytest.raises(ValueError, match="Out of range float"):
        write_json(tmp_path / "a.json", {"a": float("nan")})
    assert "1.5" in (tmp_path / "a.json").read_text()


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    real, link = tmp_path / "real" / "v3.txt", tmp_path / "current.txt"
    link.symlink_to(real)  # to a file that is not there yet, and neither is its folder
    for text in ("first", "second"):
        write_text(link, text)
        assert link.is_symlink()
        assert real.read_text() == text
    assert names(tmp_path) == ["current.txt", "real"]
    assert names(real.parent) == ["v3.txt"]


def test_what_a_rename_must_not_replace_is_refused(tmp_path):
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(link)
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="link: a symbolic link that leads to itself; remove it"):
        write_text(link, "text")
    for target in (pipe, Path("/dev/null")):
        with pytest.raises(UsageError, match="is a pipe or a device, expected a name for a file"):
            check_writable(target)
    assert pipe.is_fifo()


def test_a_check_leaves_nothing_and_changes_nothing(tmp_path):
    (tmp_path / "out.txt").write_text("old")
    check_writable(tmp_path / "out.txt")
    assert names(tmp_path) == ["out.txt"]
    assert (tmp_path / "out.txt").read_text() == "old"
    with pytest.raises(FileExistsError):
        check_writable(tmp_path / "out.txt" / "below.txt")


def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    steps = []
    rename = Path.replace
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: steps.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
    )
    monkeypatch.setattr(
        Path, "replace", lambda self, target: [steps.append("rename"), rename(self, target)][1]
    )
    write_text(tmp_path / "out.txt", "text")
    assert steps == [False, "rename", True]
    steps.clear()
    with atomic_path(tmp_path / "picture.png", durable=False) as temporary:
        temporary.touch()
    assert steps == ["rename"]


def test_a_folder_for_what_is_not_finished(tmp_path):
    with temporary_folder(tmp_path / "new", name="export") as folder:
        (folder / "file").touch()
        assert folder.parent == tmp_path / "new"
    assert names(tmp_path / "new") == []


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (25_600_000, "25.6 MB"),
        (2_950_000_000, "2.95 GB"),
        (5_000_000_000_000, "5000.00 GB"),
    ],
)
def test_sizes(size, text):
    assert size_text(size) == text
