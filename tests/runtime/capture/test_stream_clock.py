"""Age by the times in a stream: bursts, clocks that drift, readers that are too slow."""

import pytest

from edgeseg.base.errors import RuntimeFailure
from edgeseg.runtime.capture.liveness import Arrival
from edgeseg.runtime.capture.stream_clock import LATE_S, StreamClock

STEP_S = 0.04


def arrival(now_s: float, *, waited: bool = False) -> Arrival:
    return Arrival(now_s, 0.0, STEP_S if waited else 0.0)


def settled(**options: float) -> StreamClock:
    """At 100 s the stream's time is 1 s, and it is known that such a frame is prompt."""
    clock = StreamClock(99.0, **options)  # type: ignore[arg-type]
    for index in range(-10, 1):
        clock.earliest_exposure_s(arrival(100 + STEP_S * index), 1 + STEP_S * index)
    return clock


def age_s(clock: StreamClock, now_s: float, time_s: float) -> float:
    exposed_s = clock.earliest_exposure_s(arrival(now_s), time_s)
    assert exposed_s is not None
    return now_s - exposed_s


def test_a_frame_is_as_old_as_it_lags_behind_the_promptest() -> None:
    clock = settled()
    assert age_s(clock, 100.04, 1.04) == pytest.approx(0.0, abs=1e-3)
    # Three seconds of silence, then what was sent meanwhile, all at once.
    ages = [age_s(clock, 103.04, 1.08 + 0.04 * i) for i in range(75)]
    assert ages[0] == pytest.approx(2.96, abs=0.01)
    assert ages[-1] == pytest.approx(0.0, abs=0.01)
    assert ages == sorted(ages, reverse=True)


def test_what_opening_has_kept_is_as_old_as_the_opening() -> None:
    clock = StreamClock(100.0)
    burst = [clock.earliest_exposure_s(arrival(102 + 0.002 * i), STEP_S * i) for i in range(1, 51)]
    assert set(burst) == {100.0}
    live = [clock.earliest_exposure_s(arrival(103 + STEP_S * i), 3 + STEP_S * i) for i in range(20)]
    assert live[0] == 100.0
    assert live[-1] == pytest.approx(103 + STEP_S * 19)


def test_a_frame_that_comes_after_the_next_or_twice_is_as_old_as_its_time() -> None:
    clock = settled()
    assert age_s(clock, 100.08, 1.08) == pytest.approx(0.0, abs=1e-3)
    assert age_s(clock, 100.09, 1.04) == pytest.approx(0.05, abs=1e-3)
    assert age_s(clock, 100.12, 1.08) == pytest.approx(0.04, abs=1e-3)
    assert age_s(clock, 100.13, 1.12) == pytest.approx(0.01, abs=1e-3)


def test_a_stream_that_begins_anew_or_has_no_times() -> None:
    clock = settled()
    assert clock.earliest_exposure_s(arrival(500.0), 0.0) is None
    last_s = clock.earliest_exposure_s(arrival(500.0), 401.0)
    assert last_s == pytest.approx(500.0, abs=0.1)
    assert clock.earliest_exposure_s(arrival(500.04), 0.04) == last_s, "not before the last one"
    new = [
        clock.earliest_exposure_s(arrival(500.04 + STEP_S * i), 0.04 + STEP_S * i)
        for i in range(1, 12)
    ]
    assert new[-1] == pytest.approx(500.04 + STEP_S * 11)


@pytest.mark.parametrize("slow", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("duration_s", [600, 36_000])
def test_a_reader_that_is_too_slow_hides_nothing(slow: float, duration_s: int) -> None:
    """Every read takes a little longer than the camera, so ever more waits for it."""
    step_s = 0.5  # as a camera of two frames a second: ten hours in an instant
    hidden_s, opened, said = 0.0, 1, ""
    begun_s, now_s, clock = 0.0, 1000.0, StreamClock(1000.0, patience_s=5.0)
    frame = 1
    while now_s < 1000.0 + duration_s:
        exposed_s = 1000.0 + begun_s + frame * step_s  # the truth
        now_s = max(now_s + step_s * (1 + slow), exposed_s)
        try:
            told_s = clock.earliest_exposure_s(arrival(now_s), frame * step_s)
        except RuntimeFailure as error:  # lost, and opened anew
            said = str(error)
            clock, opened = StreamClock(now_s, patience_s=5.0), opened + 1
            begun_s, frame = now_s - 1000.0, 1
            continue
        assert told_s is not None
        hidden_s = max(hidden_s, told_s - exposed_s)
        frame += 1
    assert hidden_s < 0.26, "seconds that a frame is older than it says"
    late_after_s = (LATE_S + 0.25) / slow + 60
    assert (opened > 1) == (duration_s > late_after_s)
    assert opened == 1 or said.startswith("its frames have come more than 1 s late for 5.")


@pytest.mark.parametrize("drift", [1e-4, -1e-4])
def test_crystals_that_drift_apart_make_nothing_old_where_reads_wait(drift: float) -> None:
    clock = StreamClock(1000.0, patience_s=5.0)
    for frame in range(1, 36_000):
        now_s = 1000.0 + frame
        told_s = clock.earliest_exposure_s(Arrival(now_s, 0.0, 0.9), frame * (1 + drift))
        assert told_s is not None
        if frame > 20:
            assert now_s - told_s == pytest.approx(0.0, abs=1e-3)
