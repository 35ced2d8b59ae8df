"""Replace several files of a folder in one transaction, and keep earlier versions.

    with replacing(FOLDER) as change     new files are written beside, to change.path(NAME)
    end of the block                     all are on the disk; the rename to FOLDER/.next decides
    settle(FOLDER)                       each takes its place, and .next goes

If the process is killed before that rename, the old files stand, and the new ones are removed
later. If it is killed after it, the next one that opens the folder calls `settle`, which completes
the change. A reader that may not write there finds the new files by `newest`.
"""

import errno
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.files import lock_folder, sync, temporary_folder, write_json
from edgeseg.base.leftovers import remove, sweep, temporary_name
from edgeseg.base.messages import Words
from edgeseg.base.plain import LONGEST_JSON, JsonObject, Malformed, parse_object, read_bounded

NEXT = ".next"
_LIST = "change.json"  # in it: names, and under which name what is replaced stays


@dataclass(frozen=True, kw_only=True)
class Change:
    """Files and folders that will be replaced together."""

    staging: Path  # as the folder will be: names are the same in it
    _kept_as: dict[str, str | None] = field(default_factory=dict)

    def path(self, name: str, *, keep_as: str | None = None) -> Path:
        """Return where to write the new NAME; the old one is removed, or kept as `keep_as`."""
        self._kept_as[name] = keep_as
        path = self.staging / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def copy(self, name: str, source: Path, *, keep_as: str | None = None) -> None:
        """Replace NAME by a copy of a file or a folder."""
        copy = shutil.copytree if source.is_dir() else shutil.copyfile
        copy(source, self.path(name, keep_as=keep_as))

    def finish(self) -> None:
        """Write the list, and return when everything is on the disk."""
        there = {name: kept for name, kept in self._kept_as.items() if self.path(name).exists()}
        write_json(self.staging / _LIST, {"replaced": there})
        _sync_all(self.staging)


@contextmanager
def replacing(folder: Path) -> Iterator[Change]:
    """Collect new files of a folder; all take their places at the end, or none on an error."""
    with temporary_folder(folder, name="next") as staging:
        change = Change(staging=staging)
        yield change
        change.finish()
        with lock_folder(staging):  # it stays locked under its new name
            _decide(staging, folder)
            _take_places(folder)


def settle(folder: Path) -> None:
    """Complete a change that a killed process has decided; wait for one that is under way.

    Changes that were not decided are removed.
    """
    sweep(folder)
    pending = folder / NEXT
    while (found := _inode(pending)) is not None:
        with suppress(FileNotFoundError), lock_folder(pending):  # its own process may be faster
            if _inode(pending) == found:
                _take_places(folder)


