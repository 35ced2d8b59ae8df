"""Append whole lines to a file: cut off a torn line, and flush durable ones to the disk.

A kill loses nothing that was written; only a power cut can lose lines that were not synced.
"""

import errno
import json
import os
import stat
from pathlib import Path

from edgeseg.base.files import sync

_TAIL = 1 << 20  # no line of ours is longer; what is torn beyond that is ended, not cut off


class LineFile:
    """An open file for lines, `-` for standard output."""

    def __init__(self, path: str) -> None:
        new = path != "-" and not Path(path).exists()
        self._descriptor = _open(path)
        self._regular = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        self._unsynced = False
        self._torn = False
        self.cut_bytes = 0  # of a line that an earlier run did not finish
        if self._regular and path != "-":
            self.cut_bytes = mend_end(Path(path))
        if new and self._regular:
            sync(Path(path).resolve().parent)  # a new file's name is on the disk as well

    def write(self, line: bytes, *, durable: bool) -> bool:
        """Append one line in one write; return False if there was no space for all of it."""
        line = b"\n" + line if self._torn else line
        # Unbuffered: after a kill the file ends with the last whole event.
        written = os.write(self._descriptor, line)
        self._torn = written < len(line)
        if self._torn and self._regular:
            # What did not fit is no event: readers meet whole lines only.
            os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
            self._torn = False
            return False
        self._unsynced |= durable
        return not self._torn

    def sync(self) -> None:
        """Flush durable lines to the disk."""
        if self._unsynced and self._regular:
            os.fsync(self._descriptor)
        self._unsynced = False

    def close(self) -> None:
        """Close the file; call `sync` before."""
        os.close(self._descriptor)


def mend_end(path: Path) -> int:
    """Make a file of JSON lines end with a whole line; return how many bytes were cut off.

    A last object without its newline gets one. The rest of a line that a kill, a full disk or a
    power cut left behind is unreadable, and removed.
    """
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        tail = file.read()
        last = tail[tail.rfind(b"\n") + 1 :]
        if not last:
            return 0
        if _is_whole(last) or len(last) == _TAIL:
            file.write(b"\n")
            return 0
        file.truncate(size - len(last))
        return len(last)


def _is_whole(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _open(path: str) -> int:
    if path == "-":
        return os.dup(1)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    try:
        # A pipe that nobody reads would make the opening wait, and with it the end of the run.
        descriptor = os.open(path, flags | os.O_NONBLOCK, 0o644)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(error.errno, "nobody reads the pipe") from None
        raise
    os.set_blocking(descriptor, True)
    return descriptor
