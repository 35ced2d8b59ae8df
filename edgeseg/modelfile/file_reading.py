"""Three ways to read the files of a model, so that the bytes that were checked are those in use.

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
        """Return whether there is a file to read."""
        return newest(path).is_file()

    def read(self, path: Path) -> bytes:
        """Read all bytes of a file."""
        return newest(path).read_bytes()

    def open(self, path: Path) -> BinaryIO:
        """Open a file to read it in pieces."""
        return newest(path).open("rb")

    def sha256(self, path: Path) -> str:
        """Hash a file."""
        return file_sha256(newest(path))

    def files_in(self, folder: Path) -> list[Path]:
        """Return the files directly in a folder, in the order of their names."""
        if not folder.is_dir():
            return []
        return sorted(path for path in folder.iterdir() if path.is_file())


DISK = Files()


class OneReading(Files):
    """Files that are read once each and kept in memory as long as this object."""

    def __init__(self, files: Files) -> None:
        self._files, self.signed = files, files.signed
        self._bytes: dict[Path, bytes] = {}
        self._hashes: dict[Path, str] = {}

    def is_file(self, path: Path) -> bool:
        """Return whether there is a file, or was one when it was read."""
        return path in self._bytes or self._files.is_file(path)

    def read(self, path: Path) -> bytes:
        """Return the bytes of the first reading."""
        if path not in self._bytes:
            self._bytes[path] = self._files.read(path)
        return self._bytes[path]

    def open(self, path: Path) -> BinaryIO:
        """Open the bytes of the first reading."""
        return io.BytesIO(self.read(path))

    def sha256(self, path: Path) -> str:
        """Hash these bytes; the weights of a graph over 2 GB are hashed on disk and not kept."""
        if path.suffix == _LARGE:
            return self._files.sha256(path)
        if path not in self._hashes:
            self._hashes[path] = hashlib.sha256(self.read(path)).hexdigest()
        return self._hashes[path]

    def files_in(self, folder: Path) -> list[Path]:
        """Return the files that the underlying `Files` lists."""
        return self._files.files_in(folder)
