"""Files that are either whole or absent: write beside the target, then rename.

A target that is a symbolic link is written where the link points, and stays a link. After a power
cut, too, the target is the old file or the new one, unless `durable` is False.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgeseg.base.errors import UsageError
from edgeseg.base.leftovers import sweep, temporary_name


@contextmanager
def atomic_path(target: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; rename it over the target on success."""
    target = write_target(target)
    with _temporary_file(target) as temporary:
        yield temporary
        if durable:
            sync(temporary)
        temporary.replace(target)
        if durable:
            sync(target.parent)


@contextmanager
def temporary_folder(parent: Path, *, name: str) -> Iterator[Path]:
    """Make a folder for unfinished files, removed at the end or, after a kill, by the next run."""
    parent.mkdir(parents=True, exist_ok=True)
    sweep(parent)
    folder = parent / temporary_name(name, "")
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Let one process at a time in; the lock of a killed process is free."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # there are file systems without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_target(target: Path) -> Path:
    """Return the path that is written to: links are followed; a pipe or a device is refused."""
    real = Path(os.path.realpath(target))
    if real.is_symlink():
        raise UsageError(f"{target}: a symbolic link that leads to itself; remove it")
    if real.exists() and not (real.is_file() or real.is_dir()):
        raise UsageError(f"{target}: is a pipe or a device, expected a name for a file")
    return real


def home_path(text: str) -> Path:
    """Return a path with `~` expanded as the shell does it; an unknown home stays as written."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 - pathlib's raises


def is_there(path: Path) -> bool:
    """Return whether a file exists; a text that cannot be the name of a file does not."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def check_writable(target: Path) -> None:
    """Fail before a long computation if no file can be written to the target's folder."""
    with _temporary_file(write_target(target)):
        pass


@contextmanager
def _temporary_file(target: Path) -> Iterator[Path]:
    target.parent.mkdir(parents=True, exist_ok=True)
    sweep(target.parent)
    temporary = target.parent / temporary_name(target.stem, target.suffix)
    # New: nobody's file or link is followed. The permissions are those of any other file.
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Return when a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if not path.is_dir():  # there are systems that cannot, and the files in it are complete
            raise
    finally:
        os.close(descriptor)


def write_text(target: Path, text: str) -> None:
    """Write text in one step: readers see the old file or the new one."""
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def copy_file(source: Path, target: Path) -> None:
    """Copy a file in one step."""
    with atomic_path(target) as temporary:
        shutil.copyfile(source, temporary)


def write_json(target: Path, value: object) -> None:
    """Write JSON in one step, with a stable order of keys."""
    write_text(target, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def file_sha256(path: Path) -> str:
    """Hash a file in pieces: a plan can be larger than a small device's memory."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def size_text(size_bytes: int) -> str:
    """Write a number of bytes as people read it."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"
