"""The systemd unit names options that exist."""

import configparser
import shlex
from pathlib import Path

from edgeseg.cli.stream_command import stream
from edgeseg.runtime.settings.options import read_options
from edgeseg.runtime.settings.sink_kinds import PageOptions
from tests.support import REPO

UNIT = REPO / "runtime" / "edgeseg-stream.service"


def test_the_unit_starts_a_stream_with_real_options() -> None:
    text = UNIT.read_text(encoding="utf-8").replace("\\\n", " ")
    unit = configparser.ConfigParser(strict=True, interpolation=None, comment_prefixes=("#",))
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    assert unit["Service"]["Restart"] == "always"
    assert unit["Service"]["Type"] == "notify"
    # Closing every sink may take most of a minute, in which the loop feeds no more.
    assert int(unit["Service"]["WatchdogSec"]) > int(unit["Service"]["TimeoutStopSec"])
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
    program, command, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert (Path(program).name, command) == ("edgeseg", "stream")
    context = stream.make_context("stream", ["--source", "0", *arguments])
    options = read_options(context.params)
    assert options.sinks.of(PageOptions).serve == 8080
    assert options.model == Path("/etc/edgeseg/part.onnx")
