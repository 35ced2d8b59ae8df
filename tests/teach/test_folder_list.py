"""A folder is read again when it has changed, and not otherwise."""

import os

import pytest

from edgeseg.teach import folder_list
from edgeseg.teach.folder_list import FolderList

SECOND_NS = 1_000_000_000


class Time:
    """A clock that stands still until it is moved; the folder's times are set by it."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * SECOND_NS

    def list_of(self, folder) -> FolderList:
        return FolderList(
            folder,
            is_ours=lambda name: name.endswith(".png"),
            clock_s=lambda: self.now_ns / SECOND_NS,
            now_ns=lambda: self.now_ns,
        )

    def write(self, folder, name, text="x") -> None:
        (folder / name).write_text(text)
        for path in (folder / name, folder):
            os.utime(path, ns=(self.now_ns, self.now_ns))


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def reads(monkeypatch):
    """How often a folder was read."""
    seen, scandir = [], os.scandir
    monkeypatch.setattr(folder_list.os, "scandir", lambda path: seen.append(path) or scandir(path))
    return seen


def names(files: FolderList) -> list[str]:
    return [entry.name for entry in files.listing().entries]


def test_a_folder_that_rests_is_read_once(tmp_path, time, reads):
    time.write(tmp_path, "b.png")
    time.write(tmp_path, "a.png")
    time.write(tmp_path, "notes.txt")
    time.now_ns += 10 * SECOND_NS
    files = time.list_of(tmp_path)
    assert names(files) == ["a.png", "b.png"]
    before = files.listing().revision
    for _ in range(100):
        assert files.listing().revision == before
    assert len(reads) == 1
    time.write(tmp_path, "c.png")
    assert names(files) == ["a.png", "b.png", "c.png"]
    assert files.listing().revision != before


def test_what_comes_within_one_step_of_the_clock_is_not_missed(tmp_path, time, reads):
    """The folder's time is the same before and after the second file."""
    files = time.list_of(tmp_path)
    time.write(tmp_path, "a.png")
    assert names(files) == ["a.png"]
    time.write(tmp_path, "b.png")
    assert names(files) == ["a.png", "b.png"]
    time.now_ns -= 3600 * SECOND_NS  # a clock that was set back: its times cannot be trusted
    assert names(files) == ["a.png", "b.png"]
    time.write(tmp_path, "c.png")
    assert names(files) == ["a.png", "b.png", "c.png"]


def test_a_file_that_was_written_over_in_its_place_is_noticed_later(tmp_path, time):
    time.write(tmp_path, "a.png")
    time.now_ns += 10 * SECOND_NS
    files = time.list_of(tmp_path)
    before = files.listing().revision
    with (tmp_path / "a.png").open("w") as file:
        file.write("longer")
    assert files.listing().revision == before
    time.now_ns += 31 * SECOND_NS
    assert files.listing().revision != before


def test_a_folder_that_is_not_there_is_empty(tmp_path, time):
    files = time.list_of(tmp_path / "none")
    assert names(files) == []
    (tmp_path / "none").mkdir()
    time.write(tmp_path / "none", "a.png")
    assert names(files) == ["a.png"]
