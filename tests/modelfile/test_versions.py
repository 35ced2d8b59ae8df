"""Files replaced as one: wherever a process is killed, all of them are new or none is."""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from edgeseg.base import leftovers
from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.modelfile.file_reading import DISK
from edgeseg.modelfile.versions import (
    NEXT,
    Intent,
    keep_newest,
    kept_versions,
    new_folder,
    next_number,
    replacing,
    settle,
)

KILLED = 9
OPERATIONS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}


def killed_at(number: int, do: Callable[[], object]) -> bool:
    """Run in a process of its own that ends right before so many operations on files."""
    child = os.fork()
    if not child:
        left = [number]

        def count(event: str, _: object) -> None:
            if event in OPERATIONS:
                left[0] -= 1
                if left[0] < 0:
                    os._exit(KILLED)

        sys.addaudithook(count)
        do()
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, KILLED)
    return code == KILLED


def write_old(folder: Path) -> None:
    (folder / "golden/good").mkdir(parents=True)
    (folder / "fit").mkdir()
    for name in ("model.onnx", "golden/good/a.png", "golden/stays.txt", "fit/report.json"):
        (folder / name).write_text("old")


def replace_all(folder: Path) -> None:
    with replacing(folder) as change:
        change.path("model.onnx").write_text("new")
        change.path("golden/good").mkdir()
        (change.staging / "golden/good/b.png").write_text("new")
        change.path("model.json").write_text("new")
        change.path("fit", keep_as="fit.before").mkdir()
        (change.staging / "fit/report.json").write_text("new")
        change.path("never written")


def contents(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


OLD = dict.fromkeys(
    ("model.onnx", "golden/good/a.png", "golden/stays.txt", "fit/report.json"), "old"
)
NEW = {
    **dict.fromkeys(("model.onnx", "model.json", "golden/good/b.png", "fit/report.json"), "new"),
    **dict.fromkeys(("golden/stays.txt", "fit.before/report.json"), "old"),
}


def test_killed_before_any_operation_on_files_all_or_none_are_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1000):
        folder = tmp_path / str(number)
        write_old(folder)
        killed = killed_at(number, partial(replace_all, folder))
        monkeypatch.setattr(leftovers, "_swept", set())  # as of a new process
        killed_at(number % 7, partial(settle, folder))  # the one that goes on may be killed too
        settle(folder)
        now = contents(folder)
        assert now in (OLD, NEW), number
        if not killed:
            assert now == NEW
            return
    raise AssertionError("never ended")


def test_an_error_before_the_end_changes_nothing(tmp_path: Path) -> None:
    write_old(tmp_path)
    with pytest.raises(FileNotFoundError), replacing(tmp_path) as change:
        change.copy("model.onnx", tmp_path / "nowhere")
    assert contents(tmp_path) == OLD


def decided(folder: Path) -> None:
    """What a process leaves that is killed right behind the decision."""
    (folder / NEXT).mkdir(parents=True)
    (folder / NEXT / "model.onnx").write_text("new")
    (folder / NEXT / "change.json").write_text(json.dumps({"replaced": {"model.onnx": None}}))


def test_whoever_reads_a_file_ends_the_change(tmp_path: Path) -> None:
    write_old(tmp_path)
    decided(tmp_path)
    assert DISK.read(tmp_path / "model.onnx") == b"new"
    assert contents(tmp_path) == OLD | {"model.onnx": "new"}


def test_whoever_may_not_write_reads_the_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_old(tmp_path)
    decided(tmp_path)

    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError

    monkeypatch.setattr(Path, "replace", refuse)
    assert DISK.read(tmp_path / "model.onnx") == b"new"
    assert DISK.read(tmp_path / "golden/stays.txt") == b"old"


@pytest.mark.parametrize(
    "listed",
    [
        {"replaced": {"../model.onnx": None}},
        {"replaced": {"/tmp/model.onnx": None}},
        {"replaced": {"model.onnx": "../before"}},
        {"replaced": {"linked/model.onnx": None}},
        {"replaced": ["model.onnx"]},
        {"replaced": {"": None}},
        {},
    ],
)
def test_nothing_outside_of_the_folder_is_written(tmp_path: Path, listed: object) -> None:
    folder = tmp_path / "inside"
    decided(folder)
    (folder / "linked").symlink_to(tmp_path)
    (folder / NEXT / "change.json").write_text(json.dumps(listed))
    with pytest.raises(RuntimeFailure, match="not a change that edgeseg has begun"):
        settle(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]


def test_versions_are_whole_numbered_and_bounded(tmp_path: Path) -> None:
    for number in range(4):
        with new_folder(next_number(tmp_path)) as new:
            (new / "model.onnx").write_text(str(number))
        keep_newest(kept_versions(tmp_path), 2)
    with pytest.raises(ZeroDivisionError), new_folder(next_number(tmp_path)):
        raise ZeroDivisionError
    assert contents(tmp_path) == {"0003/model.onnx": "2", "0004/model.onnx": "3"}
    keep_newest(kept_versions(tmp_path), 1)
    assert [path.name for path in kept_versions(tmp_path)] == ["0004"]


def test_a_note_is_of_the_living_or_of_the_killed(tmp_path: Path) -> None:
    intent = Intent(tmp_path / "note.json", busy="another is at it")
    with intent.find_left() as noted:
        assert noted is None
    with intent.hold({"a": 1}):
        with intent.find_left() as noted:
            assert noted is None, "its process lives"
        with pytest.raises(UsageError, match="another is at it"), intent.hold({}):
            pass
    with intent.find_left() as noted:
        assert noted == {"a": 1}, "nobody has withdrawn it"
        intent.withdraw()
    with intent.find_left() as noted:
        assert noted is None
    (tmp_path / "note.json").write_text('{"a": ')
    with intent.find_left() as noted:
        assert noted == {}
