"""What the Judge tab says of parts that were pictured more than once."""

from edgeseg.base.messages import Message
from edgeseg.decision.score_origin import ScoreOrigin
from edgeseg.decision.thresholds import Thresholds
from edgeseg.teach.judging import judge_facts
from edgeseg.teach.report import FitReport, GoodScore
from tests.support.messages import says


def report_of(*, parts: int, times: int) -> FitReport:
    good = tuple(
        GoodScore(
            name=f"{part}_{time}.png",
            score=part + time / 100,
            peak=2.0 * part + time,
            part=part if times > 1 else None,
        )
        for part in range(parts)
        for time in range(times)
    )
    return FitReport(when="", images=parts * times, good=good)


def chosen(*, parts: int, images: int, rate: float = 1 / 16) -> Thresholds:
    return Thresholds(
        score=parts - 1 + 0.07,
        pixel=3.0,
        false_alarm_rate=rate,
        requested_rate=0.02,
        origin=ScoreOrigin(kind="cross", folds=10),
        images=images,
        parts=parts,
        grouping="pictures" if parts < images else None,
    )


def test_a_part_counts_once_by_its_highest_picture() -> None:
    facts = judge_facts(report_of(parts=15, times=8), chosen(parts=15, images=120))
    assert (facts["images"], facts["parts"]) == (120, 15)
    row = next(row for row in facts["table"] if row["per_thousand"] == 20)
    assert not row["kept"]
    assert row["threshold"] == 14.07, "part 14, picture 7"
    assert row["promise"] == Message(
        "promise_parts", n=120, n_parts=15, n_can=62.5, n_needed=49, n_wish=20.0
    )
    copies = Message("guarantee_copies", n=120, n_parts=15)
    says(facts["guarantee"], "guarantee_spread", words=copies)
    assert str(facts["guarantee"]).endswith("; eight fits of ten alarm at 0.7 to 14 %")
    assert facts["worst"][0]["p_value"] == 2 / 16


def test_one_part_promises_nothing() -> None:
    facts = judge_facts(report_of(parts=1, times=30), chosen(parts=1, images=30, rate=1.0))
    (promise,) = (row["promise"] for row in facts["table"] if row["per_thousand"] == 20)
    assert promise == Message("promise_one_part", n=30, n_needed=49, n_wish=20.0)
    assert not any(row["kept"] for row in facts["table"])
    says(facts["guarantee"], "guarantee_none")


def test_pictures_of_different_parts_are_judged_as_ever() -> None:
    facts = judge_facts(report_of(parts=40, times=1), chosen(parts=40, images=40, rate=1 / 41))
    row = next(row for row in facts["table"] if row["per_thousand"] == 20)
    says(row["promise"], "promise_weak", n=40, n_wish=20.0)
    assert str(row["promise"]).startswith(
        "40 good pictures can only promise 24.4 of 1000 good parts"
    )
    assert facts["parts"] == 40
