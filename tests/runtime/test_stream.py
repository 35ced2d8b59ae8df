"""The command itself: as a script, as a service, with everything switched on."""

import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import fields, replace
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import get_args

import cv2
import numpy as np
import pytest
from click.testing import CliRunner, Result

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Sentence, Setting
from edgeseg.base.progress import Note
from edgeseg.cli.stream_command import stream
from edgeseg.runtime.backends.choose import BACKENDS
from edgeseg.runtime.capture.frame_buffer import Policy
from edgeseg.runtime.settings.options import (
    GROUPS,
    StreamOptions,
    option_kinds,
    read_options,
    stream_options,
)
from edgeseg.runtime.settings.sink_kinds import SinkOptions
from tests.support import HANGS_S, REPO
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.clips import write_clip

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
    figures = json.loads(report.read_text())
    assert figures["frames"]["in"] == figures["frames"]["scored"] == 12
    assert end["frames"] == figures["frames"]
    assert figures["latency_ms"]["end_to_end"]["count"] == 12
    assert figures["accuracy"][0]["pro"] == 0.95
    text = report.with_suffix(".txt").read_text()
    assert text in done.stdout
    for words in ("end to end", "PRO", "made up (83 images, 63 bad)  0.9500", "12 in = 12 scored"):
        assert words in text
    assert cv2.VideoCapture(str(video)).get(cv2.CAP_PROP_FRAME_COUNT) == 12
    alarms = sum(bool(frame["alarm"]) for frame in frames)
    assert bool(alarms) == bool(list(snapshots.glob("*.jpg")))
    assert figures["errors"] == {}


def test_larger_frames_than_allowed_are_not_decoded(model: Path, tmp_path: Path) -> None:
    clip, report = tmp_path / "clip.avi", tmp_path / "latency.json"
    write_clip(clip, size_hw=(48, 64), frames=3)
    done = run(model, "--source", clip, "--max-pixels", 48 * 64, "--report", report)
    assert done.exit_code == 0, done.output
    assert json.loads(report.read_text())["frames"]["scored"] == 3
    done = run(model, "--source", clip, "--max-pixels", 48 * 64 - 1)
    assert done.exit_code == 1
    assert "frames of 3072 pixels, more than --max-pixels 3071; if they are real" in done.output


def test_of_a_folder_the_larger_images_are_not_decoded(model: Path, tmp_path: Path) -> None:
    folder, report = tmp_path / "images", tmp_path / "latency.json"
    folder.mkdir()
    for name, side in (("a", 40), ("b", 400), ("c", 40)):
        assert cv2.imwrite(str(folder / f"{name}.png"), np.zeros((side, side, 3), np.uint8))
    run(model, "--source", folder, "--max-pixels", 40 * 40, "--report", report)
    frames = json.loads(report.read_text())["frames"]
    assert (frames["in"], frames["scored"]) == (3, 2)
    assert sum(frames["dropped"].values()) == 1


def test_a_real_clip(model: Path, tmp_path: Path, shared: Path) -> None:
    report = tmp_path / "latency.json"
    clip = shared / "data/video/car-detection.mp4"
    done = run(model, "--source", clip, "--report", report, "--max-frames", 50)
    assert done.exit_code == 0, done.output
    figures = json.loads(report.read_text())
    assert figures["frames"]["scored"] == 50
    assert figures["sources"][0]["size_hw"] == [432, 768]
    assert figures["frames"]["in"] == 50 + sum(figures["frames"]["dropped"].values())


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
    figures = json.loads(report.read_text())
    assert figures["frames"]["scored"] == 12
    assert figures["errors"]["events"] >= 12
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
        (["--source", "nowhere.mp4"], 2, "--source 'nowhere.mp4': no such file; expected a camera"),
        (["--source", SYNTHETIC, "--roi", "1,2"], 2, "--roi '1,2': expected four integers x,y,w,h"),
        (["--source", SYNTHETIC, "--debounce", "5/3"], 2, "--debounce 5/3: expected 1 <= k <= n"),
        (["--source", SYNTHETIC, "--threads", "0"], 2, "--threads 0: expected at least 1"),
        (["--source", SYNTHETIC, "--duration", "-1"], 2, "--duration -1.0: expected more than 0"),
        (["--source", SYNTHETIC, "--report", "a.txt"], 2, "expected a name ending in .json"),
        (
            ["--source", SYNTHETIC, "--token-file", "x"],
            2,
            "--token-file x: is for the page; add --serve PORT",
        ),
        (["--source", SYNTHETIC, "--roi", "0,0,500,5"], 1, "frames of 96x64 do not hold --roi 0,0"),
        (
            ["--source", SYNTHETIC, "--save", "a.gif"],
            2,
            "--save a.gif: expected a file ending in .avi",
        ),
        (["--source", SYNTHETIC, "--serve", "0", "--host", "0.0.0.0"], 2, "give --token-file FILE"),
        (["--source", SYNTHETIC, "--serve", "99999"], 1, "--serve 99999: cannot listen on"),
        (["--source", SYNTHETIC, "--threshold", "nan"], 2, "--threshold nan: expected a finite"),
        (["--source", SYNTHETIC, "--threshold", "-inf"], 2, "--threshold -inf: expected a finite"),
        (["--source", SYNTHETIC, "--threshold", "1e6"], 2, "over 1000 times the highest score"),
        (["--source", SYNTHETIC, "--threshold", "nan", "--dry-run"], 2, "--threshold nan: expe"),
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


