"""Every frame is counted once, whatever threads do."""

import threading
import time

import pytest

from edgeseg.runtime.capture.frame_buffer import Frame, FrameBuffer, Policy
from tests.doubles.fakes import grey
from tests.support import HANGS_S

IMAGE = grey(1, (2, 2))


def frame(index: int, source: int = 0) -> Frame:
    return Frame(
        source_index=source,
        frame_index=index,
        image_hwc=IMAGE,
        channels="rgb",
        grabbed_ns=time.monotonic_ns(),
        wall_s=0.0,
    )


def indices(taken: list[tuple[Frame, int]]) -> list[int]:
    return [item.frame_index for item, _ in taken]


def test_latest_keeps_the_newest_and_counts_the_others() -> None:
    buffer = FrameBuffer(["latest"], queue_size=8)
    for index in range(5):
        buffer.put(frame(index))
    assert indices(buffer.take(1, timeout_s=0)) == [4]
    assert buffer.take(1, timeout_s=0) == [], "a frame is taken once"
    counters = buffer.counters(0)
    assert (counters.frames_in, dict(counters.dropped)) == (5, {"replaced": 4})


def test_queue_keeps_order_and_drops_the_oldest() -> None:
    buffer = FrameBuffer(["queue"], queue_size=3)
    for index in range(5):
        buffer.put(frame(index))
    assert [indices(buffer.take(1, timeout_s=0)) for _ in range(4)] == [[2], [3], [4], []]
    assert dict(buffer.counters(0).dropped) == {"queue_full": 2}


def test_every_waits_for_room_and_drops_nothing() -> None:
    buffer = FrameBuffer(["every"], queue_size=2)
    writer = threading.Thread(target=lambda: [buffer.put(frame(index)) for index in range(50)])
    writer.start()
    seen: list[int] = []
    while len(seen) < 50:
        seen += indices(buffer.take(1, timeout_s=5))
    writer.join(HANGS_S)
    assert seen == list(range(50))
    assert buffer.counters(0).dropped.total() == 0


def test_close_frees_a_waiting_reader_and_counts_what_was_left() -> None:
    buffer = FrameBuffer(["every"], queue_size=2)
    writer = threading.Thread(target=lambda: [buffer.put(frame(index)) for index in range(5)])
    writer.start()
    assert indices(buffer.take(1, timeout_s=5)) == [0]
    buffer.count_scored(0)
    while buffer.counters(0).frames_in < 4:  # two wait, one is in the reader's hands
        time.sleep(0.001)
    buffer.close()
    writer.join(HANGS_S)
    assert not writer.is_alive()
    counters = buffer.counters(0)
    assert (counters.frames_in, counters.scored) == (5, 1)
    assert dict(counters.dropped) == {"shutdown": 4}


def test_a_frame_under_way_when_the_run_fails_is_not_lost_from_the_count() -> None:
    buffer = FrameBuffer(["latest"], queue_size=8)
    buffer.put(frame(0))
    buffer.take(1, timeout_s=0)
    buffer.close()
    assert dict(buffer.counters(0).dropped) == {"failed": 1}


def test_take_gives_one_frame_of_each_source_and_starves_none() -> None:
    buffer = FrameBuffer(["queue"] * 3, queue_size=10)
    for index in range(4):
        for source in range(3):
            buffer.put(frame(index, source))
    order = [[item.source_index for item, _ in buffer.take(2, timeout_s=0)] for _ in range(6)]
    assert order == [[0, 1], [2, 0], [1, 2]] * 2
    assert buffer.take(2, timeout_s=0) == []


def test_exhausted_when_all_sources_ended_and_nothing_waits() -> None:
    buffer = FrameBuffer(["every", "every"], queue_size=8)
    buffer.put(frame(0, 1))
    buffer.finish(0)
    assert not buffer.exhausted
    buffer.finish(1)
    assert not buffer.exhausted, "a frame still waits"
    buffer.take(2, timeout_s=0)
    assert buffer.exhausted
    begin = time.monotonic()
    assert buffer.take(2, timeout_s=30) == []
    assert time.monotonic() - begin < 10, "nothing can come, so nothing is waited for"


@pytest.mark.parametrize("policy", ["latest", "queue", "every"])
def test_in_equals_scored_plus_dropped_under_contention(policy: Policy) -> None:
    buffer = FrameBuffer([policy, policy], queue_size=3)
    counts = (400, 300)

    def read(source: int) -> None:
        for index in range(counts[source]):
            if index % 50 == 49:
                buffer.count_unread(source, "unreadable")
            else:
                buffer.put(frame(index, source))
        buffer.finish(source)

    readers = [threading.Thread(target=read, args=(source,)) for source in range(2)]
    for reader in readers:
        reader.start()
    seen: list[list[int]] = [[], []]
    while not buffer.exhausted:
        for item, _ in buffer.take(2, timeout_s=0.05):
            seen[item.source_index].append(item.frame_index)
            buffer.count_scored(item.source_index)
    for reader in readers:
        reader.join(HANGS_S)
    for source in range(2):
        counters = buffer.counters(source)
        assert counters.frames_in == counts[source]
        assert counters.frames_in == counters.scored + counters.dropped.total()
        assert counters.scored == len(seen[source])
        assert seen[source] == sorted(set(seen[source])), "in order, none twice"
