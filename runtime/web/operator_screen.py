"""Tell a screen of the newest part and of the last reject, each with a picture of its own.

result --> newest, held --> facts with an id --> the picture of that id

A picture is drawn when its part is told of, and asked for by the part's id: picture and verdict
are of one part, however slow the network or the computer is.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from edgeseg.decision.judgement import is_alarming
from edgeseg.runtime.events.records import FrameResult, SourceEvent
from edgeseg.runtime.sinks.counters import Counters, Period
from edgeseg.runtime.sinks.overlay import annotate_result
from edgeseg.runtime.web.rejects import part_facts
from edgeseg.vision.images import encode_jpeg

MAX_SIDE = 960  # pixels: sharp on a desktop page, and a 4K frame does not cost 4K's JPEG
MIN_SIDE = 512  # so that lines drawn on a small frame are thin when the page enlarges it
QUALITY = 80
BAR = 10  # parts of a bar of the trend
BARS = 24
_SAME_S = 0.1  # for which viewers are told of the same part: scoring needs the processor more
_DRAWN = 64  # pictures that a slow viewer may still ask for: over six seconds

Facts = dict[str, Any]


@dataclass
class _ScreenChannel:
    """One source."""

    newest: FrameResult | None = None
    held: FrameResult | None = None  # the last reject
    trend: deque[list[int]] = field(default_factory=lambda: deque(maxlen=BARS))  # rejected, parts
    told: tuple[float, Facts | None] = (0.0, None)  # when, and of which part


class OperatorScreen:
    """A sink behind the pages of a stream and of teaching; scoring only swaps references."""

    name = "screen"

    def __init__(self, *, counters: Counters, on_error: Callable[[str, str], None]) -> None:
        self._counters, self._on_error = counters, on_error
        self._channels: dict[int, _ScreenChannel] = {}
        self._drawing = threading.Lock()
        self._drawn: OrderedDict[str, bytes] = OrderedDict()  # by the part's id

    def on_frame(self, result: FrameResult) -> None:
        """Keep it as the newest part of its source."""
        channel = self._channels.get(result.source_index)
        if channel is None:
            channel = self._channels.setdefault(result.source_index, _ScreenChannel())
        if not channel.trend or channel.trend[-1][1] == BAR:
            channel.trend.append([0, 0])
        channel.trend[-1][0] += is_alarming(result.verdict)
        channel.trend[-1][1] += 1
        if result.rejected:
            channel.held = result
        channel.newest = result

    def on_source(self, event: SourceEvent) -> None:
        """Ignore events: the state of a source is read when it is needed."""

    def close(self) -> None:
        """Do nothing: there is no thread."""

    def facts(self, source_index: int = 0) -> Facts:
        """Tell of the newest part, the last reject, the shift and the trend of a source."""
        channel = self._channels.get(source_index) or _ScreenChannel()
        counts = self._counters.counts
        return {
            "part": self._newest(channel),
            "held": self._tell(channel.held),
            "shift": _period(counts.shift),
            "total": _period(counts.total),
            "trend": [list(bar) for bar in list(channel.trend)],
        }

    def picture(self, part_id: str) -> bytes | None:
        """Return the JPEG of a part that somebody was told of a moment ago."""
        with self._drawing:
            return self._drawn.get(part_id)

    def begin_shift(self) -> None:
        """Count a new shift from now on."""
        self._counters.begin_shift()

    def _newest(self, channel: _ScreenChannel) -> Facts | None:
        when_s, told = channel.told
        if told is None or time.monotonic() - when_s >= _SAME_S:
            told = self._tell(channel.newest)
            channel.told = time.monotonic(), told
        return told

    def _tell(self, result: FrameResult | None) -> Facts | None:
        """Tell of a part whose picture is there; without one where it cannot be drawn."""
        if result is None:
            return None
        with self._drawing:  # of many viewers, one draws
            there = result.key in self._drawn or self._draw(result)
            if there:
                self._drawn.move_to_end(result.key)
        picture = f"/parts/{result.key}.jpg" if there else None
        return {**part_facts(result), "picture": picture}

    def _draw(self, result: FrameResult) -> bool:
        try:
            drawn = annotate_result(result, min_side=MIN_SIDE, max_side=MAX_SIDE, strip=False)
            self._drawn[result.key] = encode_jpeg(drawn, quality=QUALITY)
        except Exception as error:  # one odd frame must not end the view
            self._on_error("page", f"a frame could not be drawn ({type(error).__name__})")
            return False
        if len(self._drawn) > _DRAWN:
            self._drawn.popitem(last=False)
        return True


def _period(period: Period) -> Facts:
    return {"begun_s": period.begun_s, **asdict(period.all)}
