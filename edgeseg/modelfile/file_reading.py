"""How the files that decide are read: once for all who ask, so that what was checked is used.

Files       as they lie on the disk; a change that a killed process has decided counts
OneReading  each is read once: hash, metadata and session are of the same bytes
SignedFiles (signed_files.py) only those that are signed, and only as they were signed
"""

import hashlib
import io
from pathlib import Path
from typing import BinaryIO

from edgeseg.base.files import file_sha256
from edgeseg.modelfile.versions import newest

_LARGE = ".data"  # a second file of weights, which a library opens by itself


class Files:
    """Files as they lie on the disk."""

    signed = False  # whether nothing can be read that was not signed

    def is_file(self, path: Path) -> bool:
        """Whether there is one to be read."""
        return newest(path).is_file()

    def read(self, path: Path) -> bytes:
        """All of it."""
        return newest(path).read_bytes()

    def open(self, path: Path) -> BinaryIO:
        """The same, to be read in pieces."""
        return newest(path).open("rb")

    def sha256(self, path: Path) -> str:
        """The hash of what is read."""
        return file_sha256(newest(path))

    def files_in(self, folder: Path) -> list[Path]:
        """The files directly in a folder, in the order of their names."""
        if not folder.is_dir():
            return []
        return sorted(path for path in folder.iterdir() if path.is_file())


DISK = Files()


class OneReading(Files):
    """Other files, each read once and kept until this is gone."""

    def __init__(self, files: Files) -> None:
        self._files, self.signed = files, files.signed
        self._bytes: dict[Path, bytes] = {}
        self._hashes: dict[Path, str] = {}

    def is_file(self, path: Path) -> bool:
        """Whether there is one, or was when it was read."""
        return path in self._bytes or self._files.is_file(path)

    def read(self, path: Path) -> bytes:
        """The bytes that everybody before got."""
        if path not in self._bytes:
            self._bytes[path] = self._files.read(path)
        return self._bytes[path]

    def open(self, path: Path) -> BinaryIO:
        """These bytes."""
        return io.BytesIO(self.read(path))

    def sha256(self, path: Path) -> str:
        """Of these bytes; the weights of a graph over 2 GB are not held in memory for it."""
        if path.suffix == _LARGE:
            return self._files.sha256(path)
        if path not in self._hashes:
            self._hashes[path] = hashlib.sha256(self.read(path)).hexdigest()
        return self._hashes[path]

    def files_in(self, folder: Path) -> list[Path]:
        """As the other files have them."""
        return self._files.files_in(folder)
