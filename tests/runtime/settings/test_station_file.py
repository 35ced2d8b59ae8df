"""A station in one file: the same values as typed ones, and all mistakes at once."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from edgeseg.base.errors import EdgesegError
from edgeseg.cli.stream_command import stream
from edgeseg.runtime.settings.options import (
    StreamOptions,
    option_kinds,
    read_options,
    stream_options,
)
from edgeseg.runtime.settings.station_file import read_station
from tests.support.brightness_model import write_brightness_model
from tests.support.documents import blocks, section, text_of


def station(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "line3.toml"
    path.write_text(text)
    return path


def options_of(path: Path, *typed: str) -> StreamOptions:
    context = stream.make_context("stream", ["--station", str(path), *typed])
    return read_options(context.params)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(stream, [str(argument) for argument in arguments])


EVERYTHING: dict[str, Any] = {
    "model": '"part.onnx"', "source": '["0"]', "backend": '"cpu"', "threads": "2",
    "spin": "false", "allow_random_weights": "true", "threshold": "1.5", "policy": '"queue"',
    "queue_size": "3", "realtime": "true", "stall_timeout": "4", "roi": '"1,2,3,4"',
    "tile": "true", "tile_overlap": "0.5", "debounce": '"2/3"', "trigger_timeout": "1.5",
    "report": '"latency.json"', "status_every": "1", "duration": "60", "max_frames": "10",
    "modbus": "1502", "result_buffer": "4", "on_verdict": "['defect=true', 'any=true']",
}  # fmt: skip


def test_every_kind_of_value_is_read_as_if_typed(tmp_path: Path) -> None:
    text = "\n".join(f"{name} = {value}" for name, value in EVERYTHING.items())
    options = options_of(station(tmp_path, text))
    assert options.model == tmp_path / "part.onnx"  # beside the file
    assert options.report == tmp_path / "latency.json"
    for name, value in (
        ("source", ("0",)), ("threads", 2), ("spin", False), ("threshold", 1.5),
        ("policy", "queue"), ("stall_timeout", 4.0), ("debounce", "2/3"), ("max_frames", 10),
    ):  # fmt: skip
        assert getattr(options, name) == value
    typed = [
        *("--model", tmp_path / "part.onnx", "--source", "0", "--backend", "cpu", "--threads", 2),
        *("--no-spin", "--allow-random-weights", "--threshold", 1.5, "--policy", "queue"),
        *("--queue-size", 3, "--realtime", "--stall-timeout", 4, "--roi", "1,2,3,4", "--tile"),
        *("--tile-overlap", 0.5, "--debounce", "2/3", "--trigger-timeout", 1.5),
        *("--report", tmp_path / "latency.json", "--status-every", 1, "--duration", 60),
        *("--max-frames", 10, "--modbus", 1502, "--result-buffer", 4),
        *("--on-verdict", "defect=true", "--on-verdict", "any=true"),
    ]
    context = stream.make_context("stream", [str(each) for each in typed])
    assert options == read_options(context.params)


def test_every_option_may_stand_in_a_file(tmp_path: Path) -> None:
    """By its default, or by a value of its kind."""
    names = {item.name for item in fields(StreamOptions)} - {"sinks"}
    names |= {item.name for kind in option_kinds() for item in fields(kind.record)}
    context = stream.make_context("stream", ["--model", "x", "--source", "0"])
    params = {param.name: param for param in stream_options()}
    assert names == set(params)
    examples = EVERYTHING | {"mqtt": '"mqtt://b/x"', "webhook": '"http://b/x"', "trigger": '"free"'}
    for name in names:
        param = params[name]
        if name in examples:
            value = examples[name]
        elif param.is_flag:
            value = "true"
        elif isinstance(param.type, click.types.IntParamType | click.types.FloatParamType):
            value = "7"
        else:
            value = f'"{getattr(param.type, "choices", ["x"])[0]}"'
        path = station(tmp_path, f"{name.replace('_', '-')} = {value}")
        told = _refusal(path, context)
        # A lone value may need another; it is never unknown or of a wrong kind.
        assert "unknown, expected an option" not in told
        assert f": {name.replace('_', '-')}: " not in told


def _refusal(path: Path, context: click.Context) -> str:
    try:
        read_station(path, context)
    except EdgesegError as error:
        return str(error)
    return ""


def test_what_is_typed_goes_before_the_file(tmp_path: Path) -> None:
    path = station(tmp_path, 'model = "a.onnx"\nsource = ["0", "1"]\nqueue-size = 3\ndrift = false')
    options = options_of(path, "--source", "5", "--queue-size", "9", "--drift")
    assert (options.source, options.queue_size) == (("5",), 9)
    assert options.model == tmp_path / "a.onnx"


def test_sources_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "clip.mp4").touch()
    path = station(tmp_path, 'model = "a.onnx"\nsource = ["clip.mp4", "rtsp://cam/1", "0"]')
    assert options_of(path).source == (str(tmp_path / "clip.mp4"), "rtsp://cam/1", "0")


def test_all_mistakes_in_one_message(tmp_path: Path) -> None:
    path = station(
        tmp_path,
        'model = "a.onnx"\n'
        "source = true\n"
        'trigerr = "modbus"\n'
        'queue-size = "many"\n'
        "spin = 1\n"
        "threshold = [1, 2]\n"
        'policy = "newest"\n'
        "result_buffer = 0\n"
        "tile_overlap = 2.0\n"
        "[plc]\nport = 3\n",
    )
    done = run("--station", path)
    assert done.exit_code == 2
    assert done.stderr == (
        f"Error: {path}: 9 mistakes: source: True, expected text; "
        "trigerr: unknown, expected an option of the stream; the nearest is trigger; "
        "queue-size: 'many', expected a whole number; "
        "spin: 1, expected true or false; "
        "threshold: [1, 2], expected one value; "
        "policy: 'newest' is not one of 'latest', 'queue', 'every'; "
        "plc: unknown, expected an option of the stream; the nearest is policy; "
        "result_buffer=0: expected 1 to 4096; "
        "tile_overlap=2.0: expected 0 or more, below 1\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = x\n", "line3.toml: not TOML (Invalid value (at line 1, column 9))"),
        ("model = " + 5000 * "[" + 5000 * "]", "line3.toml: not TOML (maximum recursion depth"),
        ("model = " + "1" * 5000, "line3.toml: not TOML (Exceeds the limit"),
        (None, "line3.toml: no such file"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "line3.toml" if text is None else station(tmp_path, text)
    done = run("--station", path)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.output


def test_a_dry_run_checks_and_runs_nothing(tmp_path: Path) -> None:
    write_brightness_model(tmp_path / "part.onnx")
    text = 'model = "part.onnx"\nsource = "synthetic:fps=5"\ntrigger = "hardware"\n'
    path = station(tmp_path, text)
    done = run("--station", path, "--dry-run")
    assert (done.exit_code, done.output) == (
        0,
        "part.onnx on synthetic:fps=5, trigger hardware: ok\n",
    )
    done = run("--station", path, "--dry-run", "--trigger", "modbus")
    assert done.stderr == "Error: --trigger modbus: nobody could trigger; add --modbus PORT\n"
    done = run("--station", path, "--dry-run", "--model", tmp_path / "other.onnx")
    assert done.stderr == f"Error: --model {tmp_path / 'other.onnx'}: no such file\n"
    assert done.exit_code == 2


def test_a_station_runs(tmp_path: Path) -> None:
    write_brightness_model(tmp_path / "part.onnx")
    text = 'model = "part.onnx"\nsource = "synthetic:fps=0,frames=4,height=64,width=96"\n'
    path = station(tmp_path, text + 'trigger = "hardware"\nbackend = "cpu"\nthreads = 1\n')
    done = run("--station", path)
    assert done.exit_code == 0, done.output
    assert "triggers: 4, results: 4 (" in done.stdout


def test_the_example_of_the_documents_is_whole(tmp_path: Path) -> None:
    found = blocks(section(text_of("docs/line.md"), "One file"))
    (text,) = [code for language, code in found if language == "toml"]
    for name in ("mqtt.password", "http.token", "webhook.key"):
        (tmp_path / name).write_text("0123456789abcdef\n")
    options = options_of(station(tmp_path, text))
    assert options.trigger == "modbus"
