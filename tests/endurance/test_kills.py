"""Kills and faults: the runs see what is lost, and a few real rounds lose nothing."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from edgeseg.base.files import write_text
from tests.endurance import jobs, kills
from tests.endurance.faults import Met
from tests.endurance.forked import Ended, answer_forked, run_forked
from tests.endurance.jobs import JOBS, Job, close_enough
from tests.endurance.report import write_rows
from tests.endurance.shortage import FAULTS, Need, can_mount
from tests.support import KEPT

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
_TEXT = "new " * 1000


def _atomic(target: Path) -> None:
    write_text(target, _TEXT)


def _in_place(target: Path) -> None:
    with target.open("w") as file:
        file.write(_TEXT[:100])
        file.flush()
        (target.parent / "side").touch()  # an operation between the halves
        file.write(_TEXT[100:])


def _careless(target: Path) -> None:
    half = target.parent / f"half-{os.getpid()}"
    half.write_text(_TEXT)
    half.replace(target)


def _facts(folder: Path) -> list[str]:
    text = (folder / "out").read_text()
    if text not in ("old", _TEXT):
        raise ValueError(f"{len(text)} characters")
    return [text]


@pytest.mark.parametrize(
    ("write", "damaged", "left"),
    [(_atomic, False, False), (_in_place, True, False), (_careless, False, True)],
)
def test_a_half_written_output_and_a_leftover_are_seen(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Path], None],
    damaged: bool,
    left: bool,
) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench/old").write_text("old")
    job = Job(arguments=lambda at: (at / "out",), facts=_facts, prepare=("out=old",))
    monkeypatch.setitem(JOBS, "toy", job)
    monkeypatch.setattr(jobs, "command", write)
    siege = kills.Siege("toy", bench=tmp_path / "bench", scratch=tmp_path, seed=0)
    siege.go_on(12)
    tried = siege.tried
    assert tried.tried == 12
    assert tried.killed >= 6, "at an operation it always strikes"
    assert tried.old + tried.new + len(tried.damaged) == 12
    assert bool(tried.damaged) == damaged, tried.damaged
    assert bool(tried.left_after_next_run) == left, tried.left_after_next_run
    assert tried.not_repeatable == []


def test_a_fault_strikes_the_command_and_not_what_the_study_reads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    order: list[str] = []

    def words(folder: Path) -> tuple[object, ...]:
        order.append("arguments")
        return ()

    monkeypatch.setattr(jobs, "command", lambda *words: order.append("command"))
    job = Job(arguments=words, facts=_facts, prepare=())
    job.run(tmp_path, fault=lambda: order.append("fault"))
    assert order == ["arguments", "fault", "command"]


def test_a_process_is_killed_before_the_operation_that_was_named(tmp_path: Path) -> None:
    def three() -> None:
        for name in "abc":
            (tmp_path / name).write_text(name)

    whole = run_forked(three, folder=tmp_path)
    assert (whole.code, whole.operations, whole.killed) == (0, 3, False)
    for name in "abc":
        (tmp_path / name).unlink()
    killed = run_forked(three, folder=tmp_path, kill_at=2)
    assert killed.killed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "said.txt"]
    with pytest.raises(RuntimeError, match="ValueError: no"):
        answer_forked(lambda: _raise(ValueError("no")), folder=tmp_path)


def _raise(error: Exception) -> None:
    raise error


def test_readings_are_compared_as_numbers_and_words() -> None:
    assert close_enough([1.0, "a"], [1.0 + 1e-9, "a"])
    assert not close_enough([1.0, "a"], [1.1, "a"])
    assert not close_enough([1.0, "a"], [1.0, "b"])


@pytest.mark.parametrize(
    ("code", "said", "field", "lost"),
    [
        (0, "", "went_well", 0),
        (1, "Error: no room", "one_sentence", 0),
        (1, "Traceback (most recent call last)\nOSError: 28", "traceback", 1),
        (-6, "terminate called", "signal", 1),
    ],
)
def test_how_a_run_ended(code: int, said: str, field: str, lost: int) -> None:
    met = Met()
    met.judge("fit", Ended(code=code, seconds=1.0, operations=0, said=said), must_succeed=False)
    value = getattr(met, field)
    assert (value if isinstance(value, int) else len(value)) == 1
    assert met.lost == lost


def test_a_clock_that_jumps_may_not_fail_a_command() -> None:
    met = Met()
    met.judge("fit", Ended(code=1, seconds=1.0, operations=0, said="Error: x"), must_succeed=True)
    assert met.lost == 1
    assert FAULTS["clock back a day"].succeeds


def test_the_clock_steps_for_dates_too(tmp_path: Path) -> None:
    def years() -> list[int]:
        from datetime import datetime, timezone

        from edgeseg.runtime.sinks import video

        need = Need(seconds=0.0, disk_bytes=0, address_bytes=0, descriptors=0)
        before = datetime.now(timezone.utc).timestamp()
        FAULTS["clock on a year"].in_child(need, 0.0)
        while time.time() < before + 3e7:
            time.sleep(0.001)
        after = video.datetime.now(timezone.utc).timestamp()
        return [int((after - before) // 31_536_000)]

    assert answer_forked(years, folder=tmp_path) == [1]


def study(name: str, *words: object) -> dict[str, dict]:
    """A study in a process of its own: this one has computed, and its forks could hang."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.endurance.{name}", *map(str, words)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    out = Path(str(words[words.index("--out") + 1]))
    rows = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    return {row.get("job", row.get("fault")): row for row in rows}


def test_a_few_real_rounds(tmp_path: Path) -> None:
    bench = tmp_path / "bench"
    bench.mkdir()
    shutil.copy(KEPT / "part.edgeseg", bench / "old.edgeseg")
    common = ("--bench", bench, "--out", tmp_path / "out")
    killed = study("kills", "--count", 3, "--job", "threshold", *common)
    # The first and the third strike at an operation, of which there are always as many.
    assert [row["killed"] >= 2 for row in killed.values()] == [True]
    if can_mount(tmp_path):
        faults = ("--fault", "no descriptors", "--fault", "disk full")
        met = study("faults", "--count", 1, "--job", "threshold", *faults, *common)
        assert [row["runs"] for row in met.values()] == [1, 1]


def test_what_is_not_tried_now_keeps_its_row(tmp_path: Path) -> None:
    kept = [{"tried": 5, "job": "export"}, {"tried": 5, "job": "stream"}, {"job": "gone"}]
    (tmp_path / "kills.json").write_text(json.dumps({"rows": kept}))
    now = [{"job": job, **asdict(kills.Tried(tried=1))} for job in ("stream", "fit")]
    write_rows(tmp_path, "kills", title="", rows=now, known=JOBS)
    rows = json.loads((tmp_path / "kills.json").read_text())["rows"]
    assert [(row["job"], row["tried"]) for row in rows] == [
        ("fit", 1),
        ("export", 5),
        ("stream", 1),
    ]
    assert list(rows[1]) == list(rows[0]), "columns of a table"
    write_rows(tmp_path / "new", "kills", title="", rows=now[:1], known=JOBS)
    assert len(json.loads((tmp_path / "new/kills.json").read_text())["rows"]) == 1
