"""What one reader of results sees: valid until acknowledged, in order, never more than fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeseg.base.errors import EdgesegError
from edgeseg.runtime.events.codes import ErrorCode
from edgeseg.runtime.station.records import Job, StationResult, TriggerEvent
from edgeseg.runtime.station.result_buffer import ResultBuffer


def result(number: int) -> StationResult:
    event = TriggerEvent(trigger_id=number, origin="test", monotonic_ns=0, wall_s=0.0, job=Job())
    return StationResult(trigger=event, error=ErrorCode.TIMEOUT, wall_s=0.0, latency_ms=1.0)


def test_nothing_is_valid_before_the_first_result() -> None:
    assert ResultBuffer(2).view() == (None, False, False)
    assert ResultBuffer(2).acknowledge() is None


def test_buffered_results_wait_for_their_acknowledgement() -> None:
    buffer = ResultBuffer(2)
    assert [buffer.offer(result(n)) for n in (1, 2, 3)] == [True, True, False]
    assert (buffer.overruns, buffer.full) == (1, True)
    shown, valid, toggle = buffer.view()
    assert shown is not None
    assert (shown.trigger.trigger_id, valid, toggle) == (1, True, True)
    assert buffer.acknowledge() == shown
    after, valid, toggle = buffer.view()
    assert after is not None
    assert (after.trigger.trigger_id, valid, toggle) == (2, True, False)
    buffer.acknowledge()
    assert buffer.view() == (after, False, False)  # still there to see, and no longer valid


def test_unbuffered_the_newest_is_on_show() -> None:
    buffer = ResultBuffer(1, buffered=False)
    for number in (1, 2, 3):
        assert buffer.offer(result(number))
    shown, valid, toggle = buffer.view()
    assert shown is not None
    assert (shown.trigger.trigger_id, valid, toggle) == (3, True, True)
    assert not buffer.full


def test_no_room_at_all_is_a_mistake() -> None:
    with pytest.raises(EdgesegError, match="result_buffer=0: expected at least 1"):
        ResultBuffer(0)


@given(st.lists(st.booleans(), max_size=80), st.integers(1, 4))
def test_what_is_read_is_what_was_taken_in_order(offers, capacity) -> None:
    buffer, taken, read, number = ResultBuffer(capacity), [], [], 0
    for offer in offers:
        if offer:
            number += 1
            full = buffer.full
            assert buffer.offer(result(number)) == (not full)
            if not full:
                taken.append(number)
        elif (one := buffer.acknowledge()) is not None:
            read.append(one.trigger.trigger_id)
    assert read == taken[: len(read)]
    assert len(taken) - len(read) <= capacity
    assert buffer.overruns == number - len(taken)
