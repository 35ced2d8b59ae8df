"""Check whether a chained log was altered, cut or reordered, and where."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgeseg.base.plain import Malformed, parse_json
from edgeseg.runtime.sinks.hash_chain import GENESIS, ChainHead, Link, lines_of, link_of


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One place where the chain is broken."""

    file: Path
    line: int  # from 1
    what: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.what}"


@dataclass(kw_only=True)
class LogCheck:
    """The state of a check, line by line."""

    head: ChainHead | None
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lines: int = 0
    _link: Link = field(default_factory=Link)
    _chained: bool = False  # since a line that said what it follows on
    _met_head: bool = False

    @property
    def whole(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def take(self, file: Path, number: int, line: bytes) -> None:
        """Check one line against those before it."""
        link = link_of(line)
        for what in self._against(link, line):
            self.problems.append(Problem(file=file, line=number, what=what))
        self._chained |= link is not None
        # Behind a break what the line itself says is believed, to find the next break.
        self._link = (link or self._link).after(line)
        self.lines += 1
        self._met_head |= self.head is not None and self._link == self.head.link

    def _against(self, link: Link | None, line: bytes) -> Iterator[str]:
        if link is None:
            if self._chained and _is_event(line):
                yield "carries no link: put in, or written while the chain was off"
            return
        if not self.lines:
            yield from self._beginning(link)
        elif link.lines > self._link.lines:
            yield f"{_lines(link.lines - self._link.lines)} missing before it"
        elif link.lines < self._link.lines:
            yield (
                f"is line {link.lines + 1} of the log and stands where line "
                f"{self._link.lines + 1} belongs: reordered, doubled, or lines were put in"
            )
        elif link != self._link:
            yield "does not follow on the line before it: one of the two was altered"

    def _beginning(self, link: Link) -> Iterator[str]:
        if link.lines:
            self.notes.append(
                f"begins with line {link.lines + 1} of the log: those before it are not here"
            )
        elif link.hash != GENESIS:
            yield "is the first line, and says that another stood before it"

    def end(self, file: Path, number: int) -> None:
        """Check the end against the head."""
        if not self._chained:
            self.problems.append(
                Problem(file=file, line=number, what="no line carries a link: not a chained log")
            )
        elif self.head is None:
            self.notes.append(
                "no head: a cut end, or a change of the last line, would not be noticed"
            )
        elif not self._met_head:
            self.problems.append(Problem(file=file, line=number, what=self._not_the_head()))
        elif self._link.lines > self.head.lines:
            more = self._link.lines - self.head.lines
            self.notes.append(f"{_lines(more)} newer than the head: the writer was killed, or runs")

    def _not_the_head(self) -> str:
        missing = 0 if self.head is None else self.head.lines - self._link.lines
        if missing > 0:
            return f"the end is cut: {_lines(missing)} missing behind it"
        return "the end is not the one in the head: a line near it was altered"


def check_log(parts: Sequence[Path], head: ChainHead | None) -> LogCheck:
    """Check the files of a log in their order."""
    check, number, part = LogCheck(head=head), 0, parts[0]
    for part in parts:
        number = 0
        for number, line in enumerate(lines_of(part), start=1):
            check.take(part, number, line)
    check.end(part, number)
    return check


def _is_event(line: bytes) -> bool:
    try:
        return isinstance(parse_json(line), dict)
    except Malformed:
        return False


def _lines(count: int) -> str:
    return "1 line is" if count == 1 else f"{count} lines are"
