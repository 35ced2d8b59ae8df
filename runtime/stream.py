"""Run an exported model on cameras, streams, videos and folders.

Light on purpose: the help and simple mistakes need nothing heavy, which waits for the run.
"""

import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import click

from edgeseg.errors import EdgesegError, UsageError
from edgeseg.options import FILE, FOLDER, Entry, in_flags, note
from edgeseg.progress import Note
from edgeseg.runtime.opening_options import opening_params
from edgeseg.runtime.options import StreamOptions, option_kinds, read_options
from edgeseg.runtime.sinks.log_options import EventOptions
from edgeseg.runtime.station_file import read_station
from edgeseg.runtime.trigger_kinds import TRIGGERS

EXAMPLES = """Score every frame, say what is wrong and how long it took.

\b
edgeseg stream --model part.onnx --source 0
edgeseg stream --model part.onnx --source rtsp://user:pw@cam/1 --events events.jsonl --serve 8080
edgeseg stream --model part.onnx --source clip.mp4 --save annotated.mp4 --report latency.json
edgeseg stream --model part.onnx --source synthetic:fps=30,defects=0.1 --duration 60
edgeseg stream --station line3.toml
"""


class StreamCommand(click.Command):
    """Has the options of every sink, trigger and adapter, and passes on one checked value."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The stream's own options, then those of the registries."""
        *own, help_option = super().get_params(ctx)
        return [*own, *(each for kind in option_kinds() for each in kind.options), help_option]

    def invoke(self, ctx: click.Context) -> None:
        """Run the stream; a user's mistake ends in one sentence."""
        piped = any("!" in source for source in ctx.params["source"])

        def typed(text: str) -> str:
            # A GStreamer pipeline has settings of its own, such as host=.
            return text if piped and "!" in text else in_flags(text, self.get_params(ctx))

        try:
            options = read_options(ctx.params)
            if ctx.params["dry_run"]:
                _try_out(options)
            else:
                _run(options, note=lambda text: note(typed(text)))
        except EdgesegError as error:
            click.secho(f"Error: {typed(str(error))}", fg="red", err=True)
            ctx.exit(error.exit_code)


def _read_station(ctx: click.Context, option: click.Parameter, path: Path | None) -> None:
    """Let the file's values stand where none is typed."""
    if path is None:
        return
    try:
        values = read_station(path, ctx.command.get_params(ctx), ctx)
    except EdgesegError as error:
        click.secho(f"Error: {error}", fg="red", err=True)
        ctx.exit(error.exit_code)
    ctx.default_map = {**(ctx.default_map or {}), **values}


def _try_out(options: StreamOptions) -> None:
    """Check what can be checked without a camera and a model in memory."""
    from edgeseg.runtime.capture.sources import parse_source
    from edgeseg.runtime.product import named_model

    names = [parse_source(text, realtime=options.realtime).name for text in options.source]
    name, model = named_model(options)
    if not model.is_file():
        raise UsageError(f"model={model}: no such file")
    click.echo(f"{name} on {', '.join(names)}, trigger {options.trigger}: ok")


