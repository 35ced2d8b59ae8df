"""Options of the commands that read a dataset, and the settings of a fit that follow from them."""

from dataclasses import dataclass, replace
from pathlib import Path

import click

from edgeseg.base.options import RegistryName, Shared, listeners
from edgeseg.base.typed_options import option_of, same_as, takes, typed
from edgeseg.data.datasets import LAYOUTS
from edgeseg.fitting.options import Checkpoints, FitOptions
from edgeseg.vision.group_by import GroupBy

LOOK, THRESHOLD, METHOD = "what to look at", "the threshold", "the method"
RUN, STUDIES = "the run", "settings for studies"
FIT_GROUPS = (LOOK, THRESHOLD, METHOD, RUN, STUDIES)  # of the help of a fit, in this order


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """Options of a command that reads images."""

    max_bad: int = typed(
        FitOptions.max_bad,
        "Unreadable images to skip; one more is an error.",
        kind=click.IntRange(0),
        group=LOOK,
    )
    max_pixels: int = typed(
        FitOptions.max_pixels,
        "Most pixels of a picture, as its header says; a larger one is not decoded.",
        kind=click.IntRange(1),
        group=LOOK,
    )
    batch_size: int = typed(
        FitOptions.batch_size, "Images that are processed at a time.", kind=click.IntRange(1)
    )
    quiet: bool = same_as(Shared, "quiet")

    def fit_options(self) -> FitOptions:
        """Return these options in the record that a fit takes."""
        note, progress = listeners(quiet=self.quiet)
        return FitOptions(
            batch_size=self.batch_size,
            max_bad=self.max_bad,
            max_pixels=self.max_pixels,
            progress=progress,
            note=note,
        )


@dataclass(frozen=True, kw_only=True)
class LayoutOptions(ImageOptions):
    """Options of a command that reads the images of a dataset."""

    layout: str | None = typed(
        None,
        "Layout of DATA, where it is not recognised.  [default: recognised by its folders]",
        kind=RegistryName(LAYOUTS),
        flags=("--dataset",),
        group=LOOK,
    )
    fold: int | None = typed(
        None,
        "Fold of KolektorSDD to test on; the others are fitted.",
        kind=click.IntRange(0, max(layout.folds for layout in LAYOUTS.values()) - 1),
        group=LOOK,
    )


@dataclass(frozen=True, kw_only=True)
class FittedImageOptions(ImageOptions):
    """Options of a command that fits a model on images."""

    device: str = typed(
        "auto",
        "Where torch computes. auto: on a GPU where there is one.",
        kind=click.Choice(("auto", "cpu")),
    )
    group_by: str = same_as(Shared, "group_by")

    def fit_options(self) -> FitOptions:
        """Return these options in the record that a fit takes."""
        by = GroupBy(text=self.group_by)
        return replace(super().fit_options(), device=self.device, group_by=by)


@dataclass(frozen=True, kw_only=True)
class PassOptions(LayoutOptions, FittedImageOptions):
    """Options of a command that passes once through all images of a dataset."""

    resume: bool = typed(False, "Go on from the checkpoints that a stopped run left in OUT.parts.")
    checkpoint_seconds: float = typed(
        Checkpoints.seconds, "Seconds between checkpoints.", kind=click.FloatRange(0)
    )

    def checkpoints(self, folder: Path) -> Checkpoints:
        """Folder of the checkpoints, their interval, and whether the pass resumes from them."""
        return Checkpoints(folder=folder, resume=self.resume, seconds=self.checkpoint_seconds)


max_pixels_option = option_of(ImageOptions, "max_pixels")
pass_options = takes("images", PassOptions, group=RUN)
