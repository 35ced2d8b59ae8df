"""A low share of planted defects is said with its likely cause."""

from dataclasses import replace

import pytest

from edgeseg.base.messages import Message
from edgeseg.decision.score_origin import Promise
from edgeseg.teach.planted_warning import FEW_PARTS, planted_warnings, striking
from edgeseg.teach.report import FitReport, GoodScore


def report_of(
    scores: list[float],
    planted: list[float],
    *,
    foreign: int = 0,
    promise: Promise = "tail",
) -> FitReport:
    """Good pictures a.png, b.png ... of falling scores; the first are far from the others."""
    good = tuple(
        GoodScore(name=f"{chr(97 + at)}.png", score=score, peak=score, foreign=at < foreign)
        for at, score in enumerate(sorted(scores, reverse=True))
    )
    return FitReport(when="", images=len(good), good=good, planted=tuple(planted), promise=promise)


USUAL = [3.0 + 0.05 * at for at in range(24)]  # up to 4.15
PLANTED = [4.0 + 0.25 * at for at in range(40)]  # 1 of 40 below that


def test_two_defective_parts_among_good_ones_are_named_and_their_cost_is_said():
    report = report_of([*USUAL, 12.0, 9.0], PLANTED, foreign=2, promise="conformal")
    assert [item.name for item in striking(report, 12.0)] == ["a.png", "b.png", "c.png"]
    (warning,) = planted_warnings(report, [20]).values()
    assert warning == Message("planted_low_pictures", n=18, names="a.png, b.png", n_without=98)
    cleaned = replace(report, good=report.good[2:])
    assert planted_warnings(cleaned, [20]) == {20: None}


def test_two_below_the_threshold_that_they_set_are_asked_for_and_named():
    forty = [3.0 + 0.03 * at for at in range(38)]  # up to 4.11
    report = report_of([*forty, 4.5, 4.55], [4.0 + 0.03 * at for at in range(40)])
    threshold = report.point(20).score
    assert threshold > 4.55, "the tail of all scores lies above each of them"
    assert [item.name for item in striking(report, threshold)[:2]] == ["a.png", "b.png"]
    (warning,) = planted_warnings(report, [20]).values()
    assert warning is not None
    assert (warning.key, warning.values["names"]) == ("planted_low_pictures", "a.png, b.png")
    (warning,) = planted_warnings(report, [20], kept={"a.png", "b.png"}).values()
    assert warning is not None
    assert warning.key != "planted_low_pictures", "somebody has looked at them"


def test_all_pictures_of_a_part_are_asked_for_up_to_the_last_deciding_part():
    good = tuple(
        GoodScore(name=f"{part}{view}.png", score=part + view / 10, peak=1.0, part=part)
        for part in range(30)
        for view in range(3)
    )
    report = FitReport(when="", images=90, good=good, promise="tail")
    asked = [item.name for item in striking(report, 99.0)]
    assert asked == [f"{part}{view}.png" for part in (29, 28, 27) for view in (2, 1, 0)]


@pytest.mark.parametrize("promise", ["tail", "conformal"])
def test_a_single_picture_that_sets_the_threshold_is_named_though_it_looks_usual(promise):
    report = report_of([*USUAL, 8.0], PLANTED, promise=promise)
    (warning,) = planted_warnings(report, [10]).values()
    assert warning is None if promise == "tail" else warning.values["names"] == "a.png"


def test_a_picture_that_was_looked_at_and_kept_is_no_cause_to_look_for():
    report = report_of([*USUAL, 8.0], PLANTED, promise="conformal")
    (warning,) = planted_warnings(report, [20], kept={"a.png"}).values()
    assert warning is not None
    assert warning.key == "planted_low_vary"


def test_few_parts_are_the_cause_where_no_picture_is():
    report = report_of(USUAL[: FEW_PARTS - 1], [3.0] * 30 + [9.0] * 10)
    (warning,) = planted_warnings(report, [20]).values()
    assert warning == Message("planted_low_few", n=25, n_parts=FEW_PARTS - 1, n_few=FEW_PARTS)


def test_parts_that_differ_are_the_cause_and_a_rate_that_helps_is_named():
    spread = [3.0 + 0.05 * at for at in range(60)]  # up to 5.95
    report = report_of(spread, [5.505 + 0.01 * at for at in range(100)])
    warnings = planted_warnings(report, [20, 100, 200])
    assert warnings[20] == Message("planted_low_rate", n=2, n_rate=100.0, n_more=88)
    assert warnings[200] is None
    never = planted_warnings(replace(report, planted=(1.0,) * 9 + (20.0,)), [20])
    assert never == {20: Message("planted_low_vary", n=10)}


def test_what_is_found_well_and_what_is_not_known_is_no_warning():
    assert planted_warnings(report_of(USUAL, PLANTED), [20, 100]) == {20: None, 100: None}
    assert planted_warnings(report_of(USUAL, []), [20]) == {20: None}
