"""Loss, return, stall and end of a source, with captures that the test controls."""

import threading
import time
from collections.abc import Callable

import pytest

from edgeseg.base.errors import RuntimeFailure
from edgeseg.runtime.capture import suspension
from edgeseg.runtime.capture.frame_buffer import FrameBuffer
from edgeseg.runtime.capture.reader import Reader, backoff_s
from edgeseg.runtime.capture.sources import SourceSpec
from edgeseg.runtime.events.records import SourceEvent
from tests.doubles.fakes import Blocking, Canned, camera, clip, grey, opens
from tests.support import HANGS_S


class Bench:
    """A reader with everything around it."""

    def __init__(
        self, spec: SourceSpec, opener: object, *, policy: str = "queue", backoff: float = 0.001
    ) -> None:
        self.stop = threading.Event()
        self.buffer = FrameBuffer([policy], queue_size=100)  # type: ignore[list-item]
        self.events: list[SourceEvent] = []
        self.reader = Reader(
            spec,
            0,
            buffer=self.buffer,
            stop=self.stop,
            on_event=self.events.append,
            stall_timeout_s=0.2,
            opener=opener,  # type: ignore[arg-type]
            first_backoff_s=backoff,
        )
        self.reader.start()

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that must happen; the limit only ends a broken test."""
        deadline = time.monotonic() + HANGS_S
        while not condition():
            assert time.monotonic() < deadline, f"never happened; events: {self.kinds()}"
            time.sleep(0.002)

    def kinds(self) -> list[str]:
        return [event.kind.removeprefix("source_") for event in list(self.events)]

    def end(self) -> None:
        self.stop.set()
        self.buffer.close()
        assert self.reader.join(timeout_s=HANGS_S)


def test_a_file_is_read_to_its_end() -> None:
    capture = Canned([grey(1), None, grey(2)])
    bench = Bench(clip(), opens(capture), policy="every")
    assert bench.reader.join(timeout_s=HANGS_S)
    assert bench.kinds() == ["open", "end"]
    assert bench.events[-1].reason == "3 frames read"
    assert capture.closed
    frames = [bench.buffer.take(1, timeout_s=0)[0][0] for _ in range(2)]
    assert [frame.frame_index for frame in frames] == [0, 2]
    assert dict(bench.buffer.counters(0).dropped) == {"unreadable": 1}
    assert bench.reader.error is None
    assert bench.reader.size_hw == (32, 48)


def test_a_camera_is_lost_and_comes_back() -> None:
    captures = [
        Canned([grey(1)]),
        RuntimeFailure("cam: unplugged"),
        RuntimeFailure("cam: unplugged"),
        Canned([grey(2), grey(3)]),
    ]
    bench = Bench(camera(), opens(*captures))
    bench.until(lambda: bench.kinds().count("lost") == 2)
    assert bench.kinds() == ["open", "lost", "back", "lost"]
    assert bench.events[1].reason == "the stream ended"
    assert bench.events[2].attempt == 3, "two attempts failed, the third succeeded"
    assert bench.reader.reconnects == 1
    assert bench.buffer.counters(0).frames_in == 3, "nothing was made up while it was gone"
    bench.end()
    assert bench.kinds()[-1] == "end"


def test_a_camera_that_is_absent_at_first_is_waited_for() -> None:
    gone = RuntimeFailure("cam: no device /dev/video0")
    bench = Bench(camera(), opens(gone, gone, Canned([grey(1)])))
    bench.until(lambda: "back" in bench.kinds())
    assert bench.kinds()[:2] == ["lost", "back"], "said once, not at every attempt"
    assert bench.events[0].reason == "no device /dev/video0"
    assert bench.reader.reconnects == 0, "it was not there before"
    bench.end()


def test_a_connection_without_a_frame_is_not_a_camera_that_is_back() -> None:
    bench = Bench(camera(), opens(Canned([grey(1)]), Canned([]), Canned([]), Canned([grey(2)])))
    bench.until(lambda: bench.kinds().count("lost") == 2)
    assert bench.kinds() == ["open", "lost", "back", "lost"]
    bench.end()


def test_a_stall_is_noticed_and_the_late_frame_is_not_scored() -> None:
    release = threading.Event()

    class Stalls(Canned):
        def read(self) -> object:  # type: ignore[override]
            grab = super().read()
            return grab if grab is not None else Blocking(release).read()

    bench = Bench(camera(), opens(Stalls([grey(1)]), Canned([grey(2)])))
    bench.until(lambda: bench.buffer.counters(0).frames_in == 1)
    assert bench.kinds() == ["open"]

    def lost() -> bool:
        bench.reader.check_stall(time.monotonic())
        return "lost" in bench.kinds()

    bench.until(lost)
    assert bench.events[1].reason.startswith("no frame for 0.2")
    assert not bench.reader.connected
    release.set()
    bench.until(lambda: "back" in bench.kinds())
    counters = bench.buffer.counters(0)
    assert dict(counters.dropped) == {"stalled": 1}
    assert counters.frames_in == 3
    bench.end()


def test_a_late_frame_is_not_scored_even_if_the_watchdog_has_not_looked() -> None:
    class Late(Canned):
        def read(self) -> object:  # type: ignore[override]
            time.sleep(0.3)  # more than the stall time-out of 0.2 s
            return super().read()

    bench = Bench(camera(), opens(Late([grey(1), grey(2)]), Canned([grey(3)])))
    bench.until(lambda: "back" in bench.kinds())
    assert bench.kinds()[:2] == ["lost", "back"]
    assert bench.events[0].reason.startswith("no frame for 0.")
    bench.until(lambda: bench.buffer.counters(0).frames_in == 2)
    assert dict(bench.buffer.counters(0).dropped) == {"stalled": 1}
    bench.end()


def test_a_slow_model_is_no_stall() -> None:
    bench = Bench(camera(), opens(Canned([grey(1)] * 50)), policy="every")
    bench.until(lambda: bench.buffer.counters(0).frames_in == 5)  # four wait, one is in hand
    bench.reader.check_stall(time.monotonic() + 3600)
    assert bench.kinds() == ["open"]
    bench.end()


def test_a_driver_that_hangs_does_not_hold_up_the_end() -> None:
    release = threading.Event()
    bench = Bench(camera(), opens(Blocking(release)))
    bench.stop.set()
    bench.buffer.close()
    assert not bench.reader.join(timeout_s=0.05), "it is still inside the driver"
    release.set()
    assert bench.reader.join(timeout_s=HANGS_S)
    counters = bench.buffer.counters(0)
    assert counters.frames_in == counters.dropped.total()


def test_the_end_interrupts_a_long_back_off() -> None:
    bench = Bench(camera(), opens(), backoff=3600.0)
    bench.until(lambda: "lost" in bench.kinds())
    bench.end()


def test_a_file_that_cannot_be_opened_is_an_error_not_an_outage() -> None:
    bench = Bench(clip(), opens(RuntimeFailure("clip: not a video")))
    assert bench.reader.join(timeout_s=HANGS_S)
    assert str(bench.reader.error) == "clip: not a video"


def test_a_file_without_a_frame_is_an_error() -> None:
    bench = Bench(clip(), opens(Canned([])))
    assert bench.reader.join(timeout_s=HANGS_S)
    assert str(bench.reader.error) == "clip: no frame in it; is it damaged?"


def test_a_surprise_in_a_driver_is_reported_without_its_message() -> None:
    class Breaks(Canned):
        def read(self) -> object:  # type: ignore[override]
            raise ValueError("rtsp://admin:hunter2@cam/1")

    bench = Bench(clip(), opens(Breaks([])))
    assert bench.reader.join(timeout_s=HANGS_S)
    assert str(bench.reader.error) == "clip: reading failed (ValueError)"


def test_backoff_doubles_up_to_its_limit() -> None:
    delays = backoff_s(first_s=0.5, longest_s=10.0)
    assert [next(delays) for _ in range(7)] == pytest.approx([0.5, 1, 2, 4, 8, 10, 10])


def test_after_a_sleep_of_the_computer_the_source_is_opened_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead_s = iter([(0.0, 0.0)] * 3)
    monkeypatch.setattr(suspension, "ahead_s", lambda: next(ahead_s, (60.0, 60.0)))
    bench = Bench(camera(), opens(Canned([grey(level) for level in range(5)]), Canned([grey(9)])))
    bench.until(lambda: "back" in bench.kinds())
    assert bench.kinds()[:3] == ["open", "lost", "back"]
    assert bench.events[1].reason == "the computer was suspended"
    bench.until(lambda: bench.buffer.counters(0).frames_in == 4)
    assert dict(bench.buffer.counters(0).dropped) == {"stalled": 1}
    bench.end()


def test_a_pause_between_two_looks_at_the_clocks_is_no_sleep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = iter([(0.0, 0.0), (-5.0, 0.0), (0.0, 5.0), (0.0, 0.0), (-5.0, 5.0), (0.0, 0.0)])
    monkeypatch.setattr(suspension, "ahead_s", lambda: next(looks))
    suspended = suspension.Suspension()
    assert not any(suspended.has_slept() for _ in range(5))
