"""Which frames are new where nothing but their arrival is known."""

import random

import pytest

from edgeseg.runtime.capture.liveness import Arrival, Arrivals

PERIOD_S = 0.1
OPENED_S = 100.0


class Stream:
    """Feeds arrivals, and has the last answer."""

    def __init__(self, *, settled: bool = True) -> None:
        self.arrivals, self.now_s = Arrivals(OPENED_S), OPENED_S
        self.exposed_s = OPENED_S
        if settled:
            self.feed([PERIOD_S] * 40)
            assert self.is_new

    def feed(self, intervals: list[float], *, waited: bool = True) -> list[bool]:
        """Whether each frame that comes so long after the one before is taken as new."""
        new = []
        for interval in intervals:
            self.now_s += interval
            waited_s = interval if waited else 0.0
            self.exposed_s = self.arrivals.earliest_exposure_s(Arrival(self.now_s, 0.0, waited_s))
            new.append(self.is_new)
        return new

    @property
    def is_new(self) -> bool:
        return self.now_s - self.exposed_s < PERIOD_S / 2


def test_nothing_is_new_until_the_stream_has_a_pace() -> None:
    stream = Stream(settled=False)
    new = stream.feed([PERIOD_S] * 12)
    assert new == [False] * 8 + [True] * 4
    assert stream.exposed_s == stream.now_s


def test_until_then_a_frame_is_as_old_as_the_opening() -> None:
    stream = Stream(settled=False)
    stream.feed([PERIOD_S] * 5)
    assert stream.exposed_s == OPENED_S


def test_what_opening_has_read_ahead_is_drained_however_evenly() -> None:
    """Two seconds of looking at the stream; then twenty frames at once, a decoder's pace apart."""
    stream = Stream(settled=False)
    assert not any(stream.feed([2.0] + [0.005] * 19))
    assert not any(stream.feed([PERIOD_S] * 7))
    assert stream.feed([PERIOD_S] * 2)[-1]


@pytest.mark.parametrize("drained_s", [0.001, 0.03, 0.07, 0.085])
def test_after_a_gap_nothing_is_new_that_comes_faster_than_the_camera_takes_it(
    drained_s: float,
) -> None:
    stream = Stream()
    last_s = stream.now_s
    backlog = int(1.6 / (PERIOD_S - drained_s))
    assert not any(stream.feed([1.6] + [drained_s] * backlog))
    assert stream.exposed_s == last_s, "not before the last that was new"
    assert stream.feed([PERIOD_S] * 20)[-1]


def test_a_camera_that_dropped_frames_meanwhile_is_new_at_its_pace() -> None:
    stream = Stream()
    new = stream.feed([1.6] + [PERIOD_S] * 8)
    assert new == [False] * 8 + [True]


def test_jitter_is_no_gap_and_a_late_frame_is_as_much_older() -> None:
    stream = Stream()
    due_s = stream.now_s + PERIOD_S
    stream.feed([PERIOD_S * 1.4])
    assert stream.exposed_s == pytest.approx(due_s, abs=1e-6)
    assert stream.feed([PERIOD_S * 0.6]) == [True]
    chance = random.Random(1)
    shaky_s, before_s = [], 0.0
    for _ in range(2000):
        late_s = abs(chance.gauss(0, 0.01))
        shaky_s.append(PERIOD_S + late_s - before_s)
        before_s = late_s
    assert sum(stream.feed(shaky_s)) > 1980


def test_a_reader_that_never_waits_has_frames_waiting_for_it() -> None:
    stream = Stream()
    new = stream.feed([PERIOD_S * 1.01] * 30, waited=False)
    assert new[0], "one alone says nothing"
    assert not any(new[9:])
    assert not any(stream.feed([PERIOD_S * 1.01] * 100, waited=False)), "and never again"
    assert stream.feed([PERIOD_S] * 10)[-1], "until it has to wait"


def test_another_rate_is_learned() -> None:
    stream = Stream()
    assert stream.feed([2 * PERIOD_S] * 9)[-1], "half as often"
    assert stream.feed([PERIOD_S] * 100)[-1], "and back"
    new = stream.feed([PERIOD_S / 10] * 600)
    assert not any(new[10:400]), "ten times as often might be what has waited"
    assert new[-1], "but not for so long"


def test_a_camera_without_a_pace_is_never_new() -> None:
    stream = Stream(settled=False)
    assert not any(stream.feed([0.4, 0.03, 0.1, 0.9, 0.02] * 50))


def test_frames_that_come_too_early_have_waited_unseen() -> None:
    stream = Stream()
    last_s = stream.now_s
    stream.feed([0.001] * 12)
    assert stream.exposed_s == last_s
    assert stream.feed([PERIOD_S] * 9)[-1]
