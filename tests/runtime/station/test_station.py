"""One trigger, one result, whatever happens in between."""

import threading
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeseg.base.errors import EdgesegError
from edgeseg.decision.judgement import Verdict
from edgeseg.runtime.events.codes import CODES, Check, ErrorCode, State, VerdictCode, code_of
from edgeseg.runtime.station.records import Inspection, Job, StationResult, TriggerEvent, part_id_of
from edgeseg.runtime.station.station import Station

TOO_LATE = (ErrorCode.TIMEOUT, "its trigger was answered before the verdict")


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000

    def __call__(self) -> int:
        self.now_ns += 1  # no two moments are the same
        return self.now_ns


def seen(verdict: str = "good", *, job: Job | None = None) -> Inspection:
    return Inspection(verdict=verdict, score=1.0, threshold=2.0, frame_index=0, job=job)


def station(
    *, depth: int = 1, timeout_s: float = 1.0
) -> tuple[Station, Clock, list[StationResult]]:
    clock = Clock()
    made = Station(depth=depth, timeout_s=timeout_s, clock_ns=clock)
    results: list[StationResult] = []
    made.events.subscribe(StationResult, results.append, name="test")
    made.start()
    return made, clock, results


def test_a_trigger_takes_the_first_frame_after_it_and_no_older_one() -> None:
    line, clock, results = station()
    before_ns = clock()
    event = line.trigger(origin="test", part_id="A-17")
    assert line.status().state == State.ACQUIRING
    assert line.acquire(grabbed_ns=before_ns) is None
    assert line.acquire(grabbed_ns=event.monotonic_ns) is None
    assert line.acquire(grabbed_ns=clock()) == event
    assert line.status().state == State.INSPECTING
    assert line.acquire(grabbed_ns=clock()) is None  # one frame each
    assert line.complete(event.trigger_id, seen()) is None
    (result,) = results
    assert (result.trigger, result.code, result.error) == (event, VerdictCode.GOOD, ErrorCode.NONE)
    assert result.facts()["part_id"] == "A-17"
    assert line.status().state == State.RESULT
    line.acknowledge(event.trigger_id)
    assert line.status().state == State.READY


def test_a_trigger_while_not_ready_is_missed_and_answered_in_its_turn() -> None:
    line, clock, results = station()
    first = line.trigger(origin="test")
    assert not line.status().trigger_ready
    line.trigger(origin="test")
    assert results == []  # its turn is after the first
    line.acquire(grabbed_ns=clock())
    line.complete(first.trigger_id, seen("defect"))
    assert [(r.trigger.trigger_id, r.code) for r in results] == [
        (1, VerdictCode.DEFECT),
        (2, VerdictCode.NO_INSPECTION),
    ]
    assert results[1].error == ErrorCode.MISSED
    assert line.status().missed == 1


def test_trigger_ready_is_off_until_the_frame_is_there_and_while_all_places_are_taken() -> None:
    line, clock, results = station(depth=2)
    for _ in range(2):
        assert line.status().trigger_ready
        line.trigger(origin="test")
        assert not line.status().trigger_ready
        line.acquire(grabbed_ns=clock())
    assert not line.status().trigger_ready
    line.complete(1, seen())
    assert line.status().trigger_ready
    assert len(results) == 1


def test_free_running_frames_are_results_too_and_need_no_place() -> None:
    line, clock, results = station()
    line.lose_source("the last frame before it is still scored")
    line.free(seen("defect"), at_ns=clock())
    line.load_job(5)
    line.free(seen(), at_ns=clock())
    assert [(r.trigger.origin, r.code) for r in results] == [
        ("free", VerdictCode.DEFECT),
        ("free", VerdictCode.NO_INSPECTION),
    ]