def test_notes_name_options_and_leave_pipelines_alone(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_stream(options: StreamOptions, *, stop: object, note: Note, print_report: Note) -> None:
        note(Sentence("no GPU; use ", Setting("backend", "cpu")))
        note(f"{options.source[0]}: lost")

    monkeypatch.setattr("edgeseg.runtime.run.run.run_stream", run_stream)
    pipeline = "tcpclientsrc host=cam port=1 ! appsink"
    done = run(model, "--source", pipeline)
    assert done.stderr == f"no GPU; use --backend cpu\n{pipeline}: lost\n"


def test_options_and_their_record_have_the_same_names() -> None:
    records = dict.fromkeys([StreamOptions, *(kind.record for kind in option_kinds())])
    names = [item.name for record in records for item in fields(record)]
    names.remove("sinks")
    assert [option.name for option in stream_options()] == names


def test_every_option_has_its_part_of_the_help() -> None:
    assert {option.group for option in stream_options()} == set(GROUPS)


def test_defaults_are_those_of_the_records() -> None:
    context = stream.make_context("stream", ["--model", "x", "--source", "0"])
    options = read_options(context.params)
    plain = StreamOptions(model=Path("x"), source=("0",))
    assert replace(options, sinks=SinkOptions()) == plain
    for kind in option_kinds():
        assert options.sinks.of(kind.record) == plain.sinks.of(kind.record) == kind.record()


def test_choices_are_those_of_the_library() -> None:
    choices = {option.name: getattr(option.type, "choices", None) for option in stream_options()}
    assert tuple(choices["backend"]) == ("auto", *BACKENDS)
    assert tuple(choices["policy"]) == get_args(Policy)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"source": ()}, "no source given; try source=0 or source=synthetic:"),
        ({"queue_size": 0}, "queue_size=0: expected more than 0"),
        ({"duration": math.nan}, "duration=nan: expected more than 0"),
        ({"tile_overlap": 1.0}, "tile_overlap=1.0: expected 0 or more, below 1"),
        ({"snapshot_bytes": 0}, "snapshot_bytes=0: expected at least 1"),
        ({"snapshot_count": 0}, "snapshot_count=0: expected at least 1"),
        ({"token_file": Path("t")}, "token_file=t: is for the page; add serve=PORT"),
    ],
)
def test_records_check_themselves_and_name_the_setting(
    values: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read_options({"model": Path("x"), "source": ("0",), **values})
    assert str(caught.value) == message


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
    out, errors = process.communicate(timeout=HANGS_S)
    assert process.returncode == 0, errors
    figures = json.loads((folder / "latency.json").read_text())
    assert figures["frames"]["in"] == figures["frames"]["scored"] + sum(
        figures["frames"]["dropped"].values()
    )
    assert len(events_of(events)) == figures["frames"]["scored"]
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
        *("--model", model, "--duration", 60, "--status-every", 0.1, "--serve", 0),
        *("--events", "events.jsonl", "--report", "latency.json"),
        *(() if by_variable else ("--source", source)),
        cwd=tmp_path,
        **({"EDGESEG_SOURCE": source} if by_variable else {}),
    )
    assert process.stderr is not None
    errors = ""
    while "LOST" not in errors and (line := process.stderr.readline()):  # in a status line
        errors += line
    process.send_signal(signal.SIGTERM)
    out, rest = process.communicate(timeout=HANGS_S)
    errors += rest
    assert process.returncode == 1, "a camera that was never there"
    assert "Error: " in errors
    assert "errors: source_lost 1" in out
    assert "LOST" in errors
    written = (tmp_path / "events.jsonl").read_text() + (tmp_path / "latency.json").read_text()
    for secret in ("hunter", "admin"):
        assert secret not in out + errors + written
    assert events_of(tmp_path / "events.jsonl", "source_lost")


def test_the_script_is_light_and_needs_neither_torch_nor_onnx() -> None:
    code = (
        "import sys, edgeseg.runtime.stream\n"
        "heavy = {'torch', 'onnx', 'cv2', 'numpy', 'onnxruntime'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "import edgeseg.runtime.run.run, edgeseg.runtime.web.page_sink\n"
        "import edgeseg.runtime.backends.onnxruntime_session\n"
        "import edgeseg.runtime.backends.tensorrt_session\n"
        "import edgeseg.runtime.backends.openvino_session\n"
        "heavy = {'torch', 'onnx', 'onnxruntime', 'openvino', 'tensorrt_rtx'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANGS_S)


def test_names_directly_in_runtime_shadow_nothing() -> None:
    """`python runtime/stream.py` puts runtime/ first on the path: a room `queue` would be taken."""
    names = {path.stem for path in SCRIPT.parent.iterdir() if path.is_dir() or path.suffix == ".py"}
    installed = set(packages_distributions()) - {"edgeseg", "runtime"}
    assert not names & (set(sys.stdlib_module_names) | installed)


def test_help_is_there_from_any_folder(tmp_path: Path) -> None:
    process = start("--help", cwd=tmp_path)
    out, _ = process.communicate(timeout=HANGS_S)
    assert process.returncode == 0
    assert "--stall-timeout" in out
