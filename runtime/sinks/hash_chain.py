"""Chain the lines of a log by a running hash, over its parts and over restarts.

    hash of line n = SHA-256(hash of line n - 1, bytes of line n), and line n carries the one before

So every line proves all lines before it. Only the head proves the last line; it is a small file
with the last hash. Somebody who can write log and head can rewrite both, so keep a copy of the head
where they cannot.
"""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from edgeseg.base.plain import Malformed, parse_json, record

GENESIS = "0" * 64  # before the first line
_HEAD_BYTES = 160  # a fixed length: one write, never torn, and nothing to truncate
_LINK = re.compile(rb'\{"chain":\{"line":(\d{1,18}),"prev":"([0-9a-f]{64})"\}[,}]')


@dataclass(frozen=True, kw_only=True)
class Link:
    """The number of lines so far, and the hash of the last of them."""

    lines: int = 0
    hash: str = GENESIS

    def after(self, line: bytes) -> "Link":
        """Return the link after one more line, which is given without its newline."""
        digest = hashlib.sha256(self.hash.encode() + line).hexdigest()
        return Link(lines=self.lines + 1, hash=digest)


@dataclass(frozen=True, kw_only=True)
class ChainHead:
    """The end of a log, as its writer left it."""

    lines: int
    hash: str
    bytes: int = 0  # of the file that is being written

    @property
    def link(self) -> Link:
        """The link that the next line carries."""
        return Link(lines=self.lines, hash=self.hash)


def link_line(line: bytes, link: Link) -> bytes:
    """Put the link in front of a line, which is a JSON object."""
    rest = line[1:] if line[1:2] == b"}" else b"," + line[1:]
    return b'{"chain":{"line":%d,"prev":"%s"}%s' % (link.lines, link.hash.encode(), rest)


def link_of(line: bytes) -> Link | None:
    """Read the link of a line; None if it carries none."""
    found = _LINK.match(line)
    return None if found is None else Link(lines=int(found[1]), hash=found[2].decode())


def lines_of(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, without their newlines."""
    with path.open("rb") as file:
        for line in file:
            yield line.removesuffix(b"\n")


def head_path(log: Path) -> Path:
    """Return the path of a log's head."""
    return log.with_name(f"{log.name}.head")


def read_head(path: Path) -> ChainHead | None:
    """Read a head; None if there is none, or it is damaged."""
    try:
        return record(ChainHead, parse_json(path.read_bytes()))
    except (OSError, Malformed):
        return None


def parts_of(log: Path) -> list[Path]:
    """List the files of a log, oldest first: rotated ones, then the one being written."""
    name = re.compile(rf"{re.escape(log.stem)}\.\d{{6,}}{re.escape(log.suffix)}")
    rotated = [path for path in log.parent.glob(f"{log.stem}.*") if name.fullmatch(path.name)]
    return [*sorted(rotated, key=part_number), *([log] if log.exists() else [])]


def part_number(part: Path) -> int:
    """Return the number of a rotated file."""
    return int(part.name.removesuffix(part.suffix).rpartition(".")[2])


def resume(log: Path) -> Link:
    """Return the link for the next line of a log.

    If the head does not belong to the log, the next line follows the head: a log that was cut or
    altered meanwhile is not repaired by writing on, and the break stays visible.
    """
    head = read_head(head_path(log))
    size = log.stat().st_size if log.exists() else 0
    if head is not None and head.bytes == size:
        return head.link  # an alteration of the same length is found by reading the log
    parts = parts_of(log)
    # The end of two parts is enough where the first of them says what it follows on.
    recent = parts[-2:] if _begins_linked(parts[-2:]) else parts
    last, met = _end_of(recent, head)
    return last if head is None or met else head.link


def _begins_linked(parts: Sequence[Path]) -> bool:
    first = next((line for part in parts[:1] for line in lines_of(part)), b"")
    return link_of(first) is not None


def _end_of(parts: Sequence[Path], head: ChainHead | None) -> tuple[Link, bool]:
    """Return the link after the last line, and whether the head is among the lines."""
    wanted = None if head is None else head.link
    lines = (line for part in parts for line in lines_of(part))
    first = next(lines, None)
    if first is None:
        return Link(), wanted == Link()
    link = link_of(first) or Link()
    met = wanted == link
    for line in chain((first,), lines):
        link = link.after(line)
        met = met or wanted == link
    return link, met


class Chain:
    """The end of a log that is being written; one process at a time."""

    def __init__(self, log: Path) -> None:
        self._descriptor = os.open(head_path(log), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise OSError(error.errno, "another process writes this chain") from None
        self.link = resume(log)

    def add(self, line: bytes, *, size: int) -> None:
        """Update the head after a linked line was written; `size` is the file's size now."""
        self.link = self.link.after(line)
        self.note_size(size)

    def note_size(self, size: int) -> None:
        """Write the head for this file size."""
        head = ChainHead(lines=self.link.lines, hash=self.link.hash, bytes=size)
        text = json.dumps(vars(head), sort_keys=True).ljust(_HEAD_BYTES - 1) + "\n"
        os.pwrite(self._descriptor, text.encode(), 0)

    def close(self) -> None:
        """Release the lock, so that others can write."""
        os.close(self._descriptor)
