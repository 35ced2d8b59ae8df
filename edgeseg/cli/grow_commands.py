"""`edgeseg moments`, `edgeseg merge` and `edgeseg update`: models that are not fitted at once."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgeseg.cli.fit_command import (
    batch_option,
    device_option,
    find_device,
    max_bad_option,
    note,
    parts_of,
    quiet_option,
    sweep_options,
)
from edgeseg.cli.settings import cut_into_tiles, read_settings, said_settings, settings_options
from edgeseg.errors import UsageError
from edgeseg.files import check_writable, size_text

if TYPE_CHECKING:
    from edgeseg.data.datasets import Dataset
    from edgeseg.fitting.fitting import FitOptions

_folder = click.Path(path_type=Path, file_okay=False)
_file = click.Path(path_type=Path, dir_okay=False)
_out_option = click.option("--out", "-o", type=_file, required=True, help="Where to write it.")
calibrate_option = click.option(
    "--calibrate", type=_folder, help="Good images that were not fitted: take the threshold here."
)


def parse_shard(value: str) -> tuple[int, int]:
    """INDEX/COUNT, counted from 0: 0/8 to 7/8."""
    parts = value.split("/")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise click.BadParameter(f"{value!r}: expected INDEX/COUNT such as 0/8")
    return int(parts[0]), int(parts[1])


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--shard",
    type=parse_shard,
    required=True,
    metavar="INDEX/COUNT",
    help="Which part of the images, counted from 0.",
)
@_out_option
@settings_options
@sweep_options
def moments(
    data: Path,
    shard: tuple[int, int],
    out: Path,
    preset: str,
    weights: str | None,
    resume: bool,
    checkpoint_seconds: float,
    device: str,
    layout: str | None,
    fold: int | None,
    max_bad: int,
    batch_size: int,
    quiet: bool,
) -> None:
    """Sum up a part of the good images in DATA, for `edgeseg merge`.

    \b
    edgeseg moments mvtec_ad/bottle --shard 0/2 --out s_0
    edgeseg moments mvtec_ad/bottle --shard 1/2 --out s_1
    edgeseg merge s_0 s_1 --out bottle.edgeseg
    """
    from edgeseg.data.datasets import open_dataset
    from edgeseg.fitting.checkpoint import Checkpoint
    from edgeseg.fitting.options import Checkpoints, Shard
    from edgeseg.fitting.parallel.shards import write_shard

    started = time.perf_counter()
    settings = said_settings()
    config = read_settings(preset, settings)
    part = Shard(index=shard[0], count=shard[1])
    check_writable(out)
    checkpoints = Checkpoints(folder=parts_of(out), resume=resume, seconds=checkpoint_seconds)
    options = replace(
        _options(max_bad=max_bad, batch_size=batch_size, quiet=quiet, device=device),
        weights=weights,
        checkpoints=checkpoints,
    )
    dataset = open_dataset(data, layout=layout, fold=fold, seed=config.seed)
    config = cut_into_tiles(config, settings, dataset)
    images = write_shard(dataset, config, options, shard=part, path=out)
    Checkpoint(checkpoints, shard=part).discard()
    options.note(
        f"wrote {out} ({size_text(out.stat().st_size)}, {images} images) in "
        f"{time.perf_counter() - started:.1f} s; "
        f"next: edgeseg merge with all {part.count} shards --out MODEL"
    )


@click.command()
@click.argument("parts", nargs=-1, required=True, type=click.Path(path_type=Path))
@_out_option
@calibrate_option
@max_bad_option
@batch_option
@quiet_option
def merge(
    parts: tuple[Path, ...],
    out: Path,
    calibrate: Path | None,
    max_bad: int,
    batch_size: int,
    quiet: bool,
) -> None:
    """Join the shards of one data set, or models of the same settings, into one model.

    \b
    edgeseg merge s_* --out bottle.edgeseg
    edgeseg merge line1.edgeseg line2.edgeseg --out both.edgeseg
    """
    from edgeseg.artefact.artefact import load_artefact, read_header, save_artefact
    from edgeseg.fitting.parallel.shards import is_shard, merge_shards
    from edgeseg.fitting.update import merge_models

    started = time.perf_counter()
    if len({path.resolve() for path in parts}) < len(parts):
        raise UsageError("a file is named twice: its images would count twice; name each once")
    check_writable(out)
    options = _options(max_bad=max_bad, batch_size=batch_size, quiet=quiet)
    shards = [path for path in parts if is_shard(path)]
    models = [path for path in parts if path not in shards]
    for path in models:
        read_header(path)  # says what is wrong with a file that is neither
    if shards and models:
        raise UsageError(f"{shards[0]} is a shard and {models[0]} a model; merge the shards first")
    if shards:
        if calibrate is not None:
            raise UsageError("--calibrate: shards bring their own images for that; leave it out")
        merged = merge_shards(shards, options)
    else:
        if len(models) < 2:
            raise UsageError(f"{models[0]} is a whole model; name another one to join it with")
        loaded = {path.name: load_artefact(path) for path in models}
        merged = merge_models(loaded, apart=_folder_of(calibrate, "--calibrate"), options=options)
    save_artefact(merged, out)
    options.note(
        f"wrote {out} ({size_text(out.stat().st_size)}) in {time.perf_counter() - started:.1f} s; "
        f"next: edgeseg info {out}"
    )


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("more", required=False, type=_folder)
@click.option("--forget", type=_folder, help="Fitted images that turned out to be bad.")
@click.option(
    "--decay",
    type=float,
    default=1.0,
    show_default=True,
    help="What every earlier image counts for afterwards, for slow drift.",
)
@click.option("--out", "-o", type=_file, help="Where to write it.  [default: MODEL itself]")
@calibrate_option
@max_bad_option
@batch_option
@device_option
@quiet_option
def update(
    model: Path,
    more: Path | None,
    forget: Path | None,
    decay: float,
    out: Path | None,
    calibrate: Path | None,
    max_bad: int,
    batch_size: int,
    device: str,
    quiet: bool,
) -> None:
    """Add the good images in MORE to MODEL, or take images out, without fitting again.

    \b
    edgeseg update part.edgeseg more_good/
    edgeseg update part.edgeseg --forget bad/ --out mended.edgeseg
    edgeseg update part.edgeseg today/ --decay 0.95
    """
    from edgeseg.artefact.artefact import load_artefact, save_artefact
    from edgeseg.fitting.update import Changes
    from edgeseg.fitting.update import update as run_update

    started = time.perf_counter()
    out = out or model
    artefact = load_artefact(model)
    options = _options(max_bad=max_bad, batch_size=batch_size, quiet=quiet, device=device)
    changes = Changes(
        more=_folder_of(more, "MORE"),
        forget=_folder_of(forget, "--forget"),
        decay=decay,
        calibrate=_folder_of(calibrate, "--calibrate"),
    )
    check_writable(out)
    changed = run_update(artefact, changes, options)
    save_artefact(changed, out)
    about = "about " if changed.moments is not None and changed.moments.decayed else ""
    options.note(
        f"wrote {out} ({about}{changed.data['fitted']} images) in "
        f"{time.perf_counter() - started:.1f} s; next: edgeseg export {out}"
    )


def _options(*, max_bad: int, batch_size: int, quiet: bool, device: str = "cpu") -> "FitOptions":
    from edgeseg.fitting.options import FitOptions
    from edgeseg.progress import bar, silent

    return FitOptions(
        batch_size=batch_size,
        max_bad=max_bad,
        device=find_device(device),
        progress=silent if quiet else bar,
        note=(lambda _: None) if quiet else note,
    )


def _folder_of(folder: Path | None, option: str) -> "Dataset | None":
    from edgeseg.data.datasets import open_dataset

    if folder is None:
        return None
    if not folder.is_dir():
        raise UsageError(f"{option} {folder}: no such folder; expected a folder of pictures")
    return open_dataset(folder)
