"""The progress of a job: stages by their cost, lines for the service, and the time that is left.

A stage costs what it took on one computer, in seconds. Only proportions matter: how fast this
computer is, and how much of it the job gets, is measured while it runs.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TextIO, TypeVar

from edgeseg.base.errors import EdgesegError
from edgeseg.base.messages import Message, Words
from edgeseg.base.progress import Listener

_FIRST_SHARE, _FIRST_S = 0.02, 3.0  # of a job, before which nothing is estimated
_RECENT_S = 30.0

Item = TypeVar("Item")


class JobProgress(Listener, Protocol):
    """Receives the progress and the notes of a job."""

    def plan(self, costs: Mapping[str, float]) -> None:
        """Take the stages of the job, in their order, and what each costs."""

    def at(self, stage: str, sentence: Message, *, part: float = 0.0) -> None:
        """Report how far a stage is."""


class ProgressWriter:
    """Writes progress and notes of a job as JSON lines for the service."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._share = out, 0.0
        self._spans: dict[str, tuple[float, float]] = {}  # of a stage: its begin and its length
        self._lock = threading.Lock()

    def tell(self, **facts: Any) -> None:
        """Write one line."""
        with self._lock:
            self._out.write(json.dumps(facts) + "\n")
            self._out.flush()

    def fail(self, error: EdgesegError) -> None:
        """Write why the job failed, as its last line."""
        self.tell(failed=error.to_json())

    def plan(self, costs: Mapping[str, float]) -> None:
        """Take the stages that are left, in their order; a loop is a stage by its label's key."""
        begin, left = self._share, 1.0 - self._share
        total = sum(costs.values())
        self._spans = {}
        for stage, cost in costs.items():
            self._spans[stage] = begin, left * cost / total
            begin += left * cost / total

    def at(self, stage: str, sentence: Message, *, part: float = 0.0) -> None:
        """Write how far a stage is; one that was not planned changes nothing."""
        begin, length = self._spans.get(stage, (self._share, 0.0))
        self._share = max(self._share, begin + part * length)
        self.note(sentence)

    def note(self, text: Words) -> None:
        """Write a note."""
        sentence = text.to_json() if isinstance(text, Message) else text
        self.tell(share=round(self._share, 4), sentence=sentence)

    def progress(self, items: Iterable[Item], *, length: int, label: Words) -> Iterator[Item]:
        """Report a loop; one without a step is none."""
        stage = label.key if isinstance(label, Message) else ""

        def tell(done: int) -> None:
            if length:
                so_far = Message("work_so_far", what=label, n=done, n_all=length)
                self.at(stage, so_far, part=min(1.0, done / length))

        for done, item in enumerate(items):
            tell(done)
            yield item
        tell(length)


class TimeLeft:
    """Estimates how long a job still takes, by how fast it got on of late."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._points: list[tuple[float, float]] = [(clock_s(), 0.0)]  # when which share was done

    def note(self, share: float) -> None:
        """Take the share that is done now."""
        if share > self._points[-1][1]:
            self._points.append((self._clock_s(), share))

    def seconds(self) -> float | None:
        """Estimate the seconds that are left; None while nothing can be said.

        Work that stands still makes it longer: the time since the last progress counts.
        """
        now_s, share = self._clock_s(), self._points[-1][1]
        begun_s = self._points[0][0]
        if share < _FIRST_SHARE or now_s - begun_s < _FIRST_S:
            return None
        earlier = [point for point in self._points[:-1] if now_s - point[0] >= _RECENT_S]
        from_s, from_share = (earlier or self._points)[-1 if earlier else 0]
        return (1.0 - share) * (now_s - from_s) / (share - from_share)
