"""The files under a signature, and their bytes as they were signed.

    a folder, or a model with its sidecar --walk--> names; a link, a pipe or a device is refused
    a name --opened once--> size, then SHA-256 of these very bytes --as signed--> the caller

No file is read beyond its signed size, so that a file without an end costs nothing.
"""

import hashlib
import io
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.modelfile.file_reading import Files
from edgeseg.modelfile.metadata import MODEL_SUFFIXES
from edgeseg.modelfile.versions import settle

OF_FOLDER = "edgeseg.sig"
# What a station writes into a recipe by itself: what checks found, and models of before.
_UNSIGNED = ("checks", "versions")
_PIECE = 1 << 20


def own_name(path: Path) -> str:
    """Return the name of a file or folder, also of `.`."""
    return Path(os.path.abspath(path)).name  # noqa: PTH100 - resolve() would follow links


def place_of(path: Path) -> Path:
    """Return the folder to which the names in a signature belong."""
    return path if path.is_dir() else path.parent


def walk(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield names and paths of all that a signature of a file or a folder covers."""
    if path.is_symlink():
        raise _link_error(path, own_name(path))
    with suppress(OSError):  # cannot be written: then what is there is compared
        settle(place_of(path))
    if path.is_dir():
        yield from _below(path, path)
        return
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder; expected a model or a recipe's folder")
    beside = [path]
    if path.suffix in MODEL_SUFFIXES:
        beside += [path.with_suffix(".json"), path.with_name(f"{path.name}.data")]
    for each in beside:
        if each.is_symlink():
            raise _link_error(path, each.name)
        if each.is_file():
            yield each.name, each


def _below(root: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise RuntimeFailure(f"{root}: {folder.name} cannot be read ({error.strerror})") from None
    for entry in entries:
        each = folder / entry.name
        name = each.relative_to(root).as_posix()
        if entry.is_symlink():
            raise _link_error(root, name)
        if entry.is_dir(follow_symlinks=False):
            if name not in _UNSIGNED:
                yield from _below(root, each)
        elif not entry.is_file(follow_symlinks=False):
            raise RuntimeFailure(f"{root}: {name} is a pipe or a device, expected files; remove it")
        elif name != OF_FOLDER:
            yield name, each


def _link_error(path: Path, name: str) -> RuntimeFailure:
    return RuntimeFailure(
        f"{path}: {name} is a link, and a signature is of files, not of what a name leads to; put "
        "the file itself in its place"
    )


def measure_file(path: Path) -> tuple[str, int]:
    """Return hash and size of a file that is to be signed."""
    with _open_plain(path) as file:
        size = os.fstat(file.fileno()).st_size
        digest, count = hashlib.sha256(), 0
        while piece := file.read(_PIECE):
            digest.update(piece)
            count += len(piece)
    if count != size:
        raise RuntimeFailure(f"{path}: changed while it was read; try again")
    return digest.hexdigest(), size


class SignedFiles(Files):
    """The files of one signature: every reading gives the bytes that were signed."""

    signed = True

    def __init__(self, path: Path, *, hashes: Mapping[str, str], sizes: Mapping[str, int]) -> None:
        self._path, self._root = path, place_of(path)
        self._hashes, self._sizes = dict(hashes), dict(sizes)

    def check(self) -> None:
        """Check that every file is as it was signed, none more and none fewer."""
        missing = set(self._hashes)
        for name, path in walk(self._path):
            if name not in self._hashes:
                raise self._refusal(name, "added")
            self.sha256(path)
            missing.discard(name)
        if missing:
            raise self._refusal(min(missing), "removed")

    def is_file(self, path: Path) -> bool:
        """Return whether a file was signed."""
        return self._name(path) in self._hashes

    def read(self, path: Path) -> bytes:
        """Return the bytes that were signed, or raise an error."""
        with self._as_long_as_signed(path) as (name, file):
            data = file.read(self._sizes[name] + 1)
            self._compare(name, hashlib.sha256(data).hexdigest())
        return data

    def open(self, path: Path) -> BinaryIO:
        """Open the bytes that were signed."""
        return io.BytesIO(self.read(path))

    def sha256(self, path: Path) -> str:
        """Return the hash of a file that is as it was signed; it is read in pieces."""
        with self._as_long_as_signed(path) as (name, file):
            digest, left = hashlib.sha256(), self._sizes[name] + 1
            while left > 0 and (piece := file.read(min(left, _PIECE))):
                digest.update(piece)
                left -= len(piece)
            return self._compare(name, digest.hexdigest())

    def files_in(self, folder: Path) -> list[Path]:
        """Return the files that were signed, whatever else lies there now."""
        inside = [self._root / name for name in self._hashes]
        return sorted(path for path in inside if path.parent == folder)

    @contextmanager
    def _as_long_as_signed(self, path: Path) -> Iterator[tuple[str, BinaryIO]]:
        name = self._name(path)
        if name not in self._hashes:
            raise self._refusal(name, "added")
        try:
            with _open_plain(path) as file:
                if os.fstat(file.fileno()).st_size != self._sizes[name]:
                    raise self._refusal(name, "changed")
                yield name, file
        except FileNotFoundError:
            raise self._refusal(name, "removed") from None
        except OSError as error:
            raise RuntimeFailure(
                f"{self._path}: {name} cannot be read ({error.strerror})"
            ) from None

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _compare(self, name: str, found: str) -> str:
        if found != self._hashes[name]:
            raise self._refusal(name, "changed")
        return found

    def _refusal(self, name: str, how: str) -> RuntimeFailure:
        return RuntimeFailure(
            f"{self._path}: {name} was {how} since it was signed; if that was meant, sign it again "
            f"with `edgeseg sign {self._path} --key KEY`"
        )


@contextmanager
def _open_plain(path: Path) -> Iterator[BinaryIO]:
    """Open a file itself: links are not followed and pipes are not waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise RuntimeFailure(f"{path}: is a pipe or a device, expected a file; remove it")
        yield file
