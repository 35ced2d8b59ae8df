"""The last parts that passed, with all that the camera saw, for people who find a defect later.

station --> queue --> a thread that encodes --> the newest parts --look--> what people are shown

They stay in memory: a camera that never rests would wear out a disk. The thread encodes for at most
a fifth of its time, and parts that come meanwhile are not kept. What is shown stands still until
somebody looks again.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message
from edgeseg.base.plain import finite
from edgeseg.base.progress import Note
from edgeseg.base.utc import utc_time
from edgeseg.decision.judgement import is_alarming
from edgeseg.runtime.events.records import FrameResult
from edgeseg.vision.images import encode_png

KEPT = 50
MOST_BYTES = 128_000_000  # of encoded pictures; as much again for what is shown
_WAITING = 2  # parts in memory that are not encoded yet
_REST = 4.0  # times as long as encoding took


@dataclass(frozen=True, kw_only=True)
class PassedPart:
    """One part that was not stopped."""

    id: str  # in the order of time
    when: str
    part: str  # its serial number, or the name of its file
    verdict: str
    score: float | None
    threshold: float
    width: int
    height: int
    png: bytes

    def facts(self) -> dict[str, Any]:
        """Facts for a page."""
        address = f"/teach/parts/{self.id}"
        shown = {name: value for name, value in vars(self).items() if name != "png"}
        return {**shown, "picture": f"{address}?width=320", "large": address}


class LastParts:
    """Keeps the newest parts that passed; may be called from any thread."""

    def __init__(self, *, note: Note) -> None:
        self._note = note
        self._queue: queue.Queue[FrameResult | None] = queue.Queue(_WAITING)
        self._lock, self._closing = threading.Lock(), threading.Event()
        self._kept: deque[PassedPart] = deque(maxlen=KEPT)
        self._shown: tuple[PassedPart, ...] = ()
        self._thread = threading.Thread(target=self._run, name="last-parts", daemon=True)
        self._thread.start()

    def offer(self, result: FrameResult) -> None:
        """Queue a part that passed; called by the scoring thread, so it never waits."""
        if is_alarming(result.verdict) or self._queue.full():
            return
        try:
            self._queue.put_nowait(result)
        except queue.Full:
            return

    def look(self) -> list[PassedPart]:
        """Show the newest parts from now on; return them, the newest first."""
        with self._lock:
            self._shown = tuple(self._kept)[::-1]
        return self.shown_parts()

    def shown_parts(self) -> list[PassedPart]:
        """List the parts that are shown, the newest first."""
        with self._lock:
            return list(self._shown)

    def find(self, part_id: str) -> PassedPart:
        """Find a part that is shown or kept."""
        with self._lock:
            found = _find(part_id, self._shown) or _find(part_id, self._kept)
        if found is None:
            raise UsageError(Message("part_gone", name=part_id, n=KEPT))
        return found

    def close(self) -> None:
        """End the thread; what is kept stays."""
        self._closing.set()
        self._queue.put(None)
        self._thread.join(10.0)

    def _run(self) -> None:
        while (result := self._queue.get()) is not None:
            begin_s = time.monotonic()
            try:
                part = _encode(result)
            except Exception as error:  # one odd frame must not end the thread
                self._note(f"part {result.key}: not kept ({type(error).__name__})")
                continue
            with self._lock:
                self._kept.append(part)
                while len(self._kept) > 1 and _size(self._kept) > MOST_BYTES:
                    self._kept.popleft()
            self._closing.wait(_REST * (time.monotonic() - begin_s))


def _encode(result: FrameResult) -> PassedPart:
    whole_hwc = result.frame_hwc if result.captured_hwc is None else result.captured_hwc
    return PassedPart(
        id=result.key,
        when=utc_time(result.wall_s),
        part=result.part_id or result.frame_name,
        verdict=result.verdict,
        score=finite(result.prediction.score),
        threshold=result.threshold_score,
        width=whole_hwc.shape[1],
        height=whole_hwc.shape[0],
        png=encode_png(whole_hwc),
    )


def _find(part_id: str, parts: Iterable[PassedPart]) -> PassedPart | None:
    return next((part for part in parts if part.id == part_id), None)


def _size(parts: Iterable[PassedPart]) -> int:
    return sum(len(part.png) for part in parts)
