"""Exact intervals against scipy's, and at their ends."""

import pytest
from scipy import stats

from edgeseg.base.errors import UsageError
from edgeseg.decision.binomial import exact_interval, rate_quantile


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
@pytest.mark.parametrize("trials", [1, 2, 5, 20, 59, 300, 5000])
def test_it_is_scipys(trials: int, confidence: float) -> None:
    for mistakes in sorted({0, 1, 2, trials // 3, trials - 1, trials}):
        if not 0 <= mistakes <= trials:
            continue
        expected = stats.binomtest(mistakes, trials).proportion_ci(confidence, method="exact")
        low, high = exact_interval(mistakes, trials, confidence=confidence)
        assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize("count", [1, 10, 49, 100, 500])
def test_rates_over_fits_are_betas(count: int) -> None:
    for highest in sorted({1, 2, count // 2, count}):
        if not 1 <= highest <= count:
            continue
        for share in (0.1, 0.5, 0.9, 0.99):
            expected = stats.beta(highest, count + 1 - highest).ppf(share)
            found = rate_quantile(highest, count, share=share)
            assert found == pytest.approx(expected, abs=1e-9)


def test_the_highest_of_many_alarms_at_twice_its_rate_in_one_fit_of_eight() -> None:
    assert stats.beta(1, 1000).sf(2 / 1001) == pytest.approx(1 / 7.4, abs=0.001)
    assert rate_quantile(1, 49, share=0.9) == pytest.approx(0.046, abs=0.0005)


def test_a_rank_that_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="no such rate"):
        rate_quantile(3, 2, share=0.9)


def test_the_rule_of_three_and_nothing_known() -> None:
    assert exact_interval(0, 0) == (0.0, 1.0)
    assert exact_interval(0, 100, confidence=0.9).high == pytest.approx(0.0295, abs=1e-4)
    assert exact_interval(0, 100).low == 0.0
    assert exact_interval(100, 100).high == 1.0


@pytest.mark.parametrize(
    ("mistakes", "trials", "confidence", "message"),
    [
        (3, 2, 0.95, "3 mistakes in 2 trials: expected 0 up to the trials"),
        (-1, 2, 0.95, "-1 mistakes in 2 trials: expected 0 up to the trials"),
        (0, 2, 1.0, "confidence=1.0: expected above 0 and below 1"),
    ],
)
def test_mistakes(mistakes: int, trials: int, confidence: float, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        exact_interval(mistakes, trials, confidence=confidence)
    assert str(refused.value) == message
