"""Frames that another program writes: sizes, colours, ends, cuts, and how old they count as."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.runtime.capture import gstreamer_process, standard_input
from edgeseg.runtime.capture.sources import parse_source
from edgeseg.runtime.capture.standard_input import StandardInput
from tests.support import HANGS_S, KEPT, REPO
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.clips import write_clip

real = pytest.mark.skipif(
    shutil.which(gstreamer_process.PROGRAM) is None,
    reason=f"needs {gstreamer_process.PROGRAM} ({gstreamer_process.INSTALL})",
)
TO_PIPE = "! videoconvert ! video/x-raw,format=BGR ! gdppay ! fdsink"


@contextmanager
def fed(
    monkeypatch: pytest.MonkeyPatch, data: bytes, text: str, *, timeout_s: float = 20.0
) -> Iterator[StandardInput]:
    """The source, with these bytes and then the end; they fit into a pipe."""
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    with os.fdopen(reading) as file:
        monkeypatch.setattr(sys, "stdin", file)
        source = StandardInput(text, wait=lambda seconds: False, timeout_s=timeout_s)
        yield source
        source.close()


@pytest.mark.parametrize(("pixels", "depth"), [("", 3), (",rgb", 3), (",bgr", 3), (",grey", 1)])
def test_raw_frames_come_as_they_were_written(
    monkeypatch: pytest.MonkeyPatch, pixels: str, depth: int
) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (3, 5, 7, depth), np.uint8)
    with fed(monkeypatch, frames.tobytes(), f"stdin:7x5{pixels}") as source:
        for frame in frames:
            grab = source.read()
            assert grab is not None
            assert grab.channels == ("bgr" if pixels == ",bgr" else "rgb")
            assert np.array_equal(grab.image_hwc, np.broadcast_to(frame, (5, 7, 3)))
        assert source.read() is None, "the end, which is no failure"


@pytest.mark.parametrize("left", [1, 104])
def test_a_part_of_a_frame_is_none(monkeypatch: pytest.MonkeyPatch, left: int) -> None:
    with fed(monkeypatch, bytes(105 + left), "stdin:7x5") as source:
        assert source.read() is not None
        with pytest.raises(RuntimeFailure, match=r"within a frame.*is it really 7x5\?"):
            source.read()


@pytest.mark.parametrize("data", [b"no frames at all" * 9, bytes(200)])
def test_other_data_is_refused(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    with (
        fed(monkeypatch, data, "-") as source,
        pytest.raises(RuntimeFailure, match="is not GStreamer's data protocol; end the pipeline"),
    ):
        source.read()


def test_frames_that_waited_in_the_pipe_are_not_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """No trigger may take one: they were there before anybody read."""
    with fed(monkeypatch, bytes(8 * 105), "stdin:7x5") as source:
        grabs = [source.read() for _ in range(8)]
    assert len({grab.grabbed_ns for grab in grabs if grab is not None}) == 1


def test_silence_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as file, os.fdopen(writing, "wb"):
        monkeypatch.setattr(sys, "stdin", file)
        source = StandardInput("stdin:7x5", wait=lambda seconds: False, timeout_s=0.01)
        with pytest.raises(RuntimeFailure, match="no frame for"):
            source.read()
        source.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stdin:", "expected stdin:WIDTHxHEIGHT"),
        ("stdin:640", "expected stdin:WIDTHxHEIGHT"),
        ("stdin:640x480,rgba", "expected stdin:WIDTHxHEIGHT"),
        ("stdin:0x480", "0 bytes a frame"),
        ("stdin:99999x99999", "bytes a frame, expected 1 to"),
    ],
)
def test_a_size_that_cannot_be_meant(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_source(text)


def test_a_keyboard_is_no_camera(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standard_input.sys, "stdin", None)
    with pytest.raises(RuntimeFailure, match="standard input is no pipe"):
        StandardInput("-", wait=lambda seconds: False, timeout_s=1.0)


def stream(pipeline: str, *options: str) -> subprocess.CompletedProcess[str]:
    """`gst-launch-1.0 ... | edgeseg stream ...`."""
    words = [gstreamer_process.PROGRAM, "-q", *pipeline.split()]
    command = ["stream", "--model", str(KEPT / "part-fp32.onnx"), "--allow-random-weights"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
        return subprocess.run(
            [sys.executable, "-m", "edgeseg", *command, "--policy", "every", *options],
            stdin=writer.stdout,
            capture_output=True,
            text=True,
            timeout=HANGS_S,
        )


@real
def test_a_pipeline_in_which_edgeseg_is_one_element() -> None:
    size = "video/x-raw,width=101,height=64,framerate=25/1"
    done = stream(f"videotestsrc num-buffers=12 ! {size} {TO_PIPE}", "--source", "-")
    assert done.returncode == 0, done.stderr
    assert "frames: 12 in = 12 scored + 0 dropped" in done.stdout
    assert "stdin: end (12 frames read)" in done.stderr


@real
def test_raw_frames_of_a_pipeline_and_a_size_that_is_not_theirs() -> None:
    made = "videotestsrc num-buffers=9 ! video/x-raw,width=96,height=64,format=RGB ! fdsink"
    done = stream(made, "--source", "stdin:96x64")
    assert done.returncode == 0, done.stderr
    assert "frames: 9 in = 9 scored + 0 dropped" in done.stdout
    wrong = stream(made, "--source", "stdin:97x64")
    assert wrong.returncode == 1
    assert "Error: stdin:97x64: standard input ended within a frame" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def documented(source: str) -> str:
    """The command of docs/cameras.md in which a clip goes to this source."""
    text = (REPO / "docs/cameras.md").read_text(encoding="utf-8")
    found = re.findall(r"^    (gst-launch-1\.0 (?:.*\\\n)*.*)", text, re.MULTILINE)
    (command,) = (one for one in found if f"--source {source}" in one)
    assert " filesrc location=clip.mp4 ! decodebin ! " in command
    return command


@real
@pytest.mark.parametrize("source", ["-", "stdin:320x240"])
def test_a_clip_goes_through_the_documented_pipeline(tmp_path: Path, source: str) -> None:
    """Every frame arrives, in order, and as another decoder shows it."""
    if subprocess.run(["gst-inspect-1.0", "avdec_mpeg4"], capture_output=True).returncode:
        pytest.skip("needs a decoder for the clip (sudo apt install gstreamer1.0-libav)")
    write_clip(tmp_path / "clip.mp4", size_hw=(120, 160), frames=6, codec="mp4v")
    clip = cv2.VideoCapture(str(tmp_path / "clip.mp4"))
    shown = [clip.read()[1].mean() for _ in range(6)]
    assert shown[-1] > shown[0] + 3, "each frame is brighter than the one before"
    metadata = brightness_metadata(threshold=(shown[0] + shown[-1]) / 2)
    write_brightness_model(tmp_path / "part.onnx", metadata=metadata)
    command = documented(source)
    if "--events -" not in command:
        command += " --policy every --events -"
    done = subprocess.run(
        ["bash", "-c", f'edgeseg() {{ "{sys.executable}" -m edgeseg "$@"; }}\n{command}'],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        timeout=HANGS_S,
    )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    frames = [event for event in events if event["event"] == "frame"]
    assert [frame["frame"] for frame in frames] == list(range(6))
    assert [frame["score"] for frame in frames] == pytest.approx(shown, abs=1.0)
    assert [frames[0]["verdict"], frames[-1]["verdict"]] == ["good", "defect"]


@real
def test_there_is_one_standard_input() -> None:
    done = stream("fakesrc num-buffers=0 ! fdsink", "--source", "-", "--source", "stdin:4x4")
    assert done.returncode == 2
    assert "Error: --source -: given twice" in done.stderr
