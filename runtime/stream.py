"""Run an exported model on cameras, streams, videos and folders.

Light on purpose: `edgeseg --help` imports this, so everything heavy waits for the run.
"""

import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import click

from edgeseg.errors import EdgesegError
from edgeseg.runtime.options import StreamOptions

EXAMPLES = """Score every frame, say what is wrong and how long it took.

\b
edgeseg stream --model part.onnx --source 0
edgeseg stream --model part.onnx --source rtsp://user:pw@cam/1 --events events.jsonl --serve 8080
edgeseg stream --model part.onnx --source clip.mp4 --save annotated.mp4 --report latency.json
edgeseg stream --model part.onnx --source synthetic:fps=30,defects=0.1 --duration 60
"""


class StreamCommand(click.Command):
    """Passes its options on as one checked value."""

    def invoke(self, ctx: click.Context) -> None:
        """Run the stream; a user's mistake ends in one sentence."""
        try:
            _run(StreamOptions(**ctx.params))
        except EdgesegError as error:
            click.secho(f"Error: {error}", fg="red", err=True)
            ctx.exit(error.exit_code)


def _run(options: StreamOptions) -> None:
    from edgeseg.runtime.run import run_stream

    stop = threading.Event()
    before = {number: _stop_on(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        run_stream(
            options,
            stop=stop,
            say=lambda message: click.echo(message, err=True),
            # Events on standard output must stay one JSON object per line.
            show_result=lambda text: click.echo(text, err=options.events == "-"),
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


_FILE = click.Path(dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)

stream = StreamCommand(
    "stream",
    help=EXAMPLES,
    context_settings={"show_default": True, "help_option_names": ["-h", "--help"]},
    params=[
        click.Option(["--model"], type=_FILE, required=True, help="A .onnx or .plan file."),
        click.Option(
            ["--source"],
            multiple=True,
            required=True,
            envvar="EDGESEG_SOURCE",
            show_envvar=True,
            help="Camera index, /dev/video0, rtsp:// or http:// URL, video, folder or glob of "
            "images, GStreamer pipeline, or synthetic:fps=30,defects=0.1,frames=0,seed=0. "
            "May be given several times.",
        ),
        click.Option(
            ["--backend"],
            type=click.Choice(["auto", "tensorrt", "cuda", "cpu", "openvino"]),
            default="auto",
            help="auto: TensorRT, else CUDA, else CPU, and says why.",
        ),
        click.Option(["--threads"], type=int, help="Processor threads; default: all cores."),
        click.Option(
            ["--allow-random-weights"], is_flag=True, help="Run a model that was never trained."
        ),
        click.Option(["--threshold"], type=float, help="Instead of the model's own."),
        click.Option(
            ["--policy"],
            type=click.Choice(["latest", "queue", "every"]),
            help="Which frames to drop; default: latest for live sources, every for files.",
        ),
        click.Option(["--queue-size"], type=int, default=8, help="Frames, for --policy queue."),
        click.Option(["--realtime"], is_flag=True, help="Play video files at their own rate."),
        click.Option(
            ["--stall-timeout"],
            type=float,
            default=5.0,
            help="Seconds without a frame after which a live source counts as lost.",
        ),
        click.Option(["--roi"], metavar="X,Y,W,H", help="Look only at this part of the frame."),
        click.Option(
            ["--tile"],
            is_flag=True,
            help="Score large frames in overlapping tiles; a model fitted on tiles does it itself.",
        ),
        click.Option(["--tile-overlap"], type=float, default=0.25, help="Share of a tile."),
        click.Option(
            ["--debounce"],
            metavar="K/N",
            default="1/1",
            help="Alarm when K of the last N frames are not good.",
        ),
        click.Option(["--events"], metavar="FILE", help="JSON lines; - for standard output."),
        click.Option(
            ["--events-for"],
            type=click.Choice(["all", "alarms"]),
            default="all",
            help="Frames to write.",
        ),
        click.Option(["--save"], type=_FILE, help="Annotated video, .mp4, .mkv, .mov or .avi."),
        click.Option(["--snapshots"], type=_FOLDER, help="Pictures of alarms."),
        click.Option(["--snapshot-count"], type=int, default=1000, help="Keep so many."),
        click.Option(["--snapshot-bytes"], type=int, default=1_000_000_000, help="At most."),
        click.Option(["--show"], is_flag=True, help="Open a window; q ends the run."),
        click.Option(["--serve"], type=int, metavar="PORT", help="Live page and /metrics."),
        click.Option(["--host"], default="127.0.0.1", help="Address of the page."),
        click.Option(
            ["--token-file"], type=_FILE, help="Token of the page; needed off this computer."
        ),
        click.Option(
            ["--recordings"],
            type=_FOLDER,
            default=Path("recordings"),
            help="Where the page's recording button writes.",
        ),
        click.Option(
            ["--stale-after"],
            type=float,
            default=10.0,
            help="/healthz fails after so many seconds without a scored frame.",
        ),
        click.Option(
            ["--drift/--no-drift"],
            default=True,
            help="Warn when light, focus or position has moved.",
        ),
        click.Option(["--report"], type=_FILE, help="Latency and accuracy, .json, text beside it."),
        click.Option(
            ["--status-every"], type=float, default=5.0, help="Seconds between lines; 0: none."
        ),
        click.Option(["--duration"], type=float, help="Seconds after which to end."),
        click.Option(["--max-frames"], type=int, help="Scored frames after which to end."),
    ],
)

if __name__ == "__main__":
    stream(prog_name="stream.py")
