"""Keep what the page shows: scores over time, the last alarms and events, all bounded."""

import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edgeseg.base.plain import finite
from edgeseg.runtime.events.records import FrameResult
from edgeseg.runtime.sinks.overlay import annotate_result
from edgeseg.runtime.station.records import variant_facts
from edgeseg.vision.images import encode_jpeg

BUCKET_S = 0.25
BUCKETS = 1200  # five minutes per source
ALARMS = 24  # with their pictures, some 100 kB each
EVENTS = 200
PICTURE_SIDE = 800  # pixels
_WAITING = 8  # alarms whose picture is not drawn yet


class ScoreHistory:
    """The highest score of every quarter of a second: no peak is lost at any frame rate."""

    def __init__(self) -> None:
        # seconds, highest score or None when all were invalid, whether any frame was not good
        self._buckets: deque[tuple[int, float | None, bool]] = deque(maxlen=BUCKETS)

    def add(self, result: FrameResult) -> None:
        """Take one scored frame."""
        index = int(result.wall_s / BUCKET_S)
        score = finite(result.prediction.score)
        bad = result.verdict != "good"
        last = self._buckets[-1] if self._buckets else None
        if last is not None and index <= last[0]:  # also when the wall clock was set back
            highest = max((s for s in (last[1], score) if s is not None), default=None)
            # One assignment: a reader sees the bucket before or after, never half of it.
            self._buckets[-1] = (last[0], highest, last[2] or bad)
        else:
            self._buckets.append((index, score, bad))

    def since(self, after: int) -> list[list[Any]]:
        """Return buckets [number, score, bad] from number `after` on; that one may have changed."""
        return [list(bucket) for bucket in list(self._buckets) if bucket[0] >= after]


@dataclass(frozen=True, kw_only=True)
class AlarmCard:
    """One alarm as the page lists it, and its picture, which has an address of its own."""

    number: int
    summary: dict[str, object]
    jpeg: bytes


class AlarmHistory:
    """The last alarms; a thread draws their pictures."""

    def __init__(self, *, on_error: Callable[[str, str], None]) -> None:
        self._on_error = on_error
        self._waiting: queue.Queue[FrameResult | None] = queue.Queue(_WAITING)
        self._cards: deque[AlarmCard] = deque(maxlen=ALARMS)
        self._thread = threading.Thread(target=self._run, name="page-alarms", daemon=True)

    def start(self) -> None:
        """Start drawing."""
        self._thread.start()

    def offer(self, result: FrameResult) -> None:
        """Queue an alarm; if the queue is full it is counted, and not listed."""
        try:
            self._waiting.put_nowait(result)
        except queue.Full:
            self._on_error("page", "alarms come faster than pictures are drawn; one is not listed")

    def close(self) -> None:
        """Finish the queued pictures."""
        try:
            self._waiting.put(None, timeout=2.0)
            self._thread.join(2.0)
        except queue.Full:
            return  # the thread is a daemon and the run is over

    def _run(self) -> None:
        number = 0
        while (result := self._waiting.get()) is not None:
            try:
                picture = annotate_result(
                    result, min_side=PICTURE_SIDE // 2, max_side=PICTURE_SIDE, strip=False
                )
                jpeg = encode_jpeg(picture, quality=85)
            except Exception as error:  # one odd frame must not end the thread
                self._on_error("page", f"an alarm could not be drawn ({type(error).__name__})")
                continue
            number += 1
            self._cards.append(
                AlarmCard(number=number, summary=_summary(number, result), jpeg=jpeg)
            )

    def summaries(self) -> list[dict[str, object]]:
        """Return the alarms, the newest first."""
        return [card.summary for card in reversed(list(self._cards))]

    def picture(self, number: int) -> bytes | None:
        """Return the JPEG of an alarm that is still kept."""
        return next((card.jpeg for card in list(self._cards) if card.number == number), None)


def _summary(number: int, result: FrameResult) -> dict[str, object]:
    return {
        "number": number,
        "wall_s": result.wall_s,
        "source": result.source,
        "source_index": result.source_index,
        "frame_index": result.frame_index,
        "score": finite(result.prediction.score),
        "threshold": result.threshold_score,
        "verdict": result.verdict,
        "oddness": None if result.oddness is None else str(result.oddness),
        "reason": result.reason,  # why there is no verdict
        "region_count": result.region_count,
        "why": result.explanation,
        "picture": f"/alarms/{number}.jpg",
        **variant_facts(result.prediction.variant),
    }


class EventHistory:
    """The last events, numbered, in the form of the event log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: deque[dict[str, object]] = deque(maxlen=EVENTS)
        self._count = 0

    def add(self, event: dict[str, object]) -> None:
        """Keep one event."""
        with self._lock:
            self._count += 1
            self._events.append({"number": self._count, **event})

    def since(self, after: int) -> list[dict[str, object]]:
        """Return events with a higher number, the oldest first."""
        with self._lock:
            return [event for event in self._events if int(str(event["number"])) > after]
