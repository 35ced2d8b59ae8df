"""Work beside a station gives way, and still gets a tenth of a core."""

import itertools
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from edgeseg.teach import giving_way
from edgeseg.teach.giving_way import FLOOR, GivingWay, next_niceness

SESSIONS = Path("/proc/self/autogroup").exists()


@pytest.fixture
def niced(monkeypatch):
    """What is set of this process and its session, in place of setting it."""
    done = []
    monkeypatch.setattr(giving_way, "set_process", lambda value: done.append(("process", value)))

    def set_session(value):
        done.append(("session", value))
        return True

    monkeypatch.setattr(giving_way, "set_session", set_session)
    return done


def looked(shares, told=lambda share: None) -> GivingWay:
    """After looks at which the process had got these shares of a core, five seconds apart."""
    clock = iter(range(0, 1000, 5))
    cpu = iter([0.0, *itertools.accumulate(5 * share for share in shares)])
    way = GivingWay(told, clock_s=lambda: float(next(clock)), cpu_s=lambda: next(cpu))
    for _ in shares:
        way.look()
    return way


@pytest.mark.parametrize(
    ("told", "comes_back", "process", "session"),
    [
        *[(None, True, 19, 19), ("5", True, 5, 5), ("99", True, 19, 19), ("-3", True, 19, 19)],
        *[(None, False, 5, 19), ("3", False, 3, 3), ("12", False, 5, 12)],
    ],
)
def test_a_job_begins_as_low_as_it_can_come_back_from(
    monkeypatch, niced, told, comes_back, process, session
):
    monkeypatch.delenv("EDGESEG_NICENESS")
    if told is not None:
        monkeypatch.setenv("EDGESEG_NICENESS", told)
    monkeypatch.setattr(giving_way, "_can_come_back", lambda: comes_back)
    looked([])
    assert niced == [("process", process), ("session", session)]


def test_a_session_that_was_not_to_be_had_is_tried_again(monkeypatch, niced):
    """Another job may have set one in the same tenth of a second."""
    monkeypatch.setenv("EDGESEG_NICENESS", "19")
    answers = iter([True, False, True, True])
    tried = []
    monkeypatch.setattr(
        giving_way, "set_session", lambda value: tried.append(value) or next(answers)
    )
    assert looked([0.01, 0.01, 0.01]).session == 13
    assert tried == [19, 16, 16, 13]


@pytest.mark.parametrize(("comes_back", "processes"), [(True, [16, 17, 14]), (False, [5, 10, 10])])
def test_the_priority_follows_the_share_since_the_last_look(
    monkeypatch, niced, comes_back, processes
):
    """A process that cannot come back keeps a priority with which it gets on."""
    monkeypatch.setenv("EDGESEG_NICENESS", "19")
    monkeypatch.setattr(giving_way, "_can_come_back", lambda: comes_back)
    shares, told = [0.01, 1.0, 0.05], []
    looked(shares, told.append)
    assert told == pytest.approx(shares)
    assert [value for what, value in niced if what == "session"] == [19, 16, 17, 14]
    ways = [looked(shares[:count]).process for count in (1, 2, 3)]
    assert ways == processes


def test_all_threads_of_a_process_are_set_and_its_session():
    code = (
        "import os, threading; from pathlib import Path; from edgeseg.teach import giving_way\n"
        "wait = threading.Event(); threading.Thread(target=wait.wait).start()\n"
        "giving_way.set_process(19); giving_way.set_session(18); session = giving_way._SESSION\n"
        "tasks = [int(task.name) for task in Path('/proc/self/task').iterdir()]\n"
        "of = [os.getpriority(os.PRIO_PROCESS, task) for task in tasks]\n"
        "print(of, session.read_text().split()[-1] if session.exists() else 18); wait.set()"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, start_new_session=True
    )
    assert said.stdout == "[19, 19] 18\n", said.stderr


def test_whether_a_process_comes_back_is_tried_and_not_guessed(monkeypatch):
    allowed = {"now": 4}

    def setpriority(which, who, value):
        if value < allowed["now"] and not allowed.get("privileged"):
            raise PermissionError
        allowed["now"] = value

    monkeypatch.setattr(os, "getpriority", lambda which, who: allowed["now"])
    monkeypatch.setattr(os, "setpriority", setpriority)
    assert not giving_way._can_come_back()
    assert allowed["now"] == 5
    allowed["privileged"] = True
    assert giving_way._can_come_back()
    assert allowed["now"] == 5


def test_what_gets_too_little_rises_until_it_gets_its_floor_and_falls_again():
    """Of a computer where other sessions leave it the share of its weight."""
    others = 8 * 1024

    def share(niceness: int) -> float:
        weight = 1024 / 1.25**niceness
        return 2 * weight / (weight + others)  # of two cores

    niceness, path = 19, []
    assert share(niceness) < 0.01
    for _ in range(20):
        niceness = next_niceness(niceness, share(niceness), lowest=19)
        path.append(niceness)
    assert path[0] == 16
    assert share(path[-1]) >= FLOOR
    assert path[-1] > 0  # and no more than that
    assert path[-1] == path[-2]
    for _ in range(30):  # the others have ended
        niceness = next_niceness(niceness, 1.8, lowest=19)
    assert niceness == 19


@pytest.mark.parametrize(
    ("now", "share", "lowest", "then"),
    [(2, 0.0, 19, 0), (0, 0.0, 0, 0), (5, 2.0, 5, 5), (9, 0.2, 19, 9)],
)
def test_it_stays_between_full_priority_and_where_it_began(now, share, lowest, then):
    assert next_niceness(now, share, lowest=lowest) == then


@pytest.mark.skipif(not SESSIONS, reason="this Linux does not share processors among sessions")
def test_a_session_comes_back_without_privileges():
    """As anybody: else nothing could keep a floor."""
    session = "/proc/self/autogroup"
    # The kernel lets all programs together set one in a tenth of a second.
    script = f"for n in 19 3; do until echo $n > {session}; do sleep 0.2; done; done; cat {session}"
    nobody = {"user": 65534, "group": 65534} if os.getuid() == 0 else {}
    said = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, text=True, start_new_session=True, **nobody
    )
    assert said.stdout.split()[-1:] == ["3"], said.stderr


def test_a_thread_is_bounded_too(monkeypatch):
    monkeypatch.delenv("EDGESEG_NICENESS")
    taken = []

    def run() -> None:
        giving_way.give_way_here()
        taken.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert taken == [10] or sys.platform != "linux"
