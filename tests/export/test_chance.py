"""Limits that follow the number of frames: against exact distributions, and what they refuse."""

import numpy as np
import pytest
from scipy.stats import binom

from edgeseg.decision.metrics import auroc
from edgeseg.export.chance import ERROR, loss_margin, most_by_chance


@pytest.mark.parametrize("count", [1, 8, 32, 128])
@pytest.mark.parametrize("share", [0.01, 0.07, 0.1, 0.5])
def test_the_quantile_of_the_binomial_distribution(share: float, count: int) -> None:
    assert most_by_chance(share, count) == binom.ppf(1 - ERROR, count, share)


def test_no_share_is_no_chance() -> None:
    assert most_by_chance(0.0, 100) == 0
    assert most_by_chance(1.0, 100) == 100


def test_more_frames_come_nearer_to_the_share() -> None:
    allowed = [most_by_chance(0.1, count) / count for count in (10, 40, 160, 640)]
    assert allowed == sorted(allowed, reverse=True)
    assert allowed[-1] == pytest.approx(0.1, abs=0.025)


def test_the_same_scores_differ_by_nothing() -> None:
    scores = np.random.default_rng(0).normal(size=40)
    assert loss_margin(scores, scores, good=20) == 0.0
    assert loss_margin(scores, np.exp(scores), good=20) == 0.0, "the same order"
    assert loss_margin(scores[:2], -scores[:2], good=1) == 0.0, "one of each shows no spread"


def test_the_margin_covers_what_chance_does() -> None:
    """Two scores of equal worth: nineteen of twenty losses are within the margin."""
    rng = np.random.default_rng(1)
    good, planted = 30, 30
    labels = np.repeat([0, 1], [good, planted])
    beyond = 0
    for _ in range(400):
        truth = labels * 1.2 + rng.normal(size=good + planted)
        wanted, candidate = (truth + 0.3 * rng.normal(size=truth.size) for _ in range(2))
        before, after = (auroc(scores, labels) or 0.0 for scores in (wanted, candidate))
        beyond += before - after > loss_margin(wanted, candidate, good=good)
    assert 0.02 <= beyond / 400 <= 0.09
