"""What known defects are worth: rows of the table, and ways that see only what they may."""

import numpy as np
import pytest

from edgeseg.bench.choices.known import KindTrial, summary
from edgeseg.bench.choices.known_trials import WAYS, Scores, alarms_of


def trial(kind: str, way: str, same: float, *, others: float | None = 0.9) -> KindTrial:
    return KindTrial(
        category="gear", kind=kind, known=5, way=way, same=same, others=others, auroc=0.9,
        flagged=0.02, promised=0.02,
    )  # fmt: skip


def test_a_gain_is_of_kinds_that_were_missed():
    first, second = next(iter(WAYS)), "directions (ships)"
    trials = [
        trial("scratch", first, 0.5), trial("scratch", second, 0.75),
        trial("hole", first, 0.9, others=None), trial("hole", second, 0.8, others=None),
    ]  # fmt: skip
    before, after = summary(trials)
    assert (before.low, before.gain, before.high) == (0.5, 0.0, 0.9)
    assert (after.low, after.gain, after.high) == (0.75, 0.25, 0.8)
    assert after.lost == pytest.approx(0.0)
    assert after.kinds == "1 of 2"


def test_several_scores_share_the_rate():
    rng = np.random.default_rng(0)
    scores: list[Scores] = [(rng.lognormal(size=4000), rng.lognormal(size=4000)) for _ in range(2)]
    alone, _ = alarms_of(scores[:1], rate=0.05)
    together, halves = alarms_of(scores, rate=0.05)
    assert alone.mean() == pytest.approx(0.05, abs=0.02)
    assert together.mean() == pytest.approx(0.05, abs=0.02)
    assert halves.mean() == pytest.approx(0.05, abs=0.02)
