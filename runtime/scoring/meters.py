"""Count the numbers of a run in constant memory: latency per stage, rates, verdicts, errors."""

import threading
import time
from collections import Counter, deque

from edgeseg.base.messages import Sentence
from edgeseg.base.progress import Note
from edgeseg.runtime.capture.redact import redact
from edgeseg.runtime.events.records import STAGES, FrameVerdict, StageSummary

SINKS = "sinks"  # after the verdict, so in no frame's own times; it limits the rate all the same
# 128 linear buckets per power of two: a bucket is at most 1/128 of its values wide, and its middle
# is at most 1/256 (0.4 %) from any value in it.
SUB_BITS = 7
MAX_BITS = 41  # 2**41 ns = 36 minutes; anything longer is counted in the last bucket
RELATIVE_ERROR = 1.0 / 2 ** (SUB_BITS + 1)
_SUB = 1 << SUB_BITS
_BUCKETS = (MAX_BITS - SUB_BITS + 1) * _SUB
_NOTE_AGAIN_S = 60.0


class Histogram:
    """Durations of one stage: buckets, and percentiles within a stated error.

    One thread records, any thread reads: a list of integers needs no lock for that, and a reader
    sees every count either before or after an increment.
    """

    __slots__ = ("_counts", "_max_ns", "_total_ns")

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self._total_ns = 0
        self._max_ns = 0

    def record(self, value_ns: int) -> None:
        """Count one duration in nanoseconds."""
        shift = value_ns.bit_length() - SUB_BITS - 1
        index = value_ns if shift <= 0 else (shift << SUB_BITS) + (value_ns >> shift)
        self._counts[index if index < _BUCKETS else _BUCKETS - 1] += 1
        self._total_ns += value_ns
        if value_ns > self._max_ns:
            self._max_ns = value_ns

    def summary(self) -> StageSummary:
        """Return mean and maximum exactly, percentiles within RELATIVE_ERROR, in milliseconds."""
        counts = self._counts.copy()
        count = sum(counts)
        if count == 0:
            return StageSummary(count=0, mean=0.0, p50=0.0, p95=0.0, p99=0.0, max=0.0)
        p50, p95, p99 = _percentiles_ns(counts, count, (0.50, 0.95, 0.99))
        return StageSummary(
            count=count,
            mean=self._total_ns / count / 1e6,
            p50=min(p50, self._max_ns) / 1e6,
            p95=min(p95, self._max_ns) / 1e6,
            p99=min(p99, self._max_ns) / 1e6,
            max=self._max_ns / 1e6,
        )


def _percentiles_ns(counts: list[int], count: int, quantiles: tuple[float, ...]) -> list[float]:
    """Return nearest ranks: the smallest value with at least that share of counts up to it."""
    ranks = [max(1, -int(-quantile * count // 1)) for quantile in quantiles]
    percentiles: list[float] = []
    below = 0
    for index, inside in enumerate(counts):
        below += inside
        while len(percentiles) < len(ranks) and below >= ranks[len(percentiles)]:
            percentiles.append(_middle_ns(index))
        if len(percentiles) == len(ranks):
            break
    return percentiles


def _middle_ns(index: int) -> float:
    if index < 2 * _SUB:
        return float(index)
    shift = (index >> SUB_BITS) - 1
    low_ns = (index - (shift << SUB_BITS)) << shift
    return low_ns + ((1 << shift) - 1) / 2


class RateMeter:
    """Events per second over the last few seconds, from a running total."""

    def __init__(self, *, window_s: float = 5.0) -> None:
        self._window_s = window_s
        self._points: deque[tuple[float, int]] = deque()

    def update(self, now_s: float, total: int) -> None:
        """Note the total; call it about once a second, so that the points stay few."""
        self._points.append((now_s, total))
        # One point older than the window stays: the rate then covers at least the window.
        while len(self._points) > 2 and now_s - self._points[1][0] >= self._window_s:
            self._points.popleft()

    def rate(self) -> float:
        """Return the mean rate between the oldest and the newest point."""
        points = list(self._points)
        if len(points) < 2 or points[-1][0] <= points[0][0]:
            return 0.0
        (begin_s, first), (end_s, last) = points[0], points[-1]
        return (last - first) / (end_s - begin_s)


class StreamMeters:
    """All meters of a run; the scoring thread writes, any thread reads."""

    def __init__(self, source_count: int) -> None:
        self.verdicts: list[Counter[str]] = [Counter() for _ in range(source_count)]
        self.scored = 0
        self.started_s = time.monotonic()
        self.ended_s: float | None = None
        self.last_scored_s: float | None = None
        self._stages = {stage: Histogram() for stage in (*STAGES, SINKS)}
        # In the order of STAGES, bound once: this runs for every frame.
        self._records = tuple(self._stages[stage].record for stage in STAGES)
        self._in, self._out = RateMeter(), RateMeter()

    def record_frame(self, times_ns: tuple[int, ...]) -> None:
        """Take one scored frame; times in the order of STAGES."""
        for record, value_ns in zip(self._records, times_ns, strict=True):
            record(value_ns)
        self.scored += 1
        self.last_scored_s = time.monotonic()

    def record_verdict(self, source_index: int, verdict: FrameVerdict) -> None:
        """Count the verdict of a scored frame."""
        self.verdicts[source_index][verdict] += 1

    def record_sinks(self, value_ns: int) -> None:
        """Record the time that all sinks needed for one frame."""
        self._stages[SINKS].record(value_ns)

    def update_rates(self, frames_in: int) -> None:
        """Update the rates; call it about once a second."""
        now_s = time.monotonic()
        self._in.update(now_s, frames_in)
        self._out.update(now_s, self.scored)

    def rates(self) -> tuple[float, float]:
        """Return frames per second in and out, over the last few seconds."""
        return self._in.rate(), self._out.rate()

    def stages(self) -> dict[str, StageSummary]:
        """Return percentiles of every stage."""
        return {stage: histogram.summary() for stage, histogram in self._stages.items()}


class Faults:
    """Errors that did not stop the run, counted by name from any thread.

    The first of each name is noted, then one a minute: a full disk must not flood the log.
    """

    def __init__(self, note: Note) -> None:
        self._note = note
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._noted_s: dict[str, float] = {}

    def count(self, name: str, message: str) -> None:
        """Count and note one error; credentials in its message are hidden."""
        now_s = time.monotonic()
        with self._lock:
            self._counts[name] += 1
            total = self._counts[name]
            quiet = now_s - self._noted_s.get(name, -_NOTE_AGAIN_S) < _NOTE_AGAIN_S
            if not quiet:
                self._noted_s[name] = now_s
        if not quiet:
            more = f" ({total} so far)" if total > 1 else ""
            hidden = redact(message)
            shown = message if hidden == message else hidden
            self._note(Sentence(f"{name}: ", shown, more))

    def tally(self, name: str) -> None:
        """Count one error that is noted elsewhere."""
        with self._lock:
            self._counts[name] += 1

    def totals(self) -> dict[str, int]:
        """Return all counts so far."""
        with self._lock:
            return dict(self._counts)