def test_time_runs_out_for_frames_and_for_verdicts_and_a_late_verdict_counts_for_nothing() -> None:
    line, clock, results = station(timeout_s=1.0)
    line.trigger(origin="test")
    line.tick()
    assert results == []
    clock.now_ns += 1_000_000_000
    line.tick()
    late = line.trigger(origin="test")
    line.acquire(grabbed_ns=clock())
    clock.now_ns += 1_000_000_000
    line.tick()
    assert line.complete(late.trigger_id, seen()) == TOO_LATE
    assert [(r.error, r.reason) for r in results] == [
        (ErrorCode.TIMEOUT, "no frame within 1 s"),
        (ErrorCode.TIMEOUT, "no verdict within 1 s"),
    ]
    assert line.status().late == 1


def test_a_verdict_without_a_frame_counts_for_nothing() -> None:
    line, _, results = station()
    event = line.trigger(origin="test")
    assert line.complete(event.trigger_id, seen()) == TOO_LATE
    assert line.complete(99, seen()) == TOO_LATE
    assert results == []


@pytest.mark.parametrize(
    ("prepare", "error", "ready_again"),
    [
        (lambda s: s.lose_source("unplugged"), ErrorCode.SOURCE_LOST, lambda s: s.restore_source()),
        (lambda s: s.stop(ErrorCode.CRASHED, "x"), ErrorCode.CRASHED, lambda s: s.start()),
        (lambda s: s.stop(), ErrorCode.STOPPED, lambda s: s.start()),
        (lambda s: s.load_job(7), ErrorCode.UNKNOWN_JOB, lambda s: s.load_job(0)),
        (
            lambda s: s.set_check(Check.FAILED, "too dark"),
            ErrorCode.CHECK_FAILED,
            lambda s: s.set_check(Check.PASSED),
        ),
        (
            lambda s: s.set_check(Check.RUNNING),
            ErrorCode.CHECK_FAILED,
            lambda s: s.set_check(Check.PASSED),
        ),
    ],
)
def test_what_cannot_inspect_says_so_and_is_never_good(prepare, error, ready_again) -> None:
    line, clock, results = station()
    prepare(line)
    assert not line.status().trigger_ready
    assert line.status().error == error
    line.trigger(origin="test")
    assert [(r.code, r.error) for r in results] == [(VerdictCode.NO_INSPECTION, error)]
    ready_again(line)
    assert line.status().trigger_ready
    event = line.trigger(origin="test")
    line.acquire(grabbed_ns=clock())
    line.complete(event.trigger_id, seen())
    assert results[-1].code == VerdictCode.GOOD


def test_a_lost_camera_answers_those_that_wait_and_lets_the_one_in_work_end() -> None:
    line, clock, results = station(depth=2)
    first = line.trigger(origin="test")
    line.acquire(grabbed_ns=clock())
    line.trigger(origin="test")
    line.lose_source("unplugged")
    assert line.status().state == State.OFFLINE
    line.complete(first.trigger_id, seen())
    assert [r.error for r in results] == [ErrorCode.NONE, ErrorCode.SOURCE_LOST]


def test_jobs_are_loaded_by_who_was_attached() -> None:
    line, clock, results = station()
    asked: list[object] = []
    line.attach_jobs(lambda key: asked.append(key) or key == 3)
    assert line.load_job(3)
    assert line.status().job_loading
    assert line.status().error == ErrorCode.JOB_LOADING
    line.trigger(origin="test")
    line.set_job(Job(number=3, name="bottle"))
    assert line.current_job.name == "bottle"
    event = line.trigger(origin="test")
    assert event.job == Job(number=3, name="bottle")
    line.acquire(grabbed_ns=clock())
    line.complete(event.trigger_id, seen(job=Job(number=2, name="cap")))
    assert not line.load_job("jar")
    assert asked == [3, "jar"]
    line.trigger(origin="test")
    errors = [ErrorCode.JOB_LOADING, ErrorCode.UNKNOWN_JOB, ErrorCode.UNKNOWN_JOB]
    assert [r.error for r in results] == errors
    assert results[1].reason == "inspected as job cap, triggered for another"
    assert results[2].reason == "there is no job jar"


