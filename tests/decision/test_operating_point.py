"""Thresholds, promises and p-values from the scores of good parts."""

import math
from dataclasses import replace

import numpy as np
import pytest

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message
from edgeseg.decision.operating_point import (
    RATES,
    by_rate,
    by_value,
    conformal_threshold,
    guarantee,
    interval_words,
    needed_images,
    oddness,
    operating_point,
    p_value,
    rate_interval,
    spread_table,
    with_band,
)
from edgeseg.decision.score_origin import ScoreOrigin, ThresholdChoice
from tests.support import REPO
from tests.support.thresholds import made_up_thresholds


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.1, 0.5])
@pytest.mark.parametrize("count", [1, 5, 19, 99, 100, 250])
def test_a_new_good_part_exceeds_it_at_most_as_often_as_promised(count, rate):
    """The rank of a new score among n + 1 exchangeable ones is uniform: counted, not simulated."""
    chosen = conformal_threshold(range(count), false_alarm_rate=rate)
    exceeding = sum(1 for score in range(count + 1) if score - 0.5 > chosen.value)
    assert exceeding / (count + 1) <= max(rate, 1 / (count + 1)) + 1e-12
    assert (chosen.rate > rate) == (count < needed_images(rate))


def test_the_images_that_a_rate_needs():
    assert [needed_images(rate) for rate in RATES] == [199, 99, 49, 19]
    assert conformal_threshold(range(99), false_alarm_rate=0.01).rate == 0.01
    assert conformal_threshold(range(98), false_alarm_rate=0.01).rate == pytest.approx(1 / 99)


def test_a_p_value_is_valid_and_counts_ties_as_odd():
    good = np.arange(99.0)
    values = [p_value(score, good) for score in np.arange(-0.5, 99.5)]
    for level in (0.01, 0.05, 0.2):
        assert np.mean(np.asarray(values) <= level) <= level + 1e-12
    assert p_value(98.0, good) == 0.02, "one good part was as odd"
    assert p_value(1e9, good) == p_value(float("nan"), good) == 0.01, "the oddest that can be"
    assert p_value(-1.0, good) == 1.0
    assert p_value(3.0, []) == 1.0, "nothing is known"


def test_p_value_and_threshold_are_the_same_decision():
    good = np.random.default_rng(0).gamma(3.0, size=157)
    for rate in RATES[1:]:
        limit = conformal_threshold(good.tolist(), false_alarm_rate=rate).value
        for score in np.random.default_rng(1).gamma(4.0, size=200):
            assert (score > limit) == (p_value(float(score), good) <= rate)


def test_an_operating_point_says_its_promise_and_its_price():
    good, peaks = np.arange(100.0), np.arange(100.0) * 2
    point = operating_point(
        good, peaks, promise="conformal", rate=0.05, planted=[90.0, 97.0, 200.0, np.inf]
    )
    assert (point.score, point.pixel) == (95.0, 190.0)
    assert (point.promised_rate, point.kept, point.images, point.needed) == (0.05, True, 100, 19)
    assert (point.recall, point.exceeding) == (0.75, 4)
    scarce = operating_point(good[:10], peaks[:10], promise="conformal", rate=0.005)
    assert (scarce.kept, scarce.promised_rate, scarce.needed) == (False, pytest.approx(1 / 11), 199)
    assert (scarce.score, scarce.recall) == (9.0, None)


def test_how_odd_a_score_is_among_forty_good_parts():
    good = np.arange(1.0, 41.0)

    def said(score):
        return oddness(p_value(score, good), good.size)

    # The largest of them all, however large: forty parts know of no more than that.
    assert said(40.5) == said(1e6) == said(math.nan) == Message("odd_above_all", n=40)
    assert said(40.0) == said(39.5) == Message("odd_one_in", n=20)
    assert said(1.0) == said(-5.0) == Message("odd_not")


def test_no_promise_hangs_on_the_form_of_a_share():
    for parts in range(2, 3000):
        assert oddness(1 / (parts + 1), parts).key == "odd_above_all"
        assert oddness(2 / (parts + 1), parts).key != "odd_above_all"


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, float("nan")])
def test_rates_that_are_none(rate):
    with pytest.raises(UsageError, match="expected above 0 and below 1"):
        conformal_threshold([1.0], false_alarm_rate=rate)


def test_no_scores():
    with pytest.raises(UsageError, match="no scores of good images"):
        conformal_threshold([], false_alarm_rate=0.1)


STORED = made_up_thresholds(10.0, pixel=8.0, false_alarm_rate=0.05)
GOOD = [float(score) for score in range(100)]


def test_another_rate_keeps_the_origin_of_the_scores():
    twice = STORED
    for rate in (0.02, 0.05):
        twice = by_rate(twice, operating_point(GOOD, GOOD, promise="conformal", rate=rate))
    assert (twice.score, twice.pixel, twice.requested_rate) == (95.0, 95.0, 0.05)
    assert twice.method == "split-conformal, 100 good images; chosen for 5 % false alarms"
    assert (twice.origin, twice.choice) == (STORED.origin, ThresholdChoice(by="rate", number=0.05))


ESTIMATE = "an estimate: these scores do not come from images"


