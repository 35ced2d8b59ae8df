"""`edgeseg fit` and `edgeseg synthesize`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgeseg.config import CHOICES, EMBEDDINGS, PRESETS, FitConfig
from edgeseg.errors import UsageError
from edgeseg.files import check_writable, size_text

if TYPE_CHECKING:
    from edgeseg.samples import Sample

LAYOUT_NAMES = ("mvtec", "kolektor", "kolektor2", "mstc", "folder")


def parse_size(value: str | tuple[int, int]) -> tuple[int, int]:
    """HEIGHTxWIDTH, or one number for a square: 704x256, 256."""
    if isinstance(value, tuple):
        return value
    parts = value.lower().split("x")
    if len(parts) > 2 or not all(part.isdecimal() for part in parts):
        raise click.BadParameter(f"{value!r}: expected HEIGHTxWIDTH such as 704x256, or one number")
    return int(parts[0]), int(parts[-1])


def parse_layers(value: str | tuple[int, ...]) -> tuple[int, ...]:
    """Layer numbers with commas: 1,2,3."""
    if isinstance(value, tuple):
        return value
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise click.BadParameter(f"{value!r}: expected layer numbers such as 1,2,3")
    return tuple(int(part) for part in parts)


dataset_option = click.option(
    "--dataset",
    "layout",
    type=click.Choice(LAYOUT_NAMES),
    help="Force the layout of DATA instead of recognising it.",
)
fold_option = click.option(
    "--fold",
    type=click.IntRange(0, 2),
    help="Fold of KolektorSDD to test on; the others are fitted.",
)
max_bad_option = click.option(
    "--max-bad",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Unreadable images to skip before stopping.",
)
batch_option = click.option(
    "--batch-size", default=8, show_default=True, type=click.IntRange(1), help="Images at a time."
)
quiet_option = click.option("--quiet", "-q", is_flag=True, help="No progress, no notes.")


def note(text: str) -> None:
    """A line about what is going on; data goes to stdout, this does not."""
    click.echo(text, err=True)


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="Where to write the model, for example part.edgeseg.",
)
@click.option(
    "--preset",
    type=click.Choice(tuple(PRESETS)),
    default="edge",
    show_default=True,
    help="edge: fast and accurate. paper: the published method. Options below override.",
)
@click.option(
    "--backbone",
    help="resnet18 (default), mobilenet_v3_small, mobilenet_v3_large, "
    "wide_resnet50_2 or efficientnet_lite0 (needs no download).",
)
@click.option("--weights", help="A .pth file of the backbone, or `random` for experiments.")
@click.option(
    "--size", "size_hw", type=parse_size, metavar="HxW", help="Size the images are brought to."
)
@click.option(
    "--layers",
    type=parse_layers,
    metavar="N,N",
    help="Layers of the backbone to use, such as 1,2,3.",
)
@click.option("--stride", type=int, help="Pixels per grid cell: 4 is finer, 8 is faster.")
@click.option(
    "--interpolation",
    type=click.Choice(CHOICES["interpolation"]),
    help="How layers reach the grid.",
)
@click.option(
    "--embedding",
    type=click.Choice(EMBEDDINGS),
    help="How F features become k; identity "
    "with --rank and --directions keeps the eigenvectors of every location.",
)
@click.option("-k", "--k", type=int, help="Size of the embedding.")
@click.option(
    "--rank", type=float, help="Directions kept per location: a share of k, a number, or 0 for all."
)
@click.option(
    "--directions",
    type=click.Choice(CHOICES["directions"]),
    help="Of smallest variance or largest.",
)
@click.option(
    "--covariance", type=click.Choice(CHOICES["covariance"]), help="Per location, or one for all."
)
@click.option("--pool", type=int, help="Pool statistics with N x N neighbours.")
@click.option("--share", type=int, help="N x N cells use one Gaussian: smaller and faster.")
@click.option("--ridge", type=float, help="Added to every variance before inversion.")
@click.option("--sigma", type=float, help="Blur of the map in pixels.")
@click.option("--top", type=int, help="Score: mean of the N highest cells; 1: maximum of the map.")
@click.option("--seed", type=int, help="Of the embedding and the choice of calibration images.")
@click.option(
    "--calibration",
    type=click.Choice(CHOICES["calibration"]),
    help="cross: every image is fitted and calibrated on. holdout: some are set aside.",
)
@click.option("--holdout", type=float, help="Share of images set aside with --calibration holdout.")
@click.option("--folds", type=int, help="Folds of --calibration cross.")
@click.option("--false-alarm-rate", type=float, help="Good images that may be flagged.")
@click.option(
    "--anomalies",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of defective images: choose the threshold by F1 instead.",
)
@click.option("--no-moments", is_flag=True, help="Smaller file that cannot be updated later.")
@dataset_option
@fold_option
@max_bad_option
@batch_option
@quiet_option
def fit(
    data: Path,
    out: Path,
    preset: str,
    weights: str | None,
    anomalies: Path | None,
    no_moments: bool,
    layout: str | None,
    fold: int | None,
    max_bad: int,
    batch_size: int,
    quiet: bool,
    **settings: Any,
) -> None:
    """Fit a model on the good images in DATA.

    \b
    edgeseg fit mvtec_ad/bottle --out bottle.edgeseg
    edgeseg fit photos/good --out part.edgeseg --backbone efficientnet_lite0
    edgeseg fit KolektorSDD --fold 0 --size 704x256 --preset paper --out kos.edgeseg
    """
    from edgeseg.artefact import save_artefact
    from edgeseg.datasets import open_dataset
    from edgeseg.fit import FitOptions
    from edgeseg.fit import fit as run_fit
    from edgeseg.progress import bar, silent

    started = time.perf_counter()
    given = {name: value for name, value in settings.items() if value is not None}
    config = FitConfig.preset(preset).with_options(given)
    check_writable(out)
    dataset = open_dataset(data, layout=layout, fold=fold, seed=config.seed)
    say = (lambda _: None) if quiet else note
    for line in dataset.notes:
        say(line)
    options = FitOptions(
        weights=weights,
        batch_size=batch_size,
        max_bad=max_bad,
        keep_moments=not no_moments,
        anomalies=_anomalies(anomalies),
        progress=silent if quiet else bar,
        note=say,
    )
    artefact = run_fit(dataset, config, options)
    save_artefact(artefact, out)
    say(
        f"wrote {out} ({size_text(out.stat().st_size)}) in {time.perf_counter() - started:.1f} s; "
        f"next: edgeseg eval {out} {data}"
    )


def _anomalies(folder: Path | None) -> "tuple[Sample, ...]":
    from edgeseg.layouts import find_folder

    if folder is None:
        return ()
    samples = find_folder(folder).train
    if not samples:
        raise UsageError(f"--anomalies {folder}: no images; expected pictures of defective parts")
    return samples


@click.command(context_settings={"show_default": True})
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option("--size", "size_hw", type=parse_size, metavar="HxW", default="256")
@click.option("--train", type=click.IntRange(1), default=40, help="Good images to fit on.")
@click.option("--test-good", type=click.IntRange(0), default=10, help="Good images to test on.")
@click.option("--test-defective", type=click.IntRange(0), default=5, help="Per kind of defect.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Another seed, another part.")
def synthesize(
    out: Path, size_hw: tuple[int, int], train: int, test_good: int, test_defective: int, seed: int
) -> None:
    """Make a data set of a synthetic part, with defects and exact masks.

    \b
    edgeseg synthesize plate --train 40
    """
    from edgeseg.synthetic import write_dataset

    write_dataset(
        out,
        size_hw=size_hw,
        train=train,
        test_good=test_good,
        test_defective=test_defective,
        seed=seed,
    )
    note(f"wrote {out}; next: edgeseg fit {out} --out {out.name}.edgeseg")
