"""Latency in constant memory: durations in buckets, percentiles within a stated error."""

from collections import deque

from edgeseg.runtime.records import StageSummary

# 128 linear buckets per power of two: a bucket is at most 1/128 of its values wide, and its middle
# is at most 1/256 (0.4 %) from any value in it.
SUB_BITS = 7
MAX_BITS = 41  # 2**41 ns = 36 minutes; anything longer is counted in the last bucket
RELATIVE_ERROR = 1.0 / 2 ** (SUB_BITS + 1)
_SUB = 1 << SUB_BITS
_BUCKETS = (MAX_BITS - SUB_BITS + 1) * _SUB


class Histogram:
    """Durations of one stage.

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
        """Mean and maximum exactly, percentiles within RELATIVE_ERROR, in milliseconds."""
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
    """Nearest rank: the smallest value with at least that share of the counts at or below it."""
    ranks = [max(1, -int(-quantile * count // 1)) for quantile in quantiles]
    found: list[float] = []
    below = 0
    for index, inside in enumerate(counts):
        below += inside
        while len(found) < len(ranks) and below >= ranks[len(found)]:
            found.append(_middle_ns(index))
        if len(found) == len(ranks):
            break
    return found


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
        """Note the total; call about once a second, so that the points stay few."""
        self._points.append((now_s, total))
        # One point older than the window stays: the rate then covers at least the window.
        while len(self._points) > 2 and now_s - self._points[1][0] >= self._window_s:
            self._points.popleft()

    def rate(self) -> float:
        """The mean rate between the oldest and the newest point."""
        points = list(self._points)
        if len(points) < 2 or points[-1][0] <= points[0][0]:
            return 0.0
        (begin_s, first), (end_s, last) = points[0], points[-1]
        return (last - first) / (end_s - begin_s)
