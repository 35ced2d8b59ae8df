"""The law of the tail of good scores, against simulation, closed forms and degenerate sets."""

import math

import numpy as np
import pytest

from edgeseg.decision.good_tail import GoodTail, has_tail, tail_interval, tail_size
from edgeseg.decision.operating_point import (
    conformal_threshold,
    operating_point,
    rate_interval,
    rate_threshold,
)


def tail_threshold(scores, rate):
    return rate_threshold(list(scores), false_alarm_rate=rate, promise="tail").value


def true_rates(count, rate, *, fits=20_000):
    """True rates over many fits: logarithms of scores are exponential, with mean .1."""
    rng = np.random.default_rng(0)
    limits = [
        GoodTail.of(np.exp(0.1 * rng.exponential(size=count) + 1)).threshold(rate)
        for _ in range(fits)
    ]
    return np.exp(-(np.log(limits) - 1) / 0.1)


@pytest.mark.parametrize(("count", "rate"), [(10, 1 / 11), (20, 0.05), (49, 0.02), (200, 0.01)])
def test_alarms_come_as_often_as_promised_in_the_mean_over_fits(count, rate):
    true = true_rates(count, rate)
    assert np.mean(true) == pytest.approx(rate, rel=0.03)
    low, high = tail_interval(count, rate, share=0.8)
    assert np.mean(true < low) == pytest.approx(0.1, abs=0.008)
    assert np.mean(true > high) == pytest.approx(0.1, abs=0.008)


def test_the_formula_by_hand():
    logs = np.array([0.0, 0.1, 0.2, 0.3, 0.5, 1.0, 1.1, 1.3, 1.6, 9.0])
    tail = GoodTail.of(np.exp(logs).tolist())
    assert tail_size(10) == 5
    assert tail.start == pytest.approx(0.5)
    assert tail.total == pytest.approx(0.5 + 0.6 + 0.8 + 1.1 + 1.1), "9.0 counts as 1.6"
    beyond = tail.total * ((6 / 11 / 0.1) ** (1 / 4) - 1)
    assert math.log(tail.threshold(0.1)) == pytest.approx(0.5 + beyond)


def test_one_odd_picture_does_not_decide():
    good = np.random.default_rng(1).gamma(30.0, size=60)
    odd = good.copy()
    odd[np.argmax(odd)] *= 50
    for rate in (0.02, 0.05, 0.1):
        assert tail_threshold(odd, rate) == tail_threshold(good, rate)
    assert conformal_threshold(odd.tolist(), false_alarm_rate=0.01).value == odd.max()


def test_a_unit_of_the_scores_is_a_unit_of_the_threshold():
    good = np.random.default_rng(2).gamma(20.0, size=80)
    assert tail_threshold(7 * good, 0.02) == pytest.approx(7 * tail_threshold(good, 0.02))
    shuffled = np.random.default_rng(3).permutation(good)
    assert tail_threshold(shuffled, 0.02) == tail_threshold(good, 0.02)


def test_a_smaller_rate_is_a_higher_threshold_up_to_what_the_images_answer_for():
    good = np.random.default_rng(4).gamma(20.0, size=100)
    limits = [tail_threshold(good, rate) for rate in (0.2, 0.1, 0.05, 0.02, 0.01)]
    assert limits == sorted(limits)
    assert tail_threshold(good, 0.001) == tail_threshold(good, 1 / 101), "not followed beyond"
    point = operating_point(good, good, rate=0.001, promise="tail")
    assert (point.promised_rate, point.kept) == (1 / 101, False)


@pytest.mark.parametrize(
    ("scores", "rate"),
    [
        (np.arange(1.0, 10.0), 0.02),  # fewer than ten
        (np.arange(0.0, 40.0), 0.02),  # one is zero, and has no logarithm
        (np.ones(40), 0.02),  # none lies above another
        (np.arange(1.0, 41.0), 0.3),  # the rate lies below the tail
    ],
)
def test_where_there_is_no_tail_the_ranks_decide(scores, rate):
    by_rank = conformal_threshold(scores.tolist(), false_alarm_rate=rate)
    assert rate_threshold(scores.tolist(), false_alarm_rate=rate, promise="tail") == by_rank


def test_a_tail_of_equal_scores_is_still_above_them():
    scores = [1.0] * 36 + [2.0] * 4
    limit = tail_threshold(scores, 0.05)
    assert 1.0 < limit < math.inf


def test_intervals_shrink_with_the_number_of_images_and_hold_the_rate():
    assert not has_tail(9, 0.02)
    widths = []
    for count in (49, 200, 1000, 20_000):
        low, high = rate_interval(count, rate=0.02, promise="tail")
        by_rank = rate_interval(count, rate=0.02, promise="conformal")
        assert by_rank.low < low < 0.02 < high < by_rank.high, "all of the tail says more"
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)
    assert rate_interval(5, rate=0.02, promise="tail") == rate_interval(
        5, rate=0.02, promise="conformal"
    )