@pytest.mark.parametrize(
    ("kind", "key", "words"),
    [
        ("split", "guarantee_split", "exact (split conformal): a new good part exceeds it at most"),
        ("cross", "guarantee_cross", "not exact (cross conformal): every image was judged by"),
        ("earlier", "guarantee_estimate", ESTIMATE),
        ("best_f1", "guarantee_estimate", ESTIMATE),
    ],
)
def test_what_is_known_of_a_promise_hangs_on_the_origin(kind, key, words):
    chosen = by_rate(STORED, operating_point(GOOD, GOOD, promise="conformal", rate=0.02))
    said = guarantee(replace(chosen, origin=ScoreOrigin(kind=kind)))
    assert said == Message(key)
    assert str(said).startswith(words)


def test_what_the_tail_decided_is_not_called_exact():
    stored = replace(STORED, promise="tail", origin=ScoreOrigin(kind="split"))
    chosen = by_rate(stored, operating_point(GOOD, GOOD, promise="tail", rate=0.02))
    assert (chosen.promise, chosen.by_tail, guarantee(chosen)) == (
        "tail",
        True,
        Message("guarantee_tail"),
    )
    assert ", by their tail" in chosen.method
    by_hand = by_value(chosen, GOOD, 89.0)
    assert (by_hand.by_tail, guarantee(by_hand)) == (False, Message("guarantee_split"))
    again = by_rate(by_hand, operating_point(GOOD, GOOD, promise="conformal", rate=0.02))
    assert (again.by_tail, guarantee(again)) == (False, Message("guarantee_split"))
    too_few = replace(chosen, images=8, parts=8, false_alarm_rate=1 / 9)
    assert not too_few.by_tail, "eight scores have no tail: their ranks decided"


def test_a_value_says_what_it_answers_for():
    chosen = by_value(STORED, GOOD, 89.0)
    assert (chosen.score, chosen.pixel) == (89.0, pytest.approx(8.0 * 8.9))
    assert chosen.false_alarm_rate == 11 / 101, "ten good images exceed it"
    for value in (-1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="expected a number from 0"):
            by_value(STORED, GOOD, value)


def test_a_band_lies_below_the_threshold():
    chosen = by_rate(STORED, operating_point(GOOD, GOOD, promise="conformal", rate=0.01))
    banded = with_band(chosen, GOOD, rate=0.05)
    assert (banded.unsure, banded.unsure_rate, banded.score) == (95.0, 0.05, chosen.score)
    for rate in (0.01, 0.005):
        with pytest.raises(UsageError, match=r"expected above 0\.01, the rate of the threshold"):
            with_band(chosen, GOOD, rate=rate)


def test_too_few_images_are_told():
    point = operating_point(GOOD[:20], GOOD[:20], promise="conformal", rate=0.01)
    assert point.shortfall == (
        "20 good images answer for a false-alarm rate of 4.8%, not 1.0%; 99 would do"
    )
    assert operating_point(GOOD, GOOD, promise="conformal", rate=0.01).shortfall is None


def test_pictures_are_told_from_parts():
    point = operating_point(GOOD[:15], GOOD[:15], promise="conformal", rate=0.02, pictures=120)
    assert point.shortfall == (
        "120 good images of 15 different parts answer for a false-alarm rate of 6.2%, not 2.0%; "
        "49 different parts would do"
    )
    alone = operating_point(GOOD[:15], GOOD[:15], promise="conformal", rate=0.02)
    assert str(alone.shortfall).startswith("15 good images answer for")


def test_exact_is_withheld_from_guesses_and_from_a_handful():
    grouped = replace(STORED, images=120, parts=15, grouping="pictures")
    assert guarantee(grouped) == Message("guarantee_copies", n=120, n_parts=15)
    assert str(guarantee(grouped)).startswith("not exact: near-copies among 120 good images")
    assert guarantee(replace(grouped, grouping="told")) == Message("guarantee_split")
    assert guarantee(replace(STORED, images=4, parts=4)) == Message("guarantee_few", n=4)
    assert str(guarantee(replace(STORED, images=4, parts=4))).startswith("a guess: 4 different")
    assert guarantee(replace(STORED, false_alarm_rate=1.0)) == Message("guarantee_none")
    assert str(guarantee(replace(STORED, false_alarm_rate=1.0))).startswith("no promise")


def test_how_a_promise_varies_from_fit_to_fit():
    """Brute force: the true rate above the m-th highest of n uniform scores, over many fits."""
    rng = np.random.default_rng(0)
    for count, rate in ((49, 0.02), (49, 0.1), (200, 0.02)):
        fits = np.sort(rng.random((20_000, count)), axis=1)
        rank = math.ceil(round((count + 1) * (1 - rate), 9))
        true = 1 - fits[:, rank - 1]
        assert np.mean(true) == pytest.approx(rate, rel=0.05)
        found = rate_interval(count, rate=rate, promise="conformal")
        assert found == pytest.approx(np.quantile(true, [0.1, 0.9]), rel=0.05)
    assert interval_words(49, rate=0.02, promise="conformal") == (
        "from fit to fit it varies: eight fits of ten alarm at 0.21 % to 4.6 %"
    )


def test_the_table_of_the_method_is_what_the_function_makes():
    rows = [f"| {' | '.join(row)} |" for row in spread_table()]
    text = (REPO / "docs" / "decisions.md").read_text(encoding="utf-8")
    for row in rows:
        assert row in text