def test_a_check_that_fails_meanwhile_takes_the_verdict_back() -> None:
    line, clock, results = station()
    event = line.trigger(origin="test")
    line.acquire(grabbed_ns=clock())
    line.set_check(Check.FAILED, "master part 2 is good, expected defect")
    line.complete(event.trigger_id, seen())
    assert results[0].error == ErrorCode.CHECK_FAILED
    assert results[0].reason == "master part 2 is good, expected defect"


def test_a_new_station_has_no_result_and_another_run_id() -> None:
    one, other = Station(), Station()
    assert one.status().result_id == 0
    assert one.status().state == State.OFFLINE
    assert one.run_id != other.run_id


def test_ids_fit_two_registers_and_never_are_zero() -> None:
    line, _, results = station()
    line._trigger_id = 2**32 - 2
    line.stop()
    for _ in range(3):
        line.trigger(origin="test")
    assert [r.trigger.trigger_id for r in results] == [2**32 - 1, 1, 2]


def test_every_verdict_has_its_frozen_number() -> None:
    assert {name: int(code) for name, code in CODES.items()} == {
        "good": 1,
        "defect": 2,
        "invalid": 3,
        "unsure": 4,
        "not_found": 5,
    }
    assert int(VerdictCode.NO_INSPECTION) == 6
    assert set(Verdict.__args__) <= set(CODES)
    assert code_of("splendid") == VerdictCode.INVALID


def test_records_check_themselves() -> None:
    event = TriggerEvent(trigger_id=4, origin="test", monotonic_ns=0, wall_s=0.0, job=Job())
    with pytest.raises(EdgesegError) as caught:
        StationResult(trigger=event, wall_s=0.0, latency_ms=0.0)
    assert str(caught.value) == (
        "result of trigger 4: expected an inspection or an error, one of them"
    )
    with pytest.raises(EdgesegError, match="job 'x': number 70000, expected 0 to 65535"):
        Job(number=70000, name="x")
    with pytest.raises(EdgesegError, match="trigger_timeout=0: expected more than 0"):
        Station(timeout_s=0)
    assert part_id_of("  A\n1\u00e97" + "x" * 40) == "A17" + "x" * 29


def test_a_listener_that_raises_or_calls_back_stops_nothing() -> None:
    counted: list[tuple[str, str]] = []
    line = Station(on_error=lambda name, message: counted.append((name, message)))
    results: list[int] = []

    def again(result: StationResult) -> None:
        if result.trigger.trigger_id < 3:
            line.trigger(origin="test")  # from within a delivery
        raise ValueError("x")

    line.events.subscribe(StationResult, again, name="test")
    line.events.subscribe(
        StationResult, lambda result: results.append(result.trigger.trigger_id), name="test"
    )
    line.trigger(origin="test")
    assert results == [1, 2, 3]
    assert counted == [("test", "ValueError: x")] * 3


OPS = (
    "trigger", "trigger", "old frame", "frame", "frame", "good", "good", "defect", "other job",
    "fail", "wait", "wait long", "lost", "back", "job 1", "job 9", "loaded", "check runs",
    "check fails", "check passes", "full", "empty", "stop", "start",
)  # fmt: skip


