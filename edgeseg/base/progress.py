"""Notes for people, and progress of anything that takes longer than two seconds."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from edgeseg.base.messages import Message, Words

Item = TypeVar("Item")

PATIENCE_SECONDS = 2.0
Note = Callable[[str], None]  # takes a line about what is going on; `print` will do


def ignore(_: Words) -> None:
    """Drop a note: the default of the library."""


class Progress(Protocol):
    """A wrapper of loops that shows how far they are; the library does not know how it looks."""

    def __call__(self, items: Iterable[Item], *, length: int, label: str) -> Iterator[Item]:
        """Yield the items and show progress."""
        ...


class Steps(Protocol):
    """A wrapper of loops, like Progress, whose label is a message."""

    def __call__(self, items: Iterable[Item], *, length: int, label: Message) -> Iterator[Item]:
        """Yield the items and show progress."""
        ...


class Listener(Protocol):
    """A receiver of notes and progress, as messages where they have a key."""

    def note(self, text: Words) -> None:
        """Take a line about what is going on."""
        ...

    def progress(self, items: Iterable[Item], *, length: int, label: Words) -> Iterator[Item]:
        """Yield the items and show progress."""
        ...


def silent(items: Iterable[Item], *, length: int, label: Words) -> Iterator[Item]:
    """Yield the items and show nothing: the default of the library."""
    yield from items


def bar(items: Iterable[Item], *, length: int, label: str) -> Iterator[Item]:
    """Yield the items; show a bar on a terminal, elsewhere a line at the start and at the end."""
    terminal = sys.stderr.isatty()
    started = shown = time.monotonic()
    announced = False
    for done, item in enumerate(items):
        now = time.monotonic()
        if now - started > PATIENCE_SECONDS and (not announced or (terminal and now - shown > 0.2)):
            _show(label, done, length, now - started, terminal=terminal)
            announced, shown = True, now
        yield item
    if announced:
        seconds = time.monotonic() - started
        end = "\r\x1b[K" if terminal else ""
        print(f"{end}{label}: {length} of {length}, {seconds:.1f} s", file=sys.stderr)


def _show(label: str, done: int, length: int, seconds: float, *, terminal: bool) -> None:
    left = seconds / max(done, 1) * (length - done)
    text = f"{label}: {done} of {length}, about {left:.0f} s left"
    if not terminal:
        print(text, file=sys.stderr, flush=True)
        return
    filled = round(20 * done / max(length, 1))
    picture = "█" * filled + "·" * (20 - filled)
    print(f"\r\x1b[K{picture} {text}", end="", file=sys.stderr, flush=True)
