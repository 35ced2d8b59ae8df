"""Which marks are believed: agreement, supervisors, quota, and known defects."""

from dataclasses import replace

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message
from edgeseg.teach.alarms import Alarm
from edgeseg.teach.feedback import Feedback, Mark, Marked, new_mark
from edgeseg.teach.quarantine import quota, sort_out, without_worst
from tests.support.messages import says


def alarm(number: int) -> Alarm:
    return Alarm(
        id=f"{number:013d}-000000", when="", score=1.0, p_value=None, verdict="defect",
        threshold=1.0, box=None, width=4, height=3,
    )  # fmt: skip


def marked(*marks: str, number: int = 1) -> Marked:
    """`good Ann` is an operator's word, `good Ann!` a supervisor's."""
    made = []
    for text in marks:
        word, name = text.split()
        who = "supervisor" if name.endswith("!") else "operator"
        made.append(Mark(mark=word, who=who, name=name.rstrip("!"), when=""))
    return Marked(alarm=alarm(number), marks=tuple(made))


@pytest.mark.parametrize(
    ("marks", "said", "guarded"),
    [
        ([], "waiting", False),
        (["good Ann"], "waiting", False),
        (["good Ann", "good Bob"], "good", False),
        (["good Ann", "good ann"], "waiting", False),  # one person, typed twice
        (["good Ann!"], "good", False),
        (["defect Ann"], "waiting", True),
        (["defect Ann", "defect Bob"], "defect", True),
        (["good Ann", "good Bob", "defect Cid"], "contested", True),
        (["good Ann", "good Bob", "defect Cid!"], "defect", True),
        (["defect Ann", "defect Bob", "good Cid!"], "good", False),
        (["good Ann!", "defect Bob!"], "contested", True),  # and no order decides
        (["defect Ann!", "good Bob!"], "contested", True),
        (["good Ann!", "ignore Bob!"], "contested", False),
        (["good Ann!", "defect Ann!"], "defect", True),
        (["defect Ann!", "good Bob", "good Cid"], "defect", True),
        (["ignore Ann!"], "ignore", False),
    ],
)
def test_what_counts_of_several_marks(marks, said, guarded):
    item = marked(*marks)
    assert (item.said, item.guarded) == (said, guarded)


def names(*items: Marked) -> list[str]:
    return [item.alarm.id for item in items]


def test_two_operators_agree_and_one_supervisor_is_enough():
    two, boss, one = (
        marked("good Ann", "good Bob", number=1),
        marked("good Cid!", number=2),
        marked("good Ann", number=3),
    )
    scores = dict.fromkeys(names(two, boss, one), 5.0)
    chosen = sort_out([two, boss, one], scores, {}, fitted=60)
    assert list(chosen.learn) == names(two, boss)
    (held,) = chosen.held_back
    assert held.name == one.alarm.id
    assert held.reason == Message("held_waiting", word=Message("word_good"), n=2)


def test_what_scores_like_a_known_defect_is_held_back():
    mild, bold = marked("good Ann!", number=1), marked("good Ann!", number=2)
    scores = {mild.alarm.id: 4.9, bold.alarm.id: 5.0}
    chosen = sort_out([mild, bold], scores, {"scratch.png": 5.0, "hole.png": 9.0}, fitted=60)
    assert list(chosen.learn) == names(mild)
    reason = Message("held_like_defect", n=5.0, name="scratch.png", n_low=5.0)
    assert chosen.held_back[0].reason == reason


def test_a_learning_has_a_quota_and_the_oldest_come_first():
    items = [marked("good Ann!", number=number) for number in range(9)]
    scores = dict.fromkeys(names(*items), 1.0)
    chosen = sort_out(items, scores, {}, fitted=60)
    assert list(chosen.learn) == names(*items)[: quota(60)]
    assert quota(60) == 6
    assert all(held.reason == Message("held_quota", n=6) for held in chosen.held_back)
    assert len(chosen.held_back) == 3
    assert quota(5) == 2


def placed(box, *marks: str, number: int = 1) -> Marked:
    """Of a picture of 100 x 50 pixels."""
    item = marked(*(marks or ("ignore Ada!",)), number=number)
    return replace(item, alarm=replace(item.alarm, box=box, width=100, height=50))