@dataclass
class Plant:
    """A station and all that may happen to it."""

    depth: int
    results: list[StationResult] = field(default_factory=list)
    inspected: dict[int, str] = field(default_factory=dict)
    full: bool = False

    def __post_init__(self) -> None:
        self.clock = Clock()
        self.line = Station(depth=self.depth, timeout_s=1.0, clock_ns=self.clock)
        self.line.events.subscribe(StationResult, self.results.append, name="test")
        self.line.add_hold(lambda: self.full)
        self.line.attach_jobs(lambda key: key == 1)
        self.line.start()
        self.acquired: list[TriggerEvent] = []
        self.triggers = 0

    def do(self, op: str) -> None:
        line = self.line
        if op == "trigger":
            self.triggers += 1
            assert line.trigger(origin="test").trigger_id == self.triggers
        elif op in ("frame", "old frame"):
            old_ns = 10 if op == "old frame" else 0
            grabbed_ns = self.clock() - old_ns
            event = line.acquire(grabbed_ns=grabbed_ns)
            if event is not None:
                assert event.monotonic_ns < grabbed_ns
                self.acquired.append(event)
        elif op in ("good", "defect", "other job") and self.acquired:
            event = self.acquired.pop(0)
            job = Job(number=5) if op == "other job" else None
            verdict = "defect" if op == "defect" else "good"
            if line.complete(event.trigger_id, seen(verdict, job=job)) is None:
                self.inspected[event.trigger_id] = verdict
        elif op == "fail" and self.acquired:
            event = self.acquired.pop(0)
            line.fail(event.trigger_id, ErrorCode.INCOMPLETE_FRAME, "half of it")
        else:
            self._change(op)

    def _change(self, op: str) -> None:
        line = self.line
        if op.startswith("wait"):
            self.clock.now_ns += 1_100_000_000 if op == "wait long" else 300_000_000
            line.tick()
        changes = {
            "lost": lambda: line.lose_source("gone"),
            "back": line.restore_source,
            "job 1": lambda: line.load_job(1),
            "job 9": lambda: line.load_job(9),
            "loaded": lambda: line.set_job(Job(number=1)),
            "check runs": lambda: line.set_check(Check.RUNNING),
            "check fails": lambda: line.set_check(Check.FAILED),
            "check passes": lambda: line.set_check(Check.PASSED),
            "full": lambda: setattr(self, "full", True),
            "empty": lambda: setattr(self, "full", False),
            "stop": line.stop,
            "start": line.start,
        }
        changes.get(op, lambda: None)()


@settings(max_examples=300)
@given(st.lists(st.sampled_from(OPS), max_size=60), st.integers(1, 3))
def test_results_are_triggers_in_order_and_none_is_good_without_an_inspection(ops, depth) -> None:
    plant = Plant(depth)
    for op in ops:
        plant.do(op)
        status = plant.line.status()
        assert status.triggers - status.results <= len(ops)
        assert status.results == len(plant.results)
        if not status.online:
            assert not status.trigger_ready
            assert status.error != ErrorCode.NONE
    plant.line.stop()
    assert [r.trigger.trigger_id for r in plant.results] == list(range(1, plant.triggers + 1))
    for result in plant.results:
        if result.code == VerdictCode.GOOD:
            assert plant.inspected[result.trigger.trigger_id] == "good"
        elif result.error == ErrorCode.NONE:
            assert plant.inspected[result.trigger.trigger_id] == "defect"
        else:
            assert result.code == VerdictCode.NO_INSPECTION


def test_many_threads_trigger_and_every_result_leaves_once_and_in_order() -> None:
    line = Station(depth=4, timeout_s=60.0)
    delivered: list[int] = []
    line.events.subscribe(
        StationResult, lambda result: delivered.append(result.trigger.trigger_id), name="test"
    )
    line.start()
    done = threading.Event()

    def score() -> None:
        while not done.is_set() or line.status().triggers > line.status().results:
            event = line.acquire(grabbed_ns=2**62)
            if event is not None:
                line.complete(event.trigger_id, seen())

    def trigger() -> None:
        for _ in range(300):
            line.trigger(origin="test")

    scorers = [threading.Thread(target=score) for _ in range(2)]
    triggers = [threading.Thread(target=trigger) for _ in range(4)]
    for thread in (*scorers, *triggers):
        thread.start()
    for thread in triggers:
        thread.join()
    done.set()
    for thread in scorers:
        thread.join()
    assert delivered == list(range(1, 1201))