def newest(path: Path) -> Path:
    """Return where to read a file: at its place, or in a decided change that is not complete."""
    for folder in (path.parent, path.parent.parent):  # a recipe's change has golden/expected.json
        if _inode(folder / NEXT) is None:
            continue
        try:
            settle(folder)
        except OSError:  # a disk or a folder that cannot be written
            staged = folder / NEXT / path.relative_to(folder)
            if staged.is_file():
                return staged
    return path


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Write a new folder, whole or not at all."""
    with temporary_folder(target.parent, name=target.name) as new:
        yield new
        _sync_all(new)
        new.rename(target)


def kept_versions(folder: Path) -> list[Path]:
    """Return the versions kept in a folder, 0001 and on, the oldest first."""
    return sorted(path for path in folder.glob("[0-9]*") if path.name.isdecimal())


def next_number(folder: Path) -> Path:
    """Return the path of the next version."""
    last = max((int(path.name) for path in kept_versions(folder)), default=0)
    return folder / f"{last + 1:04d}"


def keep_newest(paths: Sequence[Path], count: int) -> None:
    """Remove all but the last `count` of the paths, the oldest first."""
    for path in paths[:-count]:
        remove(path)


class Intent:
    """A note of an action under way: written before it begins, locked until it has ended.

    A note that is there but not locked belongs to a process that was killed.
    """

    def __init__(self, path: Path, *, busy: Words) -> None:
        self._path, self._busy = path, busy

    @contextmanager
    def hold(self, facts: Mapping[str, Any]) -> Iterator[None]:
        """Write the note and lock it; it stays on the disk until `withdraw`."""
        with self._lock(os.O_CREAT) as descriptor:
            if descriptor is None:
                raise UsageError(self._busy)
            try:
                os.ftruncate(descriptor, 0)
                os.write(descriptor, json.dumps(facts, allow_nan=False).encode())
                os.fsync(descriptor)
            except OSError:
                self.withdraw()
                raise
            yield

    @contextmanager
    def find_left(self) -> Iterator[JsonObject | None]:
        """Yield the note of a killed process, to be completed and withdrawn, or None."""
        with self._lock() as descriptor:
            yield None if descriptor is None else _read_note(descriptor)

    def withdraw(self) -> None:
        """Remove the note: the action is complete, or will not happen."""
        self._path.unlink(missing_ok=True)

    @contextmanager
    def _lock(self, create: int = 0) -> Iterator[int | None]:
        """Yield the open note, or None where another process holds it or there is none."""
        descriptor = self._open(create)
        try:
            yield descriptor
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _open(self, create: int) -> int | None:
        while True:
            try:
                descriptor = os.open(self._path, os.O_RDWR | os.O_NOFOLLOW | create, 0o666)
            except FileNotFoundError:
                return None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return None
            except OSError:
                return descriptor  # there are file systems without locks
            if os.fstat(descriptor).st_ino == _inode(self._path, is_kind=stat.S_ISREG):
                return descriptor
            os.close(descriptor)  # withdrawn between the two calls


def _sync_all(folder: Path) -> None:
    """Return when all in a folder is on the disk, and let others read it."""
    for path in (*folder.rglob("*"), folder):
        if path.is_dir():
            path.chmod(0o755)
        sync(path)


def _decide(staging: Path, folder: Path) -> None:
    """Make a finished change the one of its folder, after those that were decided before."""
    while True:
        settle(folder)
        try:
            staging.rename(folder / NEXT)
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                continue  # another was faster
            raise
        sync(folder)
        return


def _take_places(folder: Path) -> None:
    """Rename the staged files; a file that is no longer there has its place already."""
    pending = folder / NEXT
    for name, kept_as in _read_list(pending).items():
        staged, target = pending / name, folder / name
        if not staged.exists():
            continue
        if kept_as is not None and target.exists():
            remove(folder / kept_as)
            target.rename(folder / kept_as)
        elif target.is_dir():
            remove(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        staged.replace(target)
        sync(target.parent)
    gone = folder / temporary_name("next", "")
    pending.rename(gone)
    remove(gone)


def _read_list(pending: Path) -> dict[str, str | None]:
    """Read what a change replaces; names outside of its folder are refused."""
    try:
        listed = parse_object(read_bounded(pending / _LIST)).get("replaced")
        if not isinstance(listed, dict):
            raise Malformed("no list of names")
        for name in (*listed, *filter(None, listed.values())):
            _check_inside(pending.parent, name)
    except (FileNotFoundError, Malformed) as error:
        raise RuntimeFailure(
            f"{pending}: not a change that edgeseg has begun ({error}); remove it"
        ) from None
    return listed


def _check_inside(folder: Path, name: object) -> None:
    path = PurePosixPath(name) if isinstance(name, str) else None
    if path is None or path.is_absolute() or ".." in path.parts or not path.parts:
        raise Malformed(f"{name!r} is no name in its folder")
    real = Path(os.path.realpath(folder))
    if Path(os.path.realpath(folder / path.parent)) != real / path.parent:
        raise Malformed(f"{name!r} leads through a link")


def _read_note(descriptor: int) -> JsonObject:
    with suppress(Malformed):  # killed while it was written
        return parse_object(os.pread(descriptor, LONGEST_JSON, 0))
    return {}


def _inode(path: Path, *, is_kind: Any = stat.S_ISDIR) -> int | None:
    """Return the inode of a folder, or of another kind of file; None for a link or nothing."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino if is_kind(found.st_mode) else None
