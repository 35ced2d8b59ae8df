"""Percentiles, ratios and their intervals on data whose answer is known."""

import numpy as np
import pytest

from edgeseg.base.errors import UsageError
from edgeseg.bench.harness.sampling import mean_std, percentiles, ratio_of


def test_a_constant_ratio_has_no_uncertainty() -> None:
    reference = np.random.default_rng(0).gamma(5, 2, (20, 10))
    ratio = ratio_of(2.5 * reference, reference)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((2.5, 2.5, 2.5))
    assert ratio.text == "2.50 (2.50 to 2.50)"


def test_drift_of_the_machine_cancels() -> None:
    drift = np.linspace(1, 5, 40)[:, None]  # the machine gets five times slower meanwhile
    rng = np.random.default_rng(0)
    slow = 3 * drift * rng.normal(1, 0.01, (40, 10))
    fast = drift * rng.normal(1, 0.01, (40, 10))
    ratio = ratio_of(slow, fast)
    assert ratio.value == pytest.approx(3, rel=0.01)
    assert ratio.high - ratio.low < 0.05


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        # Rounds differ, samples of a round are alike: the case that fools a bootstrap of samples.
        a = rng.lognormal(0, 0.2, (25, 1)) * rng.lognormal(0, 0.02, (25, 8))
        b = rng.lognormal(0, 0.2, (25, 1)) * rng.lognormal(0, 0.02, (25, 8))
        ratio = ratio_of(1.5 * a, b)
        covered += ratio.low <= 1.5 <= ratio.high
    assert 0.88 <= covered / 200 <= 0.99


def test_percentiles_of_known_numbers() -> None:
    figures = percentiles(np.arange(101, dtype=np.float64).reshape(1, 101))
    assert figures == {"p50": 50.0, "p95": 95.0, "p99": 99.0, "mean": 50.0}


def test_mean_and_deviation() -> None:
    assert mean_std([1.0, 3.0]) == (2.0, pytest.approx(2**0.5))
    assert mean_std([1.0]) == (1.0, None)


def test_mistakes_are_named() -> None:
    with pytest.raises(UsageError, match="percentiles of no samples"):
        percentiles(np.zeros((0, 3)))
    with pytest.raises(UsageError, match="as many rounds in both"):
        ratio_of(np.ones((3, 2)), np.ones((4, 2)))
    with pytest.raises(UsageError, match="the mean of no values"):
        mean_std([])