def _run(options: StreamOptions, *, note: Note) -> None:
    from edgeseg.runtime.run import run_stream

    stop = threading.Event()
    before = {number: _stop_on(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    # Events on standard output must stay one JSON object per line.
    taken = options.sinks.of(EventOptions).events == "-"
    try:
        run_stream(
            options,
            stop=stop,
            note=note,
            print_report=lambda text: click.echo(text, err=taken),
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
    params=[
        click.Option(
            ["--station"],
            type=FILE,
            is_eager=True,
            expose_value=False,
            callback=_read_station,
            help="A TOML file with any of these options; what is typed goes before it.",
        ),
        click.Option(["--dry-run"], is_flag=True, help="Check all options, and run nothing."),
        click.Option(["--model"], type=FILE, help="A .onnx or .plan file."),
        click.Option(["--recipes"], type=FOLDER, help="Or a folder of `edgeseg recipe`."),
        click.Option(["--recipe"], metavar="NAME", help="To begin with; a number will do."),
        click.Option(
            ["--warm-mb"],
            type=float,
            default=StreamOptions.warm_mb,
            help="Memory for recipes that stay loaded.",
        ),
        click.Option(
            ["--source"],
            multiple=True,
            required=True,
            envvar="EDGESEG_SOURCE",
            show_envvar=True,
            help="Camera index, /dev/video0, rtsp:// or http:// URL, video, folder or glob of "
            "images, GStreamer pipeline, aravis:SERIAL,exposure_us=5000,trigger=software (GigE and "
            "USB3 Vision; see `edgeseg cameras`), or synthetic:fps=30,defects=0.1,frames=0,seed=0. "
            "May be given several times.",
        ),
        *opening_params(),
        click.Option(["--threshold"], type=float, help="Instead of the model's own."),
        click.Option(
            ["--policy"],
            type=click.Choice(["latest", "queue", "every"]),
            help="Which frames to drop; default: latest for live sources, every for files.",
        ),
        click.Option(
            ["--queue-size"],
            type=int,
            default=StreamOptions.queue_size,
            help="Frames, for --policy queue.",
        ),
        click.Option(["--realtime"], is_flag=True, help="Play video files at their own rate."),
        click.Option(
            ["--stall-timeout"],
            type=float,
            default=StreamOptions.stall_timeout,
            help="Seconds without a frame after which a live source counts as lost.",
        ),
        click.Option(
            ["--camera-delay"],
            type=float,
            default=StreamOptions.camera_delay,
            help="Seconds from exposure to arrival that no clock shows: a trigger does not take "
            "a frame that came within them.",
        ),
        click.Option(
            ["--allow-repeats"],
            is_flag=True,
            help="A picture that is the one before, byte for byte, is a new one: for simulators "
            "and encoders. Otherwise the camera is frozen.",
        ),
        click.Option(
            ["--max-pixels"],
            type=click.IntRange(1),
            default=StreamOptions.max_pixels,
            help="Of a picture by its header; a larger one is not decoded.",
        ),
        click.Option(["--roi"], metavar="X,Y,W,H", help="Look only at this part of the frame."),
        click.Option(
            ["--tile"],
            is_flag=True,
            help="Score large frames in overlapping tiles; a model fitted on tiles does it itself.",
        ),
        click.Option(
            ["--tile-overlap"],
            type=float,
            default=StreamOptions.tile_overlap,
            help="Share of a tile.",
        ),
        click.Option(
            ["--min-area"],
            type=float,
            default=StreamOptions.min_area,
            help="Pixels of the camera: smaller regions do not decide. What that hides is printed.",
        ),
        click.Option(
            ["--debounce"],
            metavar="K/N",
            default=StreamOptions.debounce,
            help="Alarm when K of the last N frames are not good.",
        ),
        click.Option(
            ["--trigger"],
            type=Entry(TRIGGERS),
            default=StreamOptions.trigger,
            help="What makes a frame a part: free, every frame; hardware, every frame of a camera "
            "that its line triggers; part, what comes into view; or an adapter below, and the "
            "first frame after its trigger.",
        ),
        click.Option(
            ["--trigger-timeout"],
            type=float,
            default=StreamOptions.trigger_timeout,
            help="Seconds from a trigger to its result; then the result is: no inspection.",
        ),
        click.Option(["--report"], type=FILE, help="Latency and accuracy, .json, text beside it."),
        click.Option(
            ["--status-every"],
            type=float,
            default=StreamOptions.status_every,
            help="Seconds between lines; 0: none.",
        ),
        click.Option(["--duration"], type=float, help="Seconds after which to end."),
        click.Option(["--max-frames"], type=int, help="Scored frames after which to end."),
    ],
)

if __name__ == "__main__":
    stream(prog_name="stream.py")
