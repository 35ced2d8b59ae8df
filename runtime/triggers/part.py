"""Trigger once for each part that comes into view, with its best frames.

nothing -> a part is there -> it rests: inspect now, or it passes: inspect when it has gone
        -> and nothing more until the view was empty again
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import cv2
import numpy as np

from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.base.messages import Setting
from edgeseg.runtime.capture.frame_buffer import Frame
from edgeseg.runtime.capture.intake import Intake
from edgeseg.runtime.station.station import Station
from edgeseg.runtime.triggers.intakes import MISSED, UNTRIGGERED, with_trigger
from edgeseg.runtime.triggers.part_watch import PartView, PartWatch
from edgeseg.vision.geometry import Roi
from edgeseg.vision.images import read_image

REST = 5  # still frames after which a part rests
GONE = 3  # empty frames after which it has left
SEEN = 2  # frames that show something before it is a part
_TRACE = 0.1  # of the part's largest share: what an exposure control leaves behind for a while
_REST_SHARE = 0.5  # of it must be there for the part to rest


@dataclass
class _Candidate:
    frame: Frame
    rank: tuple[bool, float]


@dataclass
class _Part:
    """The part in view now."""

    seen: int = 0
    still: int = 0
    away: int = 0
    largest: float = 0.0  # share of the view
    answered: bool = False
    best: list[_Candidate] = field(default_factory=list)


Phase = Literal["empty", "coming", "answered"]  # answered: and it has not left yet
# Takes the frames that answer for a part, in their order, and since when it is there; None: now.
PartAnswer = Callable[[Sequence[Frame], int | None], None]


class PartIntake:
    """An intake that watches every frame and scores those that show a part best."""

    def __init__(
        self,
        buffer: Intake,
        answer: PartAnswer,
        *,
        watch: PartWatch,
        area: float,
        frames: int,
    ) -> None:
        self._buffer, self._answer_part, self._watch = buffer, answer, watch
        self._area, self._frames = area, frames
        self._part: _Part | None = None

    @property
    def phase(self) -> Phase:
        """What is in view now."""
        if self._part is None:
            return "empty"
        return "answered" if self._part.answered else "coming"

    def put(self, frame: Frame) -> None:
        """Compare a frame; keep it, score those kept, or drop it."""
        view = self._watch.look(frame.image_hwc)
        part = self._part
        if part is None:
            if view.share < self._area:
                self._let_go(frame)
                return
            part = self._part = _Part()
        part.largest = max(part.largest, view.share)
        if view.share < max(self._area / 2, _TRACE * part.largest):
            part.away += 1
            self._let_go(frame)
            if part.away >= GONE:
                self._leave(part, at_ns=frame.grabbed_ns)
            return
        part.away = 0
        part.seen += 1
        there = view.share >= max(self._area, _REST_SHARE * part.largest)
        part.still = part.still + 1 if view.still and there else 0
        if part.answered:
            self._let_go(frame)
            return
        self._keep(part, frame, view)
        if part.still >= REST + self._frames - 1:
            self._answer(part, at_ns=frame.grabbed_ns)

    def _keep(self, part: _Part, frame: Frame, view: PartView) -> None:
        """Keep the frames that show most of the part; of a part at rest, the newest."""
        resting = part.still >= REST
        rank = (True, float(part.still)) if resting else (view.whole, view.share)
        part.best.append(_Candidate(frame, rank))
        part.best.sort(key=lambda each: each.rank, reverse=True)
        for dropped in part.best[self._frames :]:
            self._let_go(dropped.frame)
        del part.best[self._frames :]

    def _leave(self, part: _Part, *, at_ns: int | None) -> None:
        """Inspect a part that has passed by its best frames."""
        if not part.answered:
            if part.seen >= SEEN:
                self._answer(part, at_ns=at_ns)
            else:
                for candidate in part.best:
                    self._let_go(candidate.frame)
        self._part = None

    def _answer(self, part: _Part, *, at_ns: int | None) -> None:
        """Trigger with the kept frames, at the time when the part was seen."""
        part.answered = True
        chosen = sorted((each.frame for each in part.best), key=lambda frame: frame.frame_index)
        part.best.clear()
        self._answer_part(chosen, at_ns)

    def _let_go(self, frame: Frame) -> None:
        self._buffer.count_unread(frame.source_index, UNTRIGGERED)

    def count_unread(self, source_index: int, cause: str) -> None:
        """Count a damaged frame; the part has others."""
        self._buffer.count_unread(source_index, cause)

    def finish(self, source_index: int) -> None:
        """Inspect what is in view: no more frames come."""
        if self._part is not None:
            self._leave(self._part, at_ns=None)
        self._buffer.finish(source_index)


def make_intake(
    buffer: Intake,
    station: Station,
    *,
    roi: str | None,
    area: float,
    votes: tuple[int, int],
    empty: Path | None,
) -> PartIntake:
    """Make an intake from the options."""
    empty_hwc = None
    if empty is not None:
        try:
            empty_hwc = np.asarray(cv2.cvtColor(read_image(empty), cv2.COLOR_RGB2BGR), np.uint8)
        except DatasetError as error:
            raise UsageError(Setting("part_empty", empty), ": ", error) from None
    watch = PartWatch(area=area, roi=Roi.parse(roi) if roi else None, empty_hwc=empty_hwc)
    needed, frames = votes

    def answer(chosen: Sequence[Frame], at_ns: int | None) -> None:
        event = station.trigger(
            origin="part",
            at_ns=at_ns,
            acquired=True,
            frames=len(chosen),
            needed=min(needed, len(chosen)),
        )
        wanted = station.waits_for(event.trigger_id)
        for frame in chosen:
            if wanted:
                buffer.put(with_trigger(frame, event))
            else:
                buffer.count_unread(frame.source_index, MISSED)

    return PartIntake(buffer, answer, watch=watch, area=area, frames=frames)
