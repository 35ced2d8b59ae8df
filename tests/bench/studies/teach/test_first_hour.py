"""The study of a first hour; tests/teach/test_first_hour.py presses the same buttons."""

import urllib.request
from pathlib import Path

import pytest

from edgeseg.bench.studies.teach.first_hour import Clock, FolderCamera, report_of, teaching
from edgeseg.contract.images import read_image, write_image
from edgeseg.errors import RuntimeFailure
from tests.support.teach_engine import part


def test_the_report_adds_up_and_says_what_was_waited_for() -> None:
    clock = Clock()
    for name in ("open", "collect", "run"):
        clock.step(name)
    assert [step.step for step in clock.steps] == ["open", "collect", "run"]
    sums = [sum(step.seconds for step in clock.steps[: at + 1]) for at in range(3)]
    assert [step.since for step in clock.steps] == pytest.approx(sums)
    text = report_of(clock.steps, captures=60, parts=6, wishes=["--rate", "0.01"], busy="Busy.")
    markdown = text.markdown()
    assert "with 60 captured parts; 36 s of it were waited for parts to come" in markdown
    assert "| collect |" in markdown
    assert "- Busy." in markdown


def test_the_camera_shows_one_part_and_then_all(tmp_path: Path) -> None:
    parts = []
    for index in range(3):
        parts.append(tmp_path / f"{index}.png")
        write_image(parts[-1], part(100 + index))
    camera = FolderCamera(tmp_path / "camera", parts)
    for index in (0, 1, 5):
        camera.bring(index)
        (shown,) = camera.folder.iterdir()
        assert read_image(shown).max() == 100 + index % 3
    camera.bring_all()
    assert sorted(path.name for path in camera.folder.iterdir()) == [
        "line-1.png",
        "line-2.png",
        "part.png",
    ]


def test_the_page_is_started_and_ended(tmp_path: Path) -> None:
    write_image(tmp_path / "camera" / "a.png", part(100))
    with (
        teaching(tmp_path / "line3", tmp_path / "camera", []) as url,
        urllib.request.urlopen(f"{url}healthz", timeout=30) as answer,
    ):
        assert answer.status == 200
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{url}healthz", timeout=30)
    wrong = teaching(tmp_path / "line3", tmp_path / "camera", ["--backbone", "none"])
    with pytest.raises(RuntimeFailure, match=r"no page \(Error: .*backbone"):
        wrong.__enter__()
