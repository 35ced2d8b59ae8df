"""The files of a folder, read again only when it has changed: a page asks for them all the time.

A folder has a time at which a name in it came, went or was replaced. While that stands still, what
was listed last is given again, and the folder is not read.
"""

import hashlib
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# A time of a file is as coarse as its file system: FAT tells seconds, in steps of two. Whatever
# comes within such a step after a list was made would leave the folder's time as it was.
_COARSE_NS = 2_000_000_000
_AGAIN_S = 30.0  # after which files are looked at anew: one may have been written over in its place


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """A file by name, size, time and inode; a replaced file has another entry."""

    name: str
    size: int
    mtime_ns: int
    inode: int  # two of one size may come within one step of the clock


@dataclass(frozen=True, kw_only=True)
class FolderListing:
    """The files of a folder at one moment, in the order of their names."""

    entries: tuple[FileEntry, ...]
    revision: str  # the same for the same files

    @classmethod
    def of(cls, entries: tuple[FileEntry, ...]) -> "FolderListing":
        """Make a listing with its revision, a hash of the entries."""
        digest = hashlib.sha256()
        for each in entries:
            told = f"{each.name}/{each.size}/{each.mtime_ns}/{each.inode}\n"
            digest.update(told.encode(errors="surrogateescape"))  # of a name that is no text
        return cls(entries=entries, revision=digest.hexdigest()[:16])


def entry_of(name: str, told: os.stat_result) -> FileEntry:
    """Make the entry of a file from its stat."""
    return FileEntry(name=name, size=told.st_size, mtime_ns=told.st_mtime_ns, inode=told.st_ino)


class FolderList:
    """Lists one folder; may be called from any thread."""

    def __init__(
        self,
        folder: Path,
        *,
        is_ours: Callable[[str], bool],
        clock_s: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._folder, self._is_ours = folder, is_ours
        self._clock_s, self._now_ns = clock_s, now_ns
        self._lock = threading.Lock()
        self._known: tuple[int, float, FolderListing] | None = None  # folder's time, when, what

    def listing(self) -> FolderListing:
        """List the files; the folder is read only when it has changed."""
        with self._lock:
            try:
                changed_ns = self._folder.stat().st_mtime_ns
            except OSError:
                return FolderListing.of(())
            if self._known is not None:
                known_ns, listed_s, listed = self._known
                if known_ns == changed_ns and self._clock_s() - listed_s < _AGAIN_S:
                    return listed
            begun_ns, begun_s = self._now_ns(), self._clock_s()
            listed = FolderListing.of(tuple(self._read()))
            settled = begun_ns - changed_ns > _COARSE_NS
            self._known = (changed_ns, begun_s, listed) if settled else None
            return listed

    def _read(self) -> list[FileEntry]:
        found = []
        with os.scandir(self._folder) as files:
            for file in files:
                with suppress(OSError):  # it has just gone
                    if self._is_ours(file.name) and file.is_file():
                        found.append(entry_of(file.name, file.stat()))
        return sorted(found, key=lambda entry: entry.name)
