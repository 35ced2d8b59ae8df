"""The command itself: as a script, as a service, with everything switched on."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from click.testing import CliRunner, Result

from edgeseg.errors import UsageError
from edgeseg.runtime.backends.base import BACKENDS
from edgeseg.runtime.options import OPTION_NAMES, StreamOptions
from edgeseg.runtime.stream import stream
from tests.support import REPO
from tests.support.brightness_model import brightness_metadata, write_brightness_model

SCRIPT = REPO / "runtime" / "stream.py"
SYNTHETIC = "synthetic:fps=0,frames=12,defects=0.3,height=64,width=96"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "part.onnx"
    write_brightness_model(path, metadata=brightness_metadata(threshold=250.0))
    return path


def run(model: Path, *arguments: object) -> Result:
    texts = [str(argument) for argument in arguments]
    options = ["--model", str(model), "--backend", "cpu", "--threads", "1", *texts]
    return CliRunner().invoke(stream, options, catch_exceptions=False)


def events_of(path: Path, kind: str = "frame") -> list[dict[str, object]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line["event"] == kind]


def test_every_output_at_once(model: Path, tmp_path: Path) -> None:
    events, report = tmp_path / "events.jsonl", tmp_path / "latency.json"
    video, snapshots = tmp_path / "annotated.mp4", tmp_path / "alarms"
    done = run(
        model,
        *("--source", SYNTHETIC, "--events", events, "--report", report, "--save", video),
        *("--snapshots", snapshots, "--serve", 0, "--recordings", tmp_path / "recordings"),
    )
    assert done.exit_code == 0, done.output
    frames = events_of(events)
    assert [frame["frame"] for frame in frames] == list(range(12))
    assert {frame["name"] for frame in frames} > {"good"}
    (start,), (end,) = events_of(events, "run_start"), events_of(events, "run_end")
    assert start["model"] == "brightness"
    told = json.loads(report.read_text())
    assert told["frames"]["in"] == told["frames"]["scored"] == 12
    assert end["frames"] == told["frames"]
    assert told["latency_ms"]["end_to_end"]["count"] == 12
    assert told["accuracy"][0]["pro"] == 0.95
    text = report.with_suffix(".txt").read_text()
    assert text in done.stdout
    for words in ("end to end", "PRO", "made up (83 images, 63 bad)  0.9500", "12 in = 12 scored"):
        assert words in text
    assert cv2.VideoCapture(str(video)).get(cv2.CAP_PROP_FRAME_COUNT) == 12
    alarms = sum(bool(frame["alarm"]) for frame in frames)
    assert bool(alarms) == bool(list(snapshots.glob("*.jpg")))
    assert told["errors"] == {}


def test_a_real_clip(model: Path, tmp_path: Path, shared: Path) -> None:
    report = tmp_path / "latency.json"
    clip = shared / "data/video/car-detection.mp4"
    done = run(model, "--source", clip, "--report", report, "--max-frames", 50)
    assert done.exit_code == 0, done.output
    told = json.loads(report.read_text())
    assert told["frames"]["scored"] == 50
    assert told["sources"][0]["size_hw"] == [432, 768]
    assert told["frames"]["in"] == 50 + sum(told["frames"]["dropped"].values())


def test_events_on_standard_output_are_nothing_but_events(
    model: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    done = run(model, "--source", SYNTHETIC, "--events", "-")
    assert done.stdout == "", "the report went elsewhere"
    assert "end to end" in done.stderr
    # Events go to descriptor 1, which CliRunner does not replace.
    lines = [json.loads(line)["event"] for line in capfd.readouterr().out.splitlines()]
    assert lines.count("frame") == 12
    assert lines[0] == "run_start"
    assert lines[-1] == "run_end"


def test_a_full_disk_does_not_stop_scoring(model: Path, tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    report = tmp_path / "latency.json"
    done = run(model, "--source", SYNTHETIC, "--events", "/dev/full", "--report", report)
    assert done.exit_code == 0
    told = json.loads(report.read_text())
    assert told["frames"]["scored"] == 12
    assert told["errors"]["events"] >= 12
    assert "events: /dev/full: No space left on device" in done.stderr


def test_a_report_that_cannot_be_written_is_an_error_after_the_run(
    model: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = run(model, "--source", SYNTHETIC, "--report", tmp_path / "file" / "latency.json")
    assert done.exit_code == 1
    assert "12 in = 12 scored" in done.stdout, "the figures are not lost"
    assert "the figures are on standard output" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--source", "nowhere.mp4"], 2, "no such file; expected a camera index"),
        (["--source", SYNTHETIC, "--roi", "1,2"], 2, "expected four integers x,y,w,h"),
        (["--source", SYNTHETIC, "--debounce", "5/3"], 2, "expected 1 <= k <= n"),
        (["--source", SYNTHETIC, "--duration", "-1"], 2, "--duration -1.0: expected more than 0"),
        (["--source", SYNTHETIC, "--report", "a.txt"], 2, "expected a name ending in .json"),
        (["--source", SYNTHETIC, "--token-file", "x"], 2, "add --serve PORT"),
        (["--source", SYNTHETIC, "--roi", "0,0,500,5"], 1, "frames of 96x64 do not hold --roi"),
        (["--source", SYNTHETIC, "--save", "a.gif"], 2, "expected a file ending in .avi"),
        (["--source", SYNTHETIC, "--serve", "0", "--host", "0.0.0.0"], 2, "expected a token"),
        ([], 2, "Missing option '--source'"),
    ],
)
def test_mistakes_end_in_one_sentence(
    model: Path, arguments: list[str], code: int, message: str
) -> None:
    done = run(model, *arguments)
    assert done.exit_code == code
    assert message in done.stderr
    assert "Traceback" not in done.output


def test_a_window_without_a_display(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    done = run(model, "--source", SYNTHETIC, "--show")
    assert done.exit_code == 1
    assert "there is no display here; use --serve PORT" in done.stderr


def test_a_window_with_a_headless_opencv(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if any("GUI" in line and "NONE" in line for line in cv2.getBuildInformation().splitlines()):
        monkeypatch.setenv("DISPLAY", ":0")
        done = run(model, "--source", SYNTHETIC, "--show")
        assert done.exit_code == 1
        assert "pip install opencv-python" in done.stderr
    else:
        pytest.skip("this OpenCV has windows")


def test_options_and_their_record_have_the_same_names() -> None:
    assert {parameter.name for parameter in stream.params} == set(OPTION_NAMES)
    backends = next(p for p in stream.params if p.name == "backend")
    assert tuple(backends.type.choices) == BACKENDS  # type: ignore[attr-defined]
    parsed = stream.make_context("stream", ["--model", "x", "--source", "0"]).params
    assert StreamOptions(**parsed) == StreamOptions(model=Path("x"), source=("0",))
    with pytest.raises(UsageError, match="no --source given"):
        StreamOptions(model=Path("x"), source=())


def test_folder_of_images_with_grey_and_broken_ones(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for index in range(4):
        cv2.imwrite(str(folder / f"{index}.png"), np.full((33, 47), 60 * index, np.uint8))
    (folder / "x.png").write_bytes(b"broken")
    events, report = tmp_path / "events.jsonl", tmp_path / "latency.json"
    done = run(model, "--source", folder, "--events", events, "--report", report)
    assert done.exit_code == 0
    assert [(f["name"], f["score"]) for f in events_of(events)] == [
        (f"{index}.png", 60.0 * index) for index in range(4)
    ]
    assert json.loads(report.read_text())["frames"]["dropped"] == {"unreadable": 1}


def start(*arguments: object, cwd: Path, **variables: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, SCRIPT, *(str(argument) for argument in arguments)],
        cwd=cwd,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_in_order(model: Path, tmp_path: Path, number: int) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    events = folder / "events.jsonl"
    process = start(
        *("--model", model, "--source", "synthetic:fps=50,height=64,width=96"),
        *("--events", "events.jsonl", "--report", "latency.json"),
        cwd=folder,
    )
    while not (events.exists() and events_of(events)):
        assert process.poll() is None, process.communicate()
    process.send_signal(number)
    out, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    told = json.loads((folder / "latency.json").read_text())
    assert told["frames"]["in"] == told["frames"]["scored"] + sum(
        told["frames"]["dropped"].values()
    )
    assert len(events_of(events)) == told["frames"]["scored"]
    assert len(events_of(events, "run_end")) == 1
    assert "end to end" in out


@pytest.mark.parametrize(
    "source",
    [
        "rtsp://admin:hunter2@127.0.0.1:1/1",
        "http://admin:hunter%32@127.0.0.1:1/v?password=hunter2",
        "rtspsrc location=rtsp://admin:hunter2@127.0.0.1:1/1 user-pw=hunter2 ! appsink",
    ],
)
def test_credentials_appear_nowhere(model: Path, tmp_path: Path, source: str) -> None:
    # By the environment, as a service gets it; a pipeline's spaces would split it there.
    by_variable = " " not in source
    process = start(
        *("--model", model, "--duration", 1, "--status-every", 0.5, "--serve", 0),
        *("--events", "events.jsonl", "--report", "latency.json"),
        *(() if by_variable else ("--source", source)),
        cwd=tmp_path,
        **({"EDGESEG_SOURCE": source} if by_variable else {}),
    )
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "lost" in errors
    written = (tmp_path / "events.jsonl").read_text() + (tmp_path / "latency.json").read_text()
    for secret in ("hunter", "admin"):
        assert secret not in out + errors + written
    assert events_of(tmp_path / "events.jsonl", "source_lost")


def test_the_script_is_light_and_needs_neither_torch_nor_onnx() -> None:
    code = (
        "import sys, edgeseg.runtime.stream\n"
        "heavy = {'torch', 'onnx', 'cv2', 'numpy', 'onnxruntime'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "import edgeseg.runtime.run, edgeseg.runtime.web.page_sink\n"
        "import edgeseg.runtime.backends.onnxruntime_session\n"
        "import edgeseg.runtime.backends.tensorrt_session\n"
        "import edgeseg.runtime.backends.openvino_session\n"
        "import edgeseg.runtime.sinks.window\n"
        "heavy = {'torch', 'onnx', 'onnxruntime', 'openvino', 'tensorrt_rtx'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_help_is_there_from_any_folder(tmp_path: Path) -> None:
    process = start("--help", cwd=tmp_path)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "--stall-timeout" in out
