"""`edgeseg fit` and `edgeseg synthesize`."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgeseg.cli.settings import parse_layers as parse_layers
from edgeseg.cli.settings import parse_size as parse_size
from edgeseg.cli.settings import said_settings, settings_options
from edgeseg.data.datasets import LAYOUTS
from edgeseg.errors import UsageError
from edgeseg.files import size_text

if TYPE_CHECKING:
    import torch

    from edgeseg.data.samples import Sample
    from edgeseg.fitting.parallel.group import Group

dataset_option = click.option(
    "--dataset",
    "layout",
    type=click.Choice(tuple(LAYOUTS)),
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
_resume_option = click.option(
    "--resume",
    is_flag=True,
    help="Go on from the checkpoints that a stopped run left in OUT.parts.",
)
_checkpoint_option = click.option(
    "--checkpoint-seconds",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    help="Time between checkpoints.",
)
device_option = click.option(
    "--device",
    type=click.Choice(("auto", "cpu")),
    default="auto",
    show_default=True,
    help="auto: a GPU where there is one.",
)
quiet_option = click.option("--quiet", "-q", is_flag=True, help="No progress, no notes.")


def sweep_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What every command has that goes through a whole data set once."""
    for option in (quiet_option, batch_option, max_bad_option, fold_option, dataset_option):
        command = option(command)
    for option in (device_option, _checkpoint_option, _resume_option):
        command = option(command)
    return command


def note(text: str) -> None:
    """A line about what is going on; data goes to stdout, this does not."""
    click.echo(text, err=True)


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    required=True,
    help="Where to write the model, for example part.edgeseg; with --all the folder of the models.",
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Fit on every dataset below DATA, go on after a failure, and print a table.",
)
@click.option("--skip-existing", is_flag=True, help="With --all: keep the models that are there.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print what became of it as JSON, with --all of each."
)
@click.option(
    "--robust",
    type=click.Choice(("list", "drop")),
    is_flag=False,
    flag_value="list",
    help="Compare all images with each other and list those that do not belong, with pictures; "
    "drop: leave them out of the fit.",
)
@settings_options
@click.option(
    "--anomalies",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of defective images: choose the threshold by F1 instead.",
)
@click.option("--no-moments", is_flag=True, help="Smaller file that cannot be updated later.")
@sweep_options
def fit(
    data: Path,
    out: Path,
    every: bool,
    skip_existing: bool,
    as_json: bool,
    robust: str | None,
    preset: str,
    weights: str | None,
    anomalies: Path | None,
    no_moments: bool,
    layout: str | None,
    fold: int | None,
    max_bad: int,
    batch_size: int,
    quiet: bool,
    resume: bool,
    checkpoint_seconds: float,
    device: str,
) -> None:
    """Fit a model on the good images in DATA.

    \b
    edgeseg fit mvtec_ad/bottle --out bottle.edgeseg
    edgeseg fit photos/good --out part.edgeseg --backbone efficientnet_lite0
    edgeseg fit KolektorSDD --fold 0 --size 704x256 --preset paper --out kos.edgeseg
    edgeseg fit photos/good --out part.edgeseg --robust
    edgeseg fit mvtec_ad --all --out models
    torchrun --nproc-per-node 2 -m edgeseg fit mvtec_ad/bottle --out bottle.edgeseg
    """
    from edgeseg.cli.fit_all import check_out, fit_all
    from edgeseg.cli.fit_job import FitJob
    from edgeseg.fitting.options import FitOptions
    from edgeseg.progress import bar, silent

    check_out(data, out, every=every, skip_existing=skip_existing)
    with together() as group:
        silently = quiet or group.rank > 0  # of several processes, one talks
        options = FitOptions(
            weights=weights,
            batch_size=batch_size,
            max_bad=max_bad,
            keep_moments=not no_moments,
            anomalies=_anomalies(anomalies),
            group=group,
            device=find_device(device),
            progress=silent if silently else bar,
            note=(lambda _: None) if silently else note,
        )
        job = FitJob(
            preset=preset,
            settings=said_settings(),
            layout=layout,
            fold=fold,
            robust=robust,
            resume=resume,
            checkpoint_seconds=checkpoint_seconds,
            options=options,
            show=options.note if every or as_json else click.echo,
        )
        if every:
            fit_all(job, data, out, skip_existing=skip_existing, as_json=as_json)
            return
        outcome = job.run(data, out)
        if as_json and group.rank == 0:
            click.echo(json.dumps(outcome.to_dict(), indent=2))
        options.note(
            f"wrote {out} ({size_text(out.stat().st_size)}) in {outcome.seconds:.1f} s; "
            f"next: edgeseg eval {out} {data}"
        )


@contextmanager
def together() -> "Iterator[Group]":
    """The processes that torchrun has started, or this one alone; one of them says what failed."""
    from edgeseg.fitting.parallel.torchrun import OtherFailed, processes

    try:
        with processes() as group:
            yield group
    except OtherFailed as error:
        click.get_current_context().exit(error.exit_code)


def parts_of(out: Path) -> Path:
    """Where the checkpoints of a result are."""
    return out.with_name(f"{out.name}.parts")


def find_device(wish: str) -> "torch.device":
    """This process's GPU or the CPU."""
    import torch

    from edgeseg.fitting.parallel.torchrun import choose_device

    return choose_device() if wish == "auto" else torch.device(wish)


def _anomalies(folder: Path | None) -> "tuple[Sample, ...]":
    from edgeseg.data.layouts import find_folder

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
    from edgeseg.data.synthetic.scene import write_dataset

    write_dataset(
        out,
        size_hw=size_hw,
        train=train,
        test_good=test_good,
        test_defective=test_defective,
        seed=seed,
    )
    note(f"wrote {out}; next: edgeseg fit {out} --out {out.name}.edgeseg")
