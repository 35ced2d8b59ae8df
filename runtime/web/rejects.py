"""List the parts that were stopped, in pages that stand still while somebody reads them."""

import queue
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from edgeseg.base.plain import finite
from edgeseg.base.utc import utc_time
from edgeseg.runtime.events.records import FrameResult
from edgeseg.runtime.sinks.overlay import annotate_result
from edgeseg.runtime.station.records import variant_facts
from edgeseg.vision.images import encode_jpeg

KEPT = 96  # with their pictures, some 100 kB each
PAGE = 12
_SIDE = 800  # pixels of a picture
_WAITING = 8  # rejects whose picture is not drawn yet

Facts = dict[str, Any]


class RejectList(Protocol):
    """The rejects that are kept, wherever that is; from any thread."""

    def ids(self) -> list[str]:
        """List their ids, the oldest first."""

    def those(self, ids: Sequence[str]) -> list[Facts]:
        """Tell of some of them, in this order."""


def reject_page(rejects: RejectList, *, head: str, most: int) -> Facts:
    """Tell of the rejects from an id on, the newest first; an empty id is the newest one.

    The same head gives the same page, whatever has come since. `newer` and `older` are the heads
    of the pages beside it, or empty.
    """
    ids = rejects.ids()
    end = bisect_right(ids, head) if head else len(ids)
    end = end or min(most, len(ids))  # what was there is forgotten
    begin = max(0, end - most)
    return {
        "head": ids[end - 1] if end else "",
        "items": rejects.those(ids[begin:end][::-1]),
        "newer": ids[min(end + most, len(ids)) - 1] if end < len(ids) else "",
        "older": ids[begin - 1] if begin else "",
    }


def newer_rejects(rejects: RejectList, seen: str) -> int:
    """Count the rejects that are newer than the newest one that somebody was shown."""
    ids = rejects.ids()
    return len(ids) - bisect_right(ids, seen)


def part_facts(result: FrameResult) -> Facts:
    """Tell of one part what its picture does not show; `why` is the kind of what went wrong."""
    why = None if result.doubt is None else result.doubt.kind.value
    if result.refusal is not None:
        why = result.refusal[0].name.lower()
    return {
        "id": result.key,
        "when": utc_time(result.wall_s),
        "part": result.part_id or result.frame_name,
        "source": result.source,
        "source_index": result.source_index,
        "frame_index": result.frame_index,
        "verdict": result.verdict,
        "why": why,
        "reason": result.reason,
        "severity": result.severity,
        "score": finite(result.prediction.score),
        "threshold": result.threshold_score,
        "p_value": result.p_value,
        "oddness": result.oddness,
        "told": None if result.strongest is None else result.strongest.explanation,
        "region_count": result.region_count,
        **variant_facts(result.prediction.variant),
    }


class RejectHistory:
    """The last rejects in memory; a thread draws their pictures."""

    def __init__(self, *, on_error: Callable[[str, str], None]) -> None:
        self._on_error = on_error
        self._waiting: queue.Queue[FrameResult | None] = queue.Queue(_WAITING)
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[Facts, bytes]] = OrderedDict()
        self._thread = threading.Thread(target=self._run, name="page-rejects", daemon=True)

    def start(self) -> None:
        """Start drawing."""
        self._thread.start()

    def offer(self, result: FrameResult) -> None:
        """Queue a reject; if the queue is full it is counted, and not listed."""
        try:
            self._waiting.put_nowait(result)
        except queue.Full:
            self._on_error("page", "rejects come faster than pictures are drawn; one is not listed")

    def close(self) -> None:
        """Finish the queued pictures."""
        try:
            self._waiting.put(None, timeout=2.0)
            self._thread.join(2.0)
        except queue.Full:
            return  # the thread is a daemon and the run is over

    def ids(self) -> list[str]:
        """List the ids of all that are kept, the oldest first."""
        with self._lock:
            return sorted(self._kept)

    def those(self, ids: Sequence[str]) -> list[Facts]:
        """Tell of some of them, in this order."""
        with self._lock:
            return [self._kept[each][0] for each in ids if each in self._kept]

    def picture(self, reject_id: str) -> bytes | None:
        """Return the JPEG of a reject that is still kept."""
        with self._lock:
            return self._kept.get(reject_id, (None, None))[1]

    def _run(self) -> None:
        while (result := self._waiting.get()) is not None:
            try:
                picture = annotate_result(result, min_side=_SIDE // 2, max_side=_SIDE, strip=False)
                jpeg = encode_jpeg(picture, quality=85)
            except Exception as error:  # one odd frame must not end the thread
                self._on_error("page", f"a reject could not be drawn ({type(error).__name__})")
                continue
            facts = {**part_facts(result), "picture": f"/rejects/{result.key}.jpg"}
            with self._lock:
                self._kept[result.key] = facts, jpeg
                if len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
