"""Run an exported model on cameras, streams, videos and folders.

Light on purpose: the help and simple mistakes need nothing heavy, which waits for the run.
"""

import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import click

from edgeseg.base.errors import EdgesegError, UsageError
from edgeseg.base.messages import Setting, write
from edgeseg.base.options import FILE, note, say_options
from edgeseg.base.progress import Note
from edgeseg.base.typed_options import GroupedCommand, Option
from edgeseg.runtime.settings.options import (
    GROUPS,
    RUN,
    StreamOptions,
    read_options,
    stream_options,
)
from edgeseg.runtime.settings.station_file import read_station
from edgeseg.runtime.sinks.log_options import EventOptions

EXAMPLES = """Score every frame, say what is wrong and how long it took.

\b
edgeseg stream --model part.onnx --source 0
edgeseg stream --model part.onnx --source rtsp://user:pw@cam/1 --events events.jsonl --serve 8080
edgeseg stream --model part.onnx --source clip.mp4 --save annotated.mp4 --report latency.json
edgeseg stream --model part.onnx --source synthetic:fps=30,defects=0.1 --duration 60
edgeseg stream --station line3.toml
"""


class StreamCommand(GroupedCommand):
    """The command with the options of every sink, trigger and adapter."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Parameters: its own, then those of the stream."""
        *own, help_option = super().get_params(ctx)
        return [*own, *stream_options(), help_option]

    def invoke(self, ctx: click.Context) -> None:
        """Run the stream; a user's mistake ends in one sentence."""
        say = say_options(self.get_params(ctx))
        try:
            options = read_options(ctx.params)
            if ctx.params["dry_run"]:
                _try_out(options)
            else:
                _run(options, note=lambda text: note(write(text, say)))
        except EdgesegError as error:
            click.secho(f"Error: {error.text(say)}", fg="red", err=True)
            ctx.exit(error.exit_code)


def _read_station(ctx: click.Context, option: click.Parameter, path: Path | None) -> None:
    """Take the station file's values as defaults of the options."""
    if path is None:
        return
    try:
        values = read_station(path, ctx)
    except EdgesegError as error:
        click.secho(f"Error: {error}", fg="red", err=True)
        ctx.exit(error.exit_code)
    ctx.default_map = {**(ctx.default_map or {}), **values}


def _try_out(options: StreamOptions) -> None:
    """Check what can be checked without a camera and a model in memory."""
    from edgeseg.runtime.capture.sources import parse_source
    from edgeseg.runtime.run.product import first_model

    names = [parse_source(text, realtime=options.realtime).name for text in options.source]
    name, model = first_model(options)
    if not model.is_file():
        raise UsageError(Setting("model", model), ": no such file")
    click.echo(f"{name} on {', '.join(names)}, trigger {options.trigger}: ok")


def _run(options: StreamOptions, *, note: Note) -> None:
    from edgeseg.runtime.run.run import run_stream

    stop = threading.Event()
    before = {number: _stop_on(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    # Events on standard output must stay one JSON object per line.
    taken = options.sinks.of(EventOptions).events == "-"
    try:
        run_stream(
            options,
            stop=stop,
            note=note,
            print_report=lambda text: click.echo(text, err=taken, nl=False),
        )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_on(number: signal.Signals, stop: threading.Event) -> "signal._HANDLER":
    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():  # asked twice: something hangs
            sys.exit(128 + number)
        stop.set()

    return signal.signal(number, handle)


stream = StreamCommand(
    "stream",
    help=EXAMPLES,
    context_settings={"show_default": True, "help_option_names": ["-h", "--help"]},
    groups=GROUPS,
    params=[
        Option(
            ["--station"],
            type=FILE,
            is_eager=True,
            expose_value=False,
            callback=_read_station,
            help="A TOML file with any of these options; what is typed goes before it.",
            group=RUN,
        ),
        Option(["--dry-run"], is_flag=True, help="Check all options, and run nothing.", group=RUN),
    ],
)
