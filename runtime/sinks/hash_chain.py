"""A running hash through the lines of a log, over its parts and over restarts.

    hash of line n = SHA-256(hash of line n - 1, bytes of line n), and line n carries the one before

So every line answers for all lines before it. Nothing answers for the last one but the head, a
small file with the last hash: whoever can write log and head can make both anew, so keep a copy of
the head where they cannot.
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
    """So many lines stand before, and this is the hash of the last of them."""

    lines: int = 0
    hash: str = GENESIS

    def after(self, line: bytes) -> "Link":
        """With one more line, which is given without its newline."""
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
        """What the next line is to carry."""
        return Link(lines=self.lines, hash=self.hash)


def linked(line: bytes, link: Link) -> bytes:
    """A JSON object with what it follows on in front."""
    rest = line[1:] if line[1:2] == b"}" else b"," + line[1:]
    return b'{"chain":{"line":%d,"prev":"%s"}%s' % (link.lines, link.hash.encode(), rest)


def link_of(line: bytes) -> Link | None:
    """What a line says it follows on; None: it says nothing."""
    found = _LINK.match(line)
    return None if found is None else Link(lines=int(found[1]), hash=found[2].decode())


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a file, without their newlines."""
    with path.open("rb") as file:
        for line in file:
            yield line.removesuffix(b"\n")


def head_path(log: Path) -> Path:
    """Where the head of a log lies."""
    return log.with_name(f"{log.name}.head")


def read_head(path: Path) -> ChainHead | None:
    """What a head says; None where there is none that can be read."""
    try:
        return record(ChainHead, parse_json(path.read_bytes()))
    except (OSError, Malformed):
        return None


def parts_of(log: Path) -> list[Path]:
    """The files of a log, oldest first: those rotated away, then the one being written."""
    name = re.compile(rf"{re.escape(log.stem)}\.\d{{6,}}{re.escape(log.suffix)}")
    rotated = [path for path in log.parent.glob(f"{log.stem}.*") if name.fullmatch(path.name)]
    return [*sorted(rotated, key=part_number), *([log] if log.exists() else [])]


def part_number(part: Path) -> int:
    """The position of a rotated file."""
    return int(part.name.removesuffix(part.suffix).rpartition(".")[2])


def resume(log: Path) -> Link:
    """What the next line of a log follows on.

    Where the head is of another log than the one found, the next line follows the head: a log that
    was cut or altered meanwhile is not healed by writing on, the break stays to be seen.
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
    """The end of the lines there are, and whether the head is among them."""
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
        """Note a linked line that was written, without its newline, and the file's size now."""
        self.link = self.link.after(line)
        self.note_size(size)

    def note_size(self, size: int) -> None:
        """Write the head."""
        head = ChainHead(lines=self.link.lines, hash=self.link.hash, bytes=size)
        text = json.dumps(vars(head), sort_keys=True).ljust(_HEAD_BYTES - 1) + "\n"
        os.pwrite(self._descriptor, text.encode(), 0)

    def close(self) -> None:
        """Let others write."""
        os.close(self._descriptor)