def test_places_are_ignored_where_people_agree():
    boss, two, one = (
        placed((0, 0, 5, 5), number=1),
        placed((50, 0, 5, 5), "ignore Ann", "ignore Bob", number=2),
        placed((90, 0, 5, 5), "ignore Ann", number=3),
    )
    scores = dict.fromkeys(names(boss, two, one), 9.0)  # as much as a defect: it is not learned
    chosen = sort_out([boss, two, one], scores, {"scratch.png": 5.0}, fitted=60)
    assert (list(chosen.ignore), chosen.learn) == (names(boss, two), ())
    says(chosen.held_back[0].reason, "held_waiting", word=Message("word_ignore"))


def test_a_learning_ignores_a_tenth_of_the_picture_at_most():
    items = [
        placed((0, 0, 20, 20), number=1),  # 400 of 5000 pixels
        placed((5, 0, 15, 20), number=2),  # the same ones
        placed((40, 0, 5, 5), number=3),
        placed((60, 0, 20, 10), number=4),
        placed(None, number=5),
    ]
    scores = dict.fromkeys(names(*items), 1.0)
    chosen = sort_out(items, scores, {}, fitted=60)
    assert list(chosen.ignore) == names(*items[:3])
    reasons = [held.reason for held in chosen.held_back]
    assert reasons == [Message("held_too_much", n=14, n_most=10), Message("held_ignored")]
    assert sort_out(items, scores, {}, fitted=60, located=True).ignore == ()


def test_the_place_that_hides_most_is_left_out_first():
    items = [placed((0, 0, 5, 5), number=number) for number in range(2)]
    items.append(marked("good Ann!", number=2))
    scores = dict.fromkeys(names(*items), 1.0)
    chosen = sort_out(items, scores, {}, fitted=60)
    hidden = dict(zip(names(*items[:2]), (3.0, 7.0), strict=True))
    fewer = without_worst(chosen, scores, hidden, ["scratch.png"])
    assert (list(fewer.ignore), list(fewer.learn)) == (names(items[0]), names(items[2]))
    assert fewer.held_back[-1].reason == Message("held_hides", names="scratch.png")
    nothing = dict.fromkeys(hidden, 0.0)
    fewer = without_worst(fewer, scores, nothing, ["scratch.png"])
    assert (list(fewer.ignore), list(fewer.learn)) == (names(items[0]), [])
    assert without_worst(fewer, scores, nothing, ["scratch.png"]).empty


def test_a_score_that_is_no_number_is_never_learned():
    item = marked("good Ann!")
    chosen = sort_out([item], {item.alarm.id: float("nan")}, {}, fitted=60)
    assert chosen.learn == ()


def test_the_boldest_is_left_out_when_a_defect_would_be_lost():
    items = [marked("good Ann!", number=number) for number in range(3)]
    scores = dict(zip(names(*items), (3.0, 7.0, 5.0), strict=True))
    chosen = sort_out(items, scores, {}, fitted=60)
    fewer = without_worst(chosen, scores, {}, ["scratch.png"])
    assert list(fewer.learn) == [items[0].alarm.id, items[2].alarm.id]
    assert fewer.held_back[-1].reason == Message("held_lost", names="scratch.png")


def test_marks_are_kept_with_their_picture_and_a_later_word_replaces_an_earlier(tmp_path):
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"pixels")
    feedback = Feedback(tmp_path / "feedback")
    first = feedback.mark(alarm(1), picture, new_mark("good", who="operator", name=" Ann "))
    assert first.said == "waiting"
    basis = feedback.basis()
    feedback.mark(alarm(1), picture, new_mark("defect", who="operator", name="ann"))
    (item,) = feedback.items()
    assert [mark.mark for mark in item.marks] == ["defect"]
    assert feedback.basis() != basis
    assert feedback.picture(item.alarm.id).read_bytes() == b"pixels"
    (tmp_path / "feedback" / "0-damaged.json").write_text("{")
    assert len(feedback.items()) == 1
    feedback.forget(item.alarm.id)
    assert feedback.items() == []
    assert not feedback.picture(item.alarm.id).exists()


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (("fine", "operator", "Ann"), "expected good, defect or ignore"),
        (("good", "owner", "Ann"), "expected operator or supervisor"),
        (("good", "operator", "  "), "who says so"),
        (("good", "operator", "x" * 65), "who says so"),
        (("good", "operator", "a\nb"), "who says so"),
    ],
)
def test_a_mark_that_cannot_be_meant_is_refused(values, says):
    mark, who, name = values
    with pytest.raises(UsageError, match=says):
        new_mark(mark, who=who, name=name)
