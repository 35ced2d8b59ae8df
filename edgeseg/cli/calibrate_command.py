"""`edgeseg calibrate`: the threshold of a model on the computer that runs it."""

from pathlib import Path

import click

from edgeseg.base.options import FILE, PATH, group_by_option, listeners, note, quiet_option
from edgeseg.base.typed_options import option_of
from edgeseg.modelfile.signature import note_stale
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.run.calibrate import calibrate_here
from edgeseg.runtime.scoring.detector import open_detector
from edgeseg.runtime.settings.opening_options import opening_options
from edgeseg.runtime.settings.options import StreamOptions


@click.command()
@click.argument("model", type=FILE)
@click.argument("good_images", type=PATH)
@click.option(
    "--rate",
    type=float,
    help="Share of good parts that may be called defective.  [default: the stored one]",
)
@option_of(StreamOptions, "max_pixels")
@group_by_option
@opening_options
@quiet_option
def calibrate(
    model: Path,
    good_images: Path,
    rate: float | None,
    max_pixels: int,
    group_by: str,
    opening: SessionOptions,
    quiet: bool,
) -> None:
    """Choose the threshold of MODEL on this computer, from its scores of GOOD_IMAGES.

    MODEL is a .onnx or .plan file. The session that will run it scores the good images, decoded and
    resized as the stream does; threshold, good scores and drift baseline go into the sidecar
    beside MODEL, with their history, and are used from then on. No torch, no onnx.

    Take good images that the model was not fitted on: those that it knows score lower than new
    ones, and a threshold from them gives more false alarms than it promises. Several pictures of
    one part count as one part: frames of a video, a part that rests under the camera, retakes.

    \b
    edgeseg calibrate part.plan parts/good-of-this-camera
    edgeseg calibrate part.onnx parts/good --backend openvino --rate 0.02
    """
    note_to, progress = listeners(quiet=quiet)
    with open_detector(model, opening, note=note_to) as detector:
        click.echo(
            calibrate_here(
                detector,
                model,
                good_images,
                rate=rate,
                max_pixels=max_pixels,
                group_by=group_by,
                note=note_to,
                progress=progress,
            )
        )
    note_stale(model, note)
    note(f"wrote {model.with_suffix('.json')}; see it with: edgeseg threshold {model}")
