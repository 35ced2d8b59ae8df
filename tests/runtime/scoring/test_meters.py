"""The bounded histogram against exact percentiles, rates, and the counting of faults."""

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeseg.runtime.scoring import meters
from edgeseg.runtime.scoring.meters import MAX_BITS, RELATIVE_ERROR, Faults, Histogram, RateMeter


def exact_ns(values: list[int], quantile: float) -> int:
    """Nearest rank, by sorting."""
    return sorted(values)[max(1, math.ceil(quantile * len(values))) - 1]


@given(st.lists(st.integers(0, 2**MAX_BITS - 1), min_size=1, max_size=300))
def test_percentiles_are_within_the_stated_error(values: list[int]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    summary = histogram.summary()
    assert summary.count == len(values)
    assert summary.max == max(values) / 1e6
    assert summary.mean == pytest.approx(sum(values) / len(values) / 1e6)
    for quantile, value_ms in ((0.50, summary.p50), (0.95, summary.p95), (0.99, summary.p99)):
        exact_ms = exact_ns(values, quantile) / 1e6
        assert abs(value_ms - exact_ms) <= RELATIVE_ERROR * exact_ms + 1e-9


def test_realistic_latencies_at_every_scale() -> None:
    rng = np.random.default_rng(0)
    for scale in (1e3, 1e6, 1e9):  # microseconds to seconds
        values = [int(v) for v in rng.lognormal(math.log(scale), 0.5, 5000)]
        histogram = Histogram()
        for value in values:
            histogram.record(value)
        assert histogram.summary().p99 * 1e6 == pytest.approx(
            exact_ns(values, 0.99), rel=RELATIVE_ERROR
        )


def test_memory_does_not_grow_with_the_number_of_frames() -> None:
    histogram = Histogram()
    histogram.record(5)
    before = sys.getsizeof(histogram._counts)
    for value in range(0, 10**7, 997):
        histogram.record(value)
    assert sys.getsizeof(histogram._counts) == before


def test_nothing_recorded_and_longer_than_the_range() -> None:
    histogram = Histogram()
    assert histogram.summary().count == 0
    assert histogram.summary().p99 == 0.0
    histogram.record(2**50)  # a suspended computer: counted in the last bucket
    assert histogram.summary().count == 1
    assert histogram.summary().max == 2**50 / 1e6


def test_rate_is_that_of_the_last_seconds_only() -> None:
    meter = RateMeter(window_s=5.0)
    assert meter.rate() == 0.0
    for second in range(100):
        meter.update(float(second), second * 30)
    assert meter.rate() == pytest.approx(30.0)
    for second in range(100, 110):
        meter.update(float(second), 99 * 30)  # nothing comes any more
    assert meter.rate() == 0.0
    assert len(meter._points) < 10


def test_faults_are_all_counted_and_rarely_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(meters, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    notes: list[str] = []
    faults = Faults(notes.append)
    for second in range(130):
        clock[0] = 1000.0 + second
        faults.count("disk", "full")
    faults.count("page", "odd")
    assert faults.totals() == {"disk": 130, "page": 1}
    assert notes == [
        "disk: full",
        "disk: full (61 so far)",
        "disk: full (121 so far)",
        "page: odd",
    ]
