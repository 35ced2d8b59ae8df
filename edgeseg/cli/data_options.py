"""Options of the commands that go through a dataset, and what a fit takes from them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from edgeseg.contract.group_by import AUTO, GroupBy
from edgeseg.data.datasets import LAYOUTS
from edgeseg.fitting.options import Checkpoints, FitOptions
from edgeseg.options import Entry, gathered, group_by_option, listeners, quiet_option

if TYPE_CHECKING:
    pass

dataset_option = click.option(
    "--dataset",
    "layout",
    type=Entry(LAYOUTS),
    help="Force the layout of DATA instead of recognising it.",
)
fold_option = click.option(
    "--fold",
    type=click.IntRange(0, max(layout.folds for layout in LAYOUTS.values()) - 1),
    help="Fold of KolektorSDD to test on; the others are fitted.",
)
max_bad_option = click.option(
    "--max-bad",
    type=click.IntRange(0),
    default=FitOptions.max_bad,
    show_default=True,
    help="Unreadable images to skip before stopping.",
)
max_pixels_option = click.option(
    "--max-pixels",
    type=click.IntRange(1),
    default=FitOptions.max_pixels,
    show_default=True,
    help="Of a picture by its header; a larger one is not decoded.",
)
batch_option = click.option(
    "--batch-size",
    type=click.IntRange(1),
    default=FitOptions.batch_size,
    show_default=True,
    help="Images at a time.",
)
device_option = click.option(
    "--device",
    type=click.Choice(("auto", "cpu")),
    default="auto",
    show_default=True,
    help="auto: a GPU where there is one.",
)


@dataclass(frozen=True, kw_only=True)
class PassOptions:
    """How a command goes through all images of a dataset once."""

    resume: bool
    checkpoint_seconds: float
    device: str
    layout: str | None
    fold: int | None
    max_bad: int
    max_pixels: int
    batch_size: int
    group_by: str
    quiet: bool

    def fit_options(self) -> FitOptions:
        """What a fit takes of them."""
        return fit_options(
            max_bad=self.max_bad,
            max_pixels=self.max_pixels,
            batch_size=self.batch_size,
            quiet=self.quiet,
            device=self.device,
            group_by=self.group_by,
        )


pass_options = gathered(
    "images",
    PassOptions,
    click.option(
        "--resume",
        is_flag=True,
        help="Go on from the checkpoints that a stopped run left in OUT.parts.",
    ),
    click.option(
        "--checkpoint-seconds",
        type=click.FloatRange(0),
        default=Checkpoints.seconds,
        show_default=True,
        help="Time between checkpoints.",
    ),
    device_option,
    dataset_option,
    fold_option,
    max_bad_option,
    max_pixels_option,
    batch_option,
    group_by_option,
    quiet_option,
)


def fit_options(
    *,
    max_bad: int,
    batch_size: int,
    quiet: bool,
    device: str = "cpu",
    max_pixels: int = FitOptions.max_pixels,
    group_by: str = AUTO,
) -> FitOptions:
    """What a fit takes from the command line."""
    note, progress = listeners(quiet=quiet)
    return FitOptions(
        batch_size=batch_size,
        max_bad=max_bad,
        max_pixels=max_pixels,
        device=device,
        group_by=GroupBy(text=group_by),
        progress=progress,
        note=note,
    )
