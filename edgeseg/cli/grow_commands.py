"""`edgeseg moments`, `edgeseg merge` and `edgeseg update`: models that are not fitted at once."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgeseg.base.errors import UsageError
from edgeseg.base.files import check_writable, size_text
from edgeseg.base.options import (
    FILE,
    FOLDER,
    PATH,
    Numbers,
    command_line,
    graph_option,
    note,
    trust_option,
)
from edgeseg.base.typed_options import GroupedCommand, Option, takes
from edgeseg.cli.data_options import (
    FIT_GROUPS,
    LOOK,
    RUN,
    FittedImageOptions,
    ImageOptions,
    PassOptions,
    pass_options,
)
from edgeseg.cli.fit_settings import FitSettings, settings_options
from edgeseg.cli.needs import check_fit_needs, check_needs
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.fitting.options import Changes, FitOptions, Shard
from edgeseg.modelfile.header import check_artefact_name, read_config, read_header
from edgeseg.modelfile.signature import admit, note_stale

if TYPE_CHECKING:
    from edgeseg.model.artefact import Artefact

SHARD = Numbers("INDEX/COUNT", sign="/", counts=(2,), expected="INDEX/COUNT such as 0/8")
_out_option = click.option(
    "--out", "-o", cls=Option, type=FILE, required=True, help="File to write.", group=RUN
)
_calibrate_option = click.option(
    "--calibrate",
    type=FOLDER,
    help="Good images that were not fitted: choose the threshold from their scores.",
)


@click.command(cls=GroupedCommand, groups=FIT_GROUPS)
@click.argument("data", type=PATH)
@click.option(
    "--shard",
    cls=Option,
    type=SHARD,
    required=True,
    help="Which part of the images, counted from 0.",
    group=LOOK,
)
@_out_option
@settings_options
@pass_options
def moments(
    data: Path, shard: tuple[int, int], out: Path, settings: FitSettings, images: PassOptions
) -> None:
    """Sum up a part of the good images in DATA, for `edgeseg merge`.

    \b
    edgeseg moments mvtec_ad/bottle --shard 0/2 --out s_0
    edgeseg moments mvtec_ad/bottle --shard 1/2 --out s_1
    edgeseg merge s_0 s_1 --out bottle.edgeseg
    """
    part = Shard(index=shard[0], count=shard[1])
    check_fit_needs(settings.config(), None)
    plan = settings.plan(data, out, layout=images.layout, fold=images.fold)

    from edgeseg.fitting.checkpoint import Checkpoint, parts_of
    from edgeseg.fitting.parallel.shards import write_shard

    started = time.perf_counter()
    checkpoints = images.checkpoints(parts_of(out))
    options = replace(images.fit_options(), weights=settings.weights, checkpoints=checkpoints)
    count = write_shard(plan.dataset, plan.config, options, shard=part, path=out)
    Checkpoint(checkpoints, shard=part).discard()
    options.note(
        f"wrote {out} ({size_text(out.stat().st_size)}, {count} images) in "
        f"{time.perf_counter() - started:.1f} s; "
        f"next: edgeseg merge with all {part.count} shards --out MODEL"
    )


@click.command()
@click.argument("parts", nargs=-1, required=True, type=PATH)
@_out_option
@_calibrate_option
@graph_option
@takes("images", ImageOptions)
@trust_option
def merge(
    parts: tuple[Path, ...],
    out: Path,
    calibrate: Path | None,
    backbone_graph: Path | None,
    images: ImageOptions,
    trust: tuple[Path, ...],
) -> None:
    """Join the shards of one data set, or models of the same settings, into one model.

    \b
    edgeseg merge s_* --out bottle.edgeseg
    edgeseg merge line1.edgeseg line2.edgeseg --out both.edgeseg
    """
    if len({path.resolve() for path in parts}) < len(parts):
        raise UsageError("a file is named twice: its images would count twice; name each once")
    for path in parts:
        if not path.is_file():
            read_header(path)  # says so
        admit(path, trust)
    check_needs("safetensors")
    check_artefact_name(out)
    apart = _open(calibrate, "--calibrate")
    check_writable(out)

    from edgeseg.model.artefact import save_artefact

    started = time.perf_counter()
    options = images.fit_options()
    save_artefact(_merge(parts, apart, backbone_graph, options), out)
    options.note(
        f"wrote {out} ({size_text(out.stat().st_size)}) in {time.perf_counter() - started:.1f} s; "
        f"next: {command_line('info', out)}"
    )


def _merge(
    parts: tuple[Path, ...], apart: Dataset | None, graph: Path | None, options: FitOptions
) -> "Artefact":
    from edgeseg.fitting.parallel.shards import is_shard, merge_shards
    from edgeseg.fitting.update import merge_models
    from edgeseg.model.artefact import load_artefact

    shards = [path for path in parts if is_shard(path)]
    models = [path for path in parts if path not in shards]
    for path in models:
        read_header(path)  # says what is wrong with a file that is neither
    if shards and models:
        raise UsageError(f"{shards[0]} is a shard and {models[0]} a model; merge the shards first")
    if shards:
        if apart is not None:
            raise UsageError("--calibrate: shards bring their own images for that; leave it out")
        return merge_shards(shards, options)
    if len(models) < 2:
        raise UsageError(f"{models[0]} is a whole model; name another one to join it with")
    check_needs("safetensors")
    loaded = {path.name: load_artefact(path) for path in models}
    return merge_models(loaded, apart=apart, options=replace(options, graph=graph))


@click.command()
@click.argument("model", type=PATH)
@click.argument("more", required=False, type=FOLDER)
@click.option(
    "--forget", type=FOLDER, help="Take these fitted images out again: they turned out to be bad."
)
@click.option(
    "--decay",
    type=float,
    default=Changes.decay,
    show_default=True,
    help="Weight of every earlier image afterwards, such as 0.95 to follow slow drift.",
)
@click.option("--out", "-o", type=FILE, help="File to write.  [default: MODEL itself]")
@_calibrate_option
@graph_option
@takes("images", FittedImageOptions)
@trust_option
def update(
    model: Path,
    more: Path | None,
    forget: Path | None,
    decay: float,
    out: Path | None,
    calibrate: Path | None,
    backbone_graph: Path | None,
    images: FittedImageOptions,
    trust: tuple[Path, ...],
) -> None:
    """Add the good images in MORE to MODEL, or take images out, without fitting again.

    \b
    edgeseg update part.edgeseg more_good/
    edgeseg update part.edgeseg --forget bad/ --out mended.edgeseg
    edgeseg update part.edgeseg today/ --decay 0.95
    """
    out = out or model
    admit(model, trust)
    check_fit_needs(read_config(model), backbone_graph)
    check_artefact_name(out)
    changes = Changes(
        more=_open(more, "MORE"),
        forget=_open(forget, "--forget"),
        decay=decay,
        calibrate=_open(calibrate, "--calibrate"),
    )
    check_writable(out)

    from edgeseg.fitting.update import update as run_update
    from edgeseg.model.artefact import load_artefact, save_artefact

    started = time.perf_counter()
    options = replace(images.fit_options(), graph=backbone_graph)
    changed = run_update(load_artefact(model), changes, options)
    save_artefact(changed, out)
    note_stale(out, note)
    about = "about " if changed.moments is not None and changed.moments.decayed else ""
    options.note(
        f"wrote {out} ({about}{changed.data['fitted']} images) in "
        f"{time.perf_counter() - started:.1f} s; next: {command_line('export', out)}"
    )


def _open(folder: Path | None, option: str) -> Dataset | None:
    if folder is None:
        return None
    if not folder.is_dir():
        raise UsageError(f"{option} {folder}: no such folder; expected a folder of pictures")
    return open_dataset(folder)
