"""Exact intervals against scipy's, and at their ends."""

import pytest
from scipy import stats

from edgeseg.contract.binomial import exact_interval
from edgeseg.errors import UsageError


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
@pytest.mark.parametrize("trials", [1, 2, 5, 20, 59, 300, 5000])
def test_it_is_scipys(trials: int, confidence: float) -> None:
    for mistakes in sorted({0, 1, 2, trials // 3, trials - 1, trials}):
        if not 0 <= mistakes <= trials:
            continue
        expected = stats.binomtest(mistakes, trials).proportion_ci(confidence, method="exact")
        low, high = exact_interval(mistakes, trials, confidence=confidence)
        assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-9)


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
