"""Ranks of scores among very many others: exact, and in bounded memory.

A float32 score becomes a 32-bit key of the same order. Keys fill one buffer; a full buffer is
sorted and appended to a temporary file as a run. How many keys lie above a score is the sum of how
many lie above it in each run, so runs are never merged, and one buffer for the scores and one for
the keys is all that is ever in memory. While everything fits in the buffers no file is made.
"""

import io
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError
from edgeseg.base.files import size_text

Key = TypeVar("Key", np.uint32, np.uint64)

SLICE = 1 << 20  # bounds the temporaries of one step; large enough to hide numpy's overhead
BYTES_PER_KEY = 4
BYTES_PER_TAGGED_KEY = 28  # 8 in the buffer, 4 for its key alone, 8 + 8 for its two counts


def keys_of(values: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Turn finite floats into integers of the same order, -0.0 and 0.0 into the same one."""
    bits = (values + np.float32(0)).view(np.uint32)  # -0.0 + 0.0 is 0.0
    # Floats are sign and magnitude: set the sign bit of positives, flip every bit of negatives.
    flip = (bits.view(np.int32) >> 31).view(np.uint32) | np.uint32(1 << 31)
    keys: NDArray[np.uint32] = bits ^ flip
    return keys


def tag_keys(keys_p: NDArray[np.uint32], tags_p: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Put a tag below each key, so that sorting by key takes the tags along."""
    tagged_p: NDArray[np.uint64] = (keys_p.astype(np.uint64) << np.uint64(32)) | tags_p
    return tagged_p


class SortedRuns(Generic[Key]):
    """Keys of which at most `capacity` are in memory, given back as sorted runs."""

    def __init__(self, dtype: type[Key], *, capacity: int) -> None:
        # Pages that are never touched cost nothing, so a large buffer is free for a small job.
        self._buffer: NDArray[Key] = np.empty(max(capacity, 1), dtype)
        self._filled = 0
        self._file: io.FileIO | None = None
        self._spilled: list[int] = []  # lengths of the runs in the file, in order

    def __len__(self) -> int:
        return sum(self._spilled) + self._filled

    def extend(self, keys: NDArray[Key]) -> None:
        """Add keys in any order."""
        while keys.size:
            room = self._buffer.size - self._filled
            part, keys = keys[:room], keys[room:]
            self._buffer[self._filled : self._filled + part.size] = part
            self._filled += part.size
            if self._filled == self._buffer.size and keys.size:
                self._spill()

    def runs(self) -> Iterator[NDArray[Key]]:
        """Yield every run, ascending; each is overwritten by the next."""
        if not self._spilled:
            self._buffer[: self._filled].sort()
            yield self._buffer[: self._filled]
            return
        self._spill()  # frees the buffer to read into
        offset = 0
        for length in self._spilled:
            run = self._buffer[:length]
            _read(self._open(), run, offset=offset)
            offset += run.nbytes
            yield run

    def _spill(self) -> None:
        run = self._buffer[: self._filled]
        if not run.size:
            return
        run.sort()
        offset = sum(self._spilled) * run.itemsize
        try:
            _write(self._open(), run, offset=offset)
        except OSError as error:
            raise EdgesegError(
                f"{tempfile.gettempdir()}: cannot hold a temporary file of "
                f"{size_text(offset + run.nbytes)} ({error.strerror}); "
                "set TMPDIR to a folder on a larger disk"
            ) from error
        self._spilled.append(run.size)
        self._filled = 0

    def _open(self) -> io.FileIO:
        if self._file is None:
            # Unbuffered: runs are large, and a full disk must not fail a second time on closing.
            self._file = tempfile.TemporaryFile(  # noqa: SIM115 - lives as long as this object
                buffering=0, prefix="edgeseg-"
            )
            weakref.finalize(self, self._file.close)
        return self._file


def _write(file: io.FileIO, run: NDArray[Any], *, offset: int) -> None:
    file.seek(offset)
    rest = run.data.cast("B")
    while rest:  # one call to the system moves 2 GB at most
        rest = rest[file.write(rest) :]


def _read(file: io.FileIO, run: NDArray[Any], *, offset: int) -> None:
    file.seek(offset)
    rest = run.data.cast("B")
    while rest:
        got = file.readinto(rest)
        if not got:
            raise EdgesegError(
                f"temporary file of scores: ends {len(rest)} bytes early; "
                "something else has cut it, so evaluate again"
            )
        rest = rest[got:]


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """A slice of tagged keys, ascending, and where each stands among the others."""

    tags_p: NDArray[np.uint32]
    above_p: NDArray[np.int64]  # how many of the others are larger
    at_least_p: NDArray[np.int64]  # the same, with those that are equal


def rank(tagged: SortedRuns[np.uint64], others: SortedRuns[np.uint32]) -> Iterator[Ranked]:
    """Count how many of the others lie above each tagged key; yields slices of a bounded size."""
    for run_p in tagged.runs():
        keys_p = (run_p >> np.uint64(32)).astype(np.uint32)
        above_p = np.zeros(run_p.size, np.int64)
        at_least_p = np.zeros(run_p.size, np.int64)
        parts = [slice(start, start + SLICE) for start in range(0, run_p.size, SLICE)]
        for other in others.runs():
            for part in parts:
                above_p[part] += other.size - np.searchsorted(other, keys_p[part], side="right")
                at_least_p[part] += other.size - np.searchsorted(other, keys_p[part], side="left")
        for part in parts:
            yield Ranked(
                tags_p=run_p[part].astype(np.uint32),  # the lower half
                above_p=above_p[part],
                at_least_p=at_least_p[part],
            )
