"""The study of a station's load: every frame of every phase is accounted for."""

from dataclasses import replace
from pathlib import Path

from edgeseg.bench.studies.teach.station_load import (
    Account,
    make_project,
    measure,
    report_of,
)
from edgeseg.runtime.capture.sources import SOURCES
from edgeseg.runtime.sink_kinds import SINKS
from tests.support.teach_engine import CHILD, part

PHASES = ["alone", "fitting", "learning", "swap", "rollback", "after rollback"]


def test_the_accounts_of_a_small_station_add_up(tmp_path: Path) -> None:
    kinds = [*SOURCES, *SINKS]
    pictures = [part(100 + index, seed=index) for index in range(12)]
    project = make_project(tmp_path, pictures, fps=20.0, backbone="efficientnet_lite0")
    rows, whole = measure(project, seconds=0.2, child=CHILD)
    assert [row.phase for row in rows] == PHASES
    for row in rows:
        assert row.frames == row.inspected + row.dropped, row
        assert row.unaccounted == 0, row
        assert row.inspected > 0, row
    assert rows[0].ratio == 1.0
    assert whole.unaccounted == 0
    assert whole.frames >= sum(row.frames for row in rows)
    events = [line["event"] for line in project.history()]
    assert events == ["fit", "run", "fit", "run", "mark", "learn", "rollback", "stop"]
    assert [*SOURCES, *SINKS] == kinds, "other stations have neither"
    assert f"Of {whole.frames} frames" in report_of(rows, whole, images=12, busy=None).markdown()


def test_a_frame_that_nobody_counted_is_seen() -> None:
    account = Account(at_s=0.0, frames=10, inspected=7, dropped=3)
    assert account.unaccounted == 0
    assert replace(account, inspected=6).unaccounted == 1
