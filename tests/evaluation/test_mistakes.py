"""Misses and false alarms of made-up verdicts, and the rate that would have done better."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeseg.decision.judgement import Verdict, verdict_on
from edgeseg.decision.metrics import auroc, f1_at
from edgeseg.decision.operating_point import conformal_threshold
from edgeseg.evaluation.evaluate import Evaluation
from edgeseg.evaluation.mistakes import (
    FINDS_ENOUGH,
    RATES,
    Mistake,
    error_of,
    limit_sentence,
    mistakes,
    mistakes_csv,
)
from tests.support.thresholds import made_up_thresholds

GOOD = tuple(float(score) for score in range(1, 100))  # 99 answer for 1 %, not for 0.5 %


def evaluation(
    good: list[float],
    bad: list[float],
    *,
    threshold: float,
    verdicts: tuple[Verdict, ...] = (),
) -> Evaluation:
    """What an evaluation says of these scores."""
    scores, labels = (*good, *bad), (*(0 for _ in good), *(1 for _ in bad))
    limits = made_up_thresholds(threshold, pixel=1.0)
    decision = f1_at(scores, labels, threshold=threshold)
    return Evaluation(
        dataset="made up",
        figures={"image_auroc": auroc(scores, labels), "recall": decision.recall},
        threshold=threshold,
        threshold_method="by hand",
        false_alarms=decision.false_positives,
        images=len(scores),
        anomalies=len(bad),
        seconds=0.0,
        scores=scores,
        labels=labels,
        paths=tuple(f"test/{place}.png" for place in range(len(scores))),
        kinds=tuple("dent" if label else "good" for label in labels),
        verdicts=verdicts or tuple(verdict_on(score, limits) for score in scores),
    )


def test_mistakes_are_listed_with_the_worst_first():
    tested = evaluation([10.0, 99.0, 120.0], [50.0, 98.0, 99.0, 150.0], threshold=99.0)
    assert mistakes(tested, GOOD) == (
        miss(50.0, 0.51, "test/3.png"),
        Mistake(
            error="false alarm",
            kind="good",
            verdict="defect",
            score=120.0,
            p_value=0.01,
            path="test/2.png",
        ),
        miss(98.0, 0.03, "test/4.png"),
        miss(99.0, 0.02, "test/5.png"),
    )


def miss(score: float, p_value: float, path: str) -> Mistake:
    return Mistake(
        error="miss", kind="dent", verdict="good", score=score, p_value=p_value, path=path
    )


@pytest.mark.parametrize(
    ("verdict", "of_good", "of_bad"),
    [
        ("good", None, "miss"),
        ("unsure", None, "miss"),
        ("defect", "false alarm", None),
        ("invalid", "false alarm", None),
        ("not_found", "false alarm", None),
    ],
)
def test_what_is_wrong_is_told_by_the_verdict(verdict: Verdict, of_good, of_bad):
    assert error_of(verdict, label=0) == of_good
    assert error_of(verdict, label=1) == of_bad


def test_alarms_that_no_threshold_would_take_back_come_first():
    verdicts: tuple[Verdict, ...] = ("invalid", "defect", "unsure", "not_found")
    tested = evaluation([60.0, 150.0], [50.0, 40.0], threshold=99.0, verdicts=verdicts)
    wrong = [(each.error, each.verdict, each.score) for each in mistakes(tested, GOOD)]
    assert wrong == [
        ("false alarm", "invalid", 60.0),
        ("false alarm", "defect", 150.0),
        ("miss", "unsure", 50.0),
    ]
    assert tested.ranks == (301.0, 150.0, 50.0, 301.0)


def test_they_are_counted_at_every_other_rate_too():
    bad = [97.5] * 9 + [50.0]
    told: tuple[Verdict, ...] = ("invalid", *(["good"] * (len(LOW) - 1 + len(bad))))
    sentence = limit_sentence(
        evaluation(LOW, bad, threshold=99.0, verdicts=told), GOOD, promise="conformal", model="m"
    )
    assert "and flag 1 of 40 good test images" in str(sentence)


@given(st.lists(st.tuples(st.floats(0, 9), st.booleans()), min_size=1), st.floats(0, 9))
@settings(max_examples=50)
def test_as_many_mistakes_as_the_figures_say(rows: list[tuple[float, bool]], threshold: float):
    good = [score for score, bad in rows if not bad]
    bad = [score for score, bad in rows if bad]
    errors = [each.error for each in mistakes(evaluation(good, bad, threshold=threshold), GOOD)]
    decision = f1_at(good + bad, [0] * len(good) + [1] * len(bad), threshold=threshold)
    assert errors.count("miss") == decision.false_negatives
    assert errors.count("false alarm") == decision.false_positives


def test_csv_holds_every_mistake():
    tested = evaluation([120.0], [50.0], threshold=99.0)
    rows = list(csv.DictReader(io.StringIO(mistakes_csv(mistakes(tested, GOOD)))))
    assert rows == [
        {
            "error": "miss", "kind": "dent", "verdict": "good", "score": "50.0",
            "p_value": "0.51", "path": "test/1.png",
        },
        {
            "error": "false alarm", "kind": "good", "verdict": "defect", "score": "120.0",
            "p_value": "0.01", "path": "test/0.png",
        },
    ]  # fmt: skip
    assert mistakes_csv(()) == "error,kind,verdict,score,p_value,path\n"


# --- what limits a model -----------------------------------------------------------------------

LOW = [float(score) for score in range(40)]  # good test images: one in forty above 38


def test_the_lowest_rate_that_finds_enough_is_named():
    bad = [97.5] * 5 + [96.5] * 4 + [50.0]
    sentence = limit_sentence(
        evaluation(LOW, bad, threshold=99.0), GOOD, promise="conformal", model="part.edgeseg"
    )
    # 2 % is a threshold of 98, 5 % one of 95: nine of ten are above it.
    assert sentence == (
        "ranks well (image AUROC 1.00) but finds 0% at its threshold: at a false-alarm rate of "
        "5.0% it would find 90% and flag 0 of 40 good test images "
        "(edgeseg threshold part.edgeseg --rate 0.05)"
    )


def test_what_good_test_images_would_pay_is_said():
    bad = [92.0] * 9 + [99.5]
    sentence = limit_sentence(
        evaluation([*LOW, 91.0], bad, threshold=99.0),
        GOOD,
        promise="conformal",
        model="part.edgeseg",
    )
    assert "but finds 10% at its threshold: at a false-alarm rate of 10.0% " in str(sentence)
    assert "it would find 100% and flag 1 of 41 good test images" in str(sentence)


def test_where_no_rate_finds_enough_the_one_that_finds_most_is_named():
    bad = [97.5] * 3 + [50.0] * 7
    sentence = limit_sentence(
        evaluation(LOW, bad, threshold=99.0), GOOD, promise="conformal", model="m"
    )
    assert "at a false-alarm rate of 5.0% it would find 30% " in str(sentence)  # 10 % no more


def test_where_no_rate_helps_that_is_said():
    tested = evaluation(LOW, [50.0] * 9 + [120.0], threshold=99.0)
    assert limit_sentence(tested, GOOD, promise="conformal", model="m") == (
        "ranks well (image AUROC 1.00) but finds 10% at its threshold, and no false-alarm rate up "
        "to 10% that its 99 good images can answer for finds more: fit on more of them, or look "
        "for odd ones among them (edgeseg fit DATA --robust)"
    )
    # Eight images cannot even answer for 10 %.
    assert "its 8 good images" in str(
        limit_sentence(tested, GOOD[:8], promise="conformal", model="m")
    )


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (LOW, [120.0] * 4 + [50.0]),  # finds enough
        ([98.0] * 40, [97.5] * 5),  # ranks badly: another threshold is no remedy
        (LOW, []),
        ([], [50.0]),
    ],
)
def test_nothing_is_said_where_the_threshold_is_not_what_limits(good, bad):
    assert (
        limit_sentence(evaluation(good, bad, threshold=99.0), GOOD, promise="conformal", model="m")
        is None
    )


@given(st.lists(st.floats(40, 120), min_size=1, max_size=30), st.integers(9, 300))
@settings(max_examples=100)
def test_the_rate_is_the_one_a_search_finds(bad: list[float], count: int):
    good = np.linspace(1, 99, count, dtype=np.float32)
    tested = evaluation(LOW, bad, threshold=99.0)
    recalls = {}
    for rate in RATES:
        chosen = conformal_threshold(good.tolist(), false_alarm_rate=rate)
        if chosen.rate <= rate:
            recalls[rate] = np.mean(np.array(bad) > chosen.value)
    sentence = limit_sentence(tested, good, promise="conformal", model="m")
    if tested.recall >= FINDS_ENOUGH:
        assert sentence is None
        return
    enough = [rate for rate, recall in recalls.items() if recall >= FINDS_ENOUGH]
    most = max(recalls.values(), default=0)
    wanted = min(enough) if enough else min(r for r in recalls if recalls[r] == most)
    if most > tested.recall:
        assert f"--rate {wanted:g})" in sentence
        assert f"would find {recalls[wanted]:.0%} " in sentence
    else:
        assert "--rate" not in sentence
