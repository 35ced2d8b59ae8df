"""`edgeseg synthesize`."""

from pathlib import Path
from typing import Literal

import click

from edgeseg.base.options import FOLDER, SIZE, command_line, note
from edgeseg.config import FitConfig


@click.command(context_settings={"show_default": True})
@click.argument("out", type=FOLDER)
@click.option(
    "--size", "size_hw", type=SIZE, default=SIZE.text(FitConfig.size_hw), help="Image size."
)
@click.option("--train", type=click.IntRange(1), default=40, help="Good images to fit on.")
@click.option("--test-good", type=click.IntRange(0), default=10, help="Good images to test on.")
@click.option(
    "--test-defective", type=click.IntRange(0), default=5, help="Images of each kind of defect."
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Another seed, another part.")
@click.option(
    "--show",
    type=click.Choice(["part", "tray"]),
    default="part",
    help="One part in a picture, or a tray of six to nine that lie anywhere.",
)
def synthesize(
    out: Path,
    size_hw: tuple[int, int],
    train: int,
    test_good: int,
    test_defective: int,
    seed: int,
    show: Literal["part", "tray"],
) -> None:
    """Make a data set of a synthetic part, with defects and exact masks.

    \b
    edgeseg synthesize plate --train 40
    edgeseg synthesize trays --show tray --size 512
    """
    from edgeseg.data.synthetic.scene import write_dataset

    write_dataset(
        out,
        size_hw=size_hw,
        train=train,
        test_good=test_good,
        test_defective=test_defective,
        seed=seed,
        show=show,
    )
    how = ("--locate", "blobs") if show == "tray" else ()
    following = command_line("fit", out, *how, "--out", f"{out.name}.edgeseg")
    note(f"wrote {out}; next: {following}")
