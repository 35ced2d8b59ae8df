"""Write the event log: lines in one file, or in parts by size and age, chained on request.

    events.jsonl is always the newest; when full, it becomes events.000001.jsonl, then .000002 ...

A part is renamed once and as a whole, so a reader (`tail -F`) loses and repeats nothing.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.plain import Malformed, parse_json
from edgeseg.runtime.sinks.hash_chain import Chain, link_line, part_number, parts_of
from edgeseg.runtime.sinks.line_file import LineFile

_DAY_S = 86_400.0


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """Limits after which a log continues in a new file, and the number of old files to keep."""

    max_mb: float | None = None
    days: float | None = None
    keep: int | None = None  # None: all

    def __post_init__(self) -> None:
        for name in ("max_mb", "days", "keep"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(Setting(f"events_{name}", value), ": expected more than 0")
        if self.keep is not None and not self.wanted:
            raise UsageError(
                Setting("events_keep", self.keep),
                ": nothing is rotated; add ",
                Setting("events_max_mb"),
                " or ",
                Setting("events_days"),
            )

    @property
    def wanted(self) -> bool:
        """Whether the log is rotated at all."""
        return self.max_mb is not None or self.days is not None

    def due(self, *, size: int, more: int, begun_s: float, now_s: float) -> bool:
        """Whether a line of so many bytes belongs in a new file."""
        if size == 0:
            return False
        full = self.max_mb is not None and size + more > self.max_mb * 1e6
        return full or (self.days is not None and now_s - begun_s >= self.days * _DAY_S)


class EventFile:
    """An open event log; one thread at a time."""

    def __init__(
        self,
        path: str,
        *,
        rotation: Rotation,
        chained: bool,
        on_error: Callable[[str], None],
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        # Through a link to where it points, as all outputs go: a rename would move the link.
        path = os.path.realpath(path) if rotation.wanted else path
        self._path, self._rotation, self._on_error = path, rotation, on_error
        self._clock_s = clock_s
        self._lines = LineFile(path)
        self.cut_bytes = self._lines.cut_bytes  # of a line that an earlier run did not finish
        tracked = rotation.wanted or chained
        self._size = Path(path).stat().st_size if tracked else 0
        self._begun_s = _first_line_s(Path(path), clock_s()) if rotation.wanted else 0.0
        self._chain: Chain | None = None
        if chained:
            try:
                self._chain = Chain(Path(path))
            except OSError:
                self._lines.close()
                raise

    def write(self, lines: bytes, *, durable: bool) -> bool:
        """Append whole lines, each in one write; return False if there was no space for one."""
        written = True
        for line in lines.splitlines():
            written &= self._write(line, durable=durable)
        return written

    def _write(self, line: bytes, *, durable: bool) -> bool:
        if self._chain is not None:
            line = link_line(line, self._chain.link)
        if self._rotation.wanted:
            self._rotate_if_due(len(line) + 1)
        if not self._lines.write(line + b"\n", durable=durable):
            return False
        self._size += len(line) + 1
        if self._chain is not None:
            self._chain.add(line, size=self._size)
        return True

    def _rotate_if_due(self, more: int) -> None:
        now_s = self._clock_s()
        if not self._rotation.due(size=self._size, more=more, begun_s=self._begun_s, now_s=now_s):
            return
        log = Path(self._path)
        self._lines.sync()
        try:
            log.rename(_next_part(log))
        except OSError as error:
            self._on_error(f"{log}: cannot be rotated ({error.strerror}); it grows on")
            self._begun_s, self._rotation = now_s, Rotation()
            return
        before, self._lines = self._lines, LineFile(self._path)
        before.close()
        self._size, self._begun_s = 0, now_s
        if self._chain is not None:
            self._chain.note_size(0)
        self._forget_oldest(log)

    def _forget_oldest(self, log: Path) -> None:
        if self._rotation.keep is None:
            return
        rotated = [part for part in parts_of(log) if part != log]
        for part in rotated[: -self._rotation.keep]:
            try:
                part.unlink()
            except OSError as error:
                self._on_error(f"{part}: cannot be removed ({error.strerror})")

    def sync(self) -> None:
        """Flush durable lines to the disk."""
        self._lines.sync()

    def close(self) -> None:
        """Close the file; call `sync` before."""
        self._lines.close()
        if self._chain is not None:
            self._chain.close()


def _next_part(log: Path) -> Path:
    numbers = [part_number(part) for part in parts_of(log) if part != log]
    return log.with_name(f"{log.stem}.{max(numbers, default=0) + 1:06d}{log.suffix}")


def _first_line_s(log: Path, now_s: float) -> float:
    """Return the time of the file's first line."""
    with log.open("rb") as file:
        first = file.readline()
    try:
        begun = parse_json(first)["wall_s"]
        return min(float(begun), now_s)  # a clock that was set back must not stop the days
    except (Malformed, KeyError, TypeError, ValueError):
        return now_s
