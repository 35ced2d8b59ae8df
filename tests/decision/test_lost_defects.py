"""What another threshold loses, and when one person alone must not decide it."""

from dataclasses import replace

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message
from edgeseg.decision.lost_defects import MAY_LOSE, MAY_RISE, Loss, loss_between

OLD = 7.48  # of a real model, which one wrong mark brought to 13.1
PLANTED = [OLD + 0.25 * step for step in range(1, 49)]  # 48 planted defects from 7.73 to 19.48


def test_what_is_lost_is_counted_among_what_was_found():
    loss = loss_between(OLD, 13.1, planted=[3.0, *PLANTED], known=[20.0, 5.0])
    assert (loss.planted_found, loss.planted_lost) == (48, 22)
    assert (loss.known_found, loss.known_lost) == (1, 0)
    assert loss.share == pytest.approx(22 / 48)
    told = Message("loss_share", n=22, n_all=48, n_share=100 * (22 / 48))
    assert (loss.asks, loss.sentence) == (True, told)


@pytest.mark.parametrize(
    ("new", "lost", "asks"),
    [(7.0, 0, False), (OLD, 0, False), (7.98, 2, False), (8.23, 3, True), (13.1, 22, True)],
)
def test_a_mark_near_the_threshold_is_taken_and_a_bold_one_asks(new, lost, asks):
    loss = loss_between(OLD, new, planted=PLANTED)
    assert (loss.planted_lost, loss.asks) == (lost, asks)


@pytest.mark.parametrize("planted", [[], PLANTED[-19:]])
def test_too_few_planted_defects_say_nothing_and_a_rise_asks(planted):
    near, bold = (loss_between(OLD, new, planted=planted) for new in (1.1 * OLD, 13.1))
    assert (near.share, bold.share) == (None, None)
    assert (near.asks, bold.asks) == (False, True)
    assert loss_between(OLD, MAY_RISE * OLD * 1.001, planted=planted).asks
    assert bold.sentence == Message("loss_few", n=len(planted), n_rise=13.1 / OLD)
    assert not loss_between(OLD, OLD / 2, planted=planted).asks
    assert loss_between(0.0, 1.0, planted=planted).asks  # a rise that has no factor


def test_a_known_bad_part_that_is_lost_asks_by_itself():
    loss = loss_between(OLD, 7.6, planted=PLANTED, known=[7.5, *PLANTED[:3]])
    assert (loss.known_found, loss.known_lost, loss.planted_lost) == (4, 1, 0)
    assert loss.asks
    share = Message("loss_share", n=0, n_all=len(PLANTED), n_share=0.0)
    assert loss.sentence == Message("loss_and_known", loss=share, n=1, n_all=4)


def test_small_losses_add_up():
    once = loss_between(OLD, 7.98, planted=PLANTED)
    again = replace(once, earlier_share=2 / 48)
    assert (once.asks, again.asks) == (False, True)
    assert again.sentence == Message("loss_earlier", loss=once.sentence, n=100 * (4 / 48))
    assert not replace(again, planted_lost=0).asks  # it takes nothing more away
    few = loss_between(OLD, 1.15 * OLD, planted=[])
    assert (few.asks, replace(few, earlier_rise=1.15).asks) == (False, True)


def test_the_share_is_a_setting():
    loss = loss_between(OLD, 13.1, planted=PLANTED, may_lose=0.5)
    assert not loss.asks
    assert replace(loss, may_lose=MAY_LOSE).asks
    assert loss_between(OLD, 7.75, planted=PLANTED, may_lose=0.0).asks
    for wrong in (-0.1, 1.0):
        with pytest.raises(UsageError, match="may_lose"):
            replace(loss, may_lose=wrong)
    with pytest.raises(UsageError, match="5 of 4 defects lost"):
        Loss(threshold_old=1.0, threshold_new=1.0, planted_found=4, planted_lost=5)
