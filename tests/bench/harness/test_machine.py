"""A machine that is busy with something else is noticed, our own work is not held against it."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from edgeseg.bench.harness import machine
from edgeseg.bench.harness.machine import CoreWatch, disturbance

STAT = """cpu  {all} 0 0 0 0 0 0 0 0 0
cpu0 {busy} 0 100 9999 50 0 0 {stolen} 0 0
cpu1 {busy} 0 100 9999 50 0 0 {stolen} 0 0
cpu2 777777 0 0 0 0 0 0 0 0 0
intr 12345
"""


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds on two cores, of which this process worked eight."""
    clocks = {"perf_counter": iter((0.0, 10.0)), "process_time": iter((1.0, 9.0))}
    fake = {name: (lambda values=values: next(values)) for name, values in clocks.items()}
    monkeypatch.setattr(machine, "time", SimpleNamespace(**fake))
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(machine.os, "sysconf", lambda _: 100)


def seen(monkeypatch: pytest.MonkeyPatch, *, busy: int, stolen: int) -> CoreWatch:
    """The cores after so many more ticks each."""
    states = iter((STAT.format(all=0, busy=500, stolen=5), STAT.format(
        all=9, busy=500 + busy, stolen=5 + stolen)))  # fmt: skip
    monkeypatch.setattr(machine, "_read", lambda path: next(states) if is_stat(path) else "")
    with CoreWatch() as cores:
        pass
    return cores


def is_stat(path: Path) -> bool:
    return path == Path("/proc/stat")


@pytest.mark.usefixtures("two_cores")
def test_own_work_is_not_a_disturbance(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = seen(monkeypatch, busy=405, stolen=0)  # 8.1 s, of which 8 are ours
    assert cores.others == pytest.approx(0.005)
    assert cores.stolen == 0
    assert cores.warning is None


@pytest.mark.usefixtures("two_cores")
def test_work_of_others_and_of_the_host_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = seen(monkeypatch, busy=600, stolen=50)
    assert (cores.others, cores.stolen) == (pytest.approx(0.2), pytest.approx(0.05))
    assert cores.warning is not None
    assert "20% of the cores" in cores.warning
    assert "virtual machine 5%" in cores.warning


def test_a_tenth_of_the_cores_is_too_much() -> None:
    assert disturbance(others=0.05, stolen=0.04) is None
    assert disturbance(others=0.05, stolen=0.06) is not None


def test_without_proc_nobody_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_read", lambda path: "")
    with CoreWatch() as cores:
        pass
    assert (cores.others, cores.stolen, cores.warning) == (0, 0, None)
