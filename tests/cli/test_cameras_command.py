"""The list of cameras."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgeseg.base.errors import EdgesegError
from edgeseg.cli import cameras_command as module
from edgeseg.cli.cameras_command import CameraRow, cameras, video_devices
from tests.doubles.gige_camera import gige_camera

GIGE = CameraRow(
    source="aravis:GV01", vendor="Aravis", model="Fake", serial="GV01", address="127.0.0.1"
)


def test_video_devices_are_listed_by_their_names(tmp_path: Path) -> None:
    for number, name in enumerate(("HD Webcam", "Capture")):
        (tmp_path / f"video{number}").mkdir()
        (tmp_path / f"video{number}" / "name").write_text(name + "\n")
    (tmp_path / "odd").mkdir()
    assert video_devices(tmp_path) == [
        CameraRow(source="/dev/video0", model="HD Webcam"),
        CameraRow(source="/dev/video1", model="Capture"),
    ]
    assert video_devices(tmp_path / "none") == []


def test_the_list_is_a_table_or_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "video_devices", lambda: [CameraRow(source="/dev/video0")])
    monkeypatch.setattr(module, "vision_cameras", lambda: [GIGE])
    done = CliRunner().invoke(cameras)
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["source", "vendor", "model", "serial", "address"],
        ["/dev/video0"],
        ["aravis:GV01", "Aravis", "Fake", "GV01", "127.0.0.1"],
    ]
    as_json = CliRunner().invoke(cameras, ["--json"])
    assert [row["source"] for row in json.loads(as_json.stdout)] == ["/dev/video0", "aravis:GV01"]


def test_without_the_library_the_others_are_listed_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing() -> list[CameraRow]:
        raise EdgesegError("need libaravis; try: sudo apt install libaravis-0.8-0")

    monkeypatch.setattr(module, "video_devices", lambda: [])
    monkeypatch.setattr(module, "vision_cameras", missing)
    done = CliRunner().invoke(cameras)
    assert done.exit_code == 0
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "need libaravis; try: sudo apt install libaravis-0.8-0",
        "no camera found; try --source synthetic: for a made-up one",
    ]


def test_a_real_one_answers() -> None:
    with gige_camera() as camera:
        camera.start()
        assert GIGE in module.vision_cameras()
