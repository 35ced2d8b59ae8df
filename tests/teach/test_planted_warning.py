"""A low share of planted defects is said with its likely cause."""

from dataclasses import replace

from edgeseg.base.messages import Message
from edgeseg.teach.planted_warning import FEW_PARTS, planted_warnings, striking
from edgeseg.teach.report import FitReport, GoodScore


def report_of(scores: list[float], planted: list[float], *, foreign: int = 0) -> FitReport:
    """Good pictures a.png, b.png ... of falling scores; the first are far from the others."""
    good = tuple(
        GoodScore(name=f"{chr(97 + at)}.png", score=score, peak=score, foreign=at < foreign)
        for at, score in enumerate(sorted(scores, reverse=True))
    )
    return FitReport(when="", images=len(good), good=good, planted=tuple(planted))


USUAL = [3.0 + 0.05 * at for at in range(24)]  # up to 4.15
PLANTED = [4.0 + 0.25 * at for at in range(40)]  # 1 of 40 below that


def test_two_defective_parts_among_good_ones_are_named_and_their_cost_is_said():
    report = report_of([*USUAL, 12.0, 9.0], PLANTED, foreign=2)
    assert [item.name for item in striking(report, 12.0)] == ["a.png", "b.png"]
    (warning,) = planted_warnings(report, [20]).values()
    assert warning == Message("planted_low_pictures", n=18, names="a.png, b.png", n_without=98)
    cleaned = replace(report, good=report.good[2:])
    assert planted_warnings(cleaned, [20]) == {20: None}


def test_a_single_picture_that_sets_the_threshold_is_named_though_it_looks_usual():
    report = report_of([*USUAL, 8.0], PLANTED)
    (warning,) = planted_warnings(report, [20]).values()
    assert warning is not None
    assert (warning.key, warning.values["names"]) == ("planted_low_pictures", "a.png")


def test_a_picture_that_was_looked_at_and_kept_is_no_cause_to_look_for():
    report = report_of([*USUAL, 8.0], PLANTED)
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
    assert warnings[20] == Message("planted_low_rate", n=55, n_rate=100.0, n_more=80)
    assert warnings[200] is None
    never = planted_warnings(replace(report, planted=(1.0,) * 9 + (20.0,)), [20])
    assert never == {20: Message("planted_low_vary", n=10)}


def test_what_is_found_well_and_what_is_not_known_is_no_warning():
    assert planted_warnings(report_of(USUAL, PLANTED), [20, 100]) == {20: None, 100: None}
    assert planted_warnings(report_of(USUAL, []), [20]) == {20: None}
