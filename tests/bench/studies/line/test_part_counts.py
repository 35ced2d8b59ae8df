"""Parts on the shared clips against the hand counts; the shortest clip, the rest is the study's."""

from pathlib import Path

from edgeseg.bench.studies.line.part_counts import CASES, Count, report_text, triggers


def test_counts_and_their_table() -> None:
    count = Count(case=CASES[1], frames=[200, 210, 330, 360])
    assert (count.hit, count.stray) == (1, 1)
    assert "left lane" in report_text([count])


def test_both_lanes_are_counted(tmp_path: Path, shared: Path) -> None:
    for case in CASES[1:3]:
        count = Count(case=case, frames=triggers(case, shared / "data/video", tmp_path))
        assert (len(count.frames), count.hit, count.stray) == (2, 2, 0)
