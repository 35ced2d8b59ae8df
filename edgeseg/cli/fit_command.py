"""`edgeseg fit` and `edgeseg synthesize`.

    options --FitSettings.plan--> FitPlan --FitJob.run--> the model and a FitOutcome

A plan is made before torch is loaded, so that a wrong path is seen at once.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgeseg.cli.data_options import PassOptions, pass_options
from edgeseg.cli.fit_all import fit_all
from edgeseg.cli.fit_job import FitJob
from edgeseg.cli.fit_settings import FitSettings, settings_options
from edgeseg.config import FitConfig
from edgeseg.data.layouts import find_folder
from edgeseg.errors import UsageError
from edgeseg.files import check_writable, size_text
from edgeseg.fitting.group import ALONE, Group
from edgeseg.fitting.options import FitOptions
from edgeseg.options import FOLDER, PATH, SIZE, graph_option, note

if TYPE_CHECKING:
    from edgeseg.data.samples import Sample


@click.command()
@click.argument("data", type=PATH)
@click.option(
    "--out",
    "-o",
    type=PATH,
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
@graph_option
@settings_options
@click.option(
    "--anomalies",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of defective images: choose the threshold by F1 instead.",
)
@click.option("--no-moments", is_flag=True, help="Smaller file that cannot be updated later.")
@click.option(
    "--planted",
    type=click.IntRange(0),
    default=FitOptions.planted,
    show_default=True,
    help="Most planted defects to try the threshold on; they are no part of the fit. 0: none.",
)
@click.option(
    "--report",
    type=FOLDER,
    help="Folder for what the fit says at its end, with pictures of the images that decide.",
)
@pass_options
def fit(
    data: Path,
    out: Path,
    every: bool,
    skip_existing: bool,
    as_json: bool,
    robust: str | None,
    backbone_graph: Path | None,
    settings: FitSettings,
    anomalies: Path | None,
    no_moments: bool,
    planted: int,
    report: Path | None,
    images: PassOptions,
) -> None:
    """Fit a model on the good images in DATA.

    It ends with what false-alarm rates cost in planted defects, and with the good images whose
    scores decide the threshold.

    \b
    edgeseg fit mvtec_ad/bottle --out bottle.edgeseg
    edgeseg fit photos/good --out part.edgeseg --backbone efficientnet_lite0
    edgeseg fit KolektorSDD --fold 0 --size 704x256 --preset paper --out kos.edgeseg
    edgeseg fit photos/good --out part.edgeseg --robust
    edgeseg fit photos/good --out part.edgeseg --graph lite0.onnx
    edgeseg fit mvtec_ad --all --out models
    torchrun --nproc-per-node 2 -m edgeseg fit mvtec_ad/bottle --out bottle.edgeseg
    """
    if skip_existing and not every:
        raise UsageError("--skip-existing is for many datasets; add --all")
    _check_report(report, every=every)
    with _together() as group:
        _check(data, out, every=every, robust=robust, anomalies=anomalies, group=group)
        job = FitJob(
            settings=settings,
            images=replace(images, quiet=images.quiet or group.rank > 0),  # of several, one talks
            robust=robust,
            anomalies=_defects(anomalies),
            keep_moments=not no_moments,
            group=group,
            planted=planted,
            closing=not every,
            report=report,
            graph=backbone_graph,
        )
        if every:
            fit_all(job, data, out, skip_existing=skip_existing, as_json=as_json)
            return
        _fit_one(job, data, out, as_json=as_json)


def _fit_one(job: FitJob, data: Path, out: Path, *, as_json: bool) -> None:
    plan = job.plan(data, out, layout=job.images.layout, fold=job.images.fold)
    options = job.options()
    outcome = job.run(plan, options, note=options.note if as_json else click.echo)
    if as_json and job.group.rank == 0:
        click.echo(json.dumps(outcome.to_dict(), indent=2))
    options.note(
        f"wrote {out} ({size_text(out.stat().st_size)}) in {outcome.seconds:.1f} s; "
        f"next: edgeseg eval {out} {data}"
    )


def _check_report(report: Path | None, *, every: bool) -> None:
    if report is not None and every:
        raise UsageError("--report is of one dataset; leave it or --all out")
    if report is not None:
        check_writable(report / "fit.txt")


def _check(
    data: Path, out: Path, *, every: bool, robust: str | None, anomalies: Path | None, group: Group
) -> None:
    """Refuse what does not go together, and a result in the wrong place."""
    if robust is not None and group.size > 1:
        raise UsageError("--robust compares images in one process; run it without torchrun")
    if not every:
        if out.is_dir():
            file = out / f"{data.name}.edgeseg"
            raise UsageError(f"--out {out}: a folder; expected a file such as {file}, or --all")
        return
    if group.size > 1:
        raise UsageError("--all runs in one process; run it without torchrun")
    if anomalies is not None:
        raise UsageError("--anomalies are of one kind of part; fit on that dataset without --all")


@contextmanager
def _together() -> Iterator[Group]:
    """The processes that torchrun has started, or this one alone; one of them says what failed."""
    if "WORLD_SIZE" not in os.environ:  # torchrun sets it; to ask it would load torch
        yield ALONE
        return
    from edgeseg.fitting.parallel.torchrun import OtherFailed, processes

    try:
        with processes() as group:
            yield group
    except OtherFailed as error:
        click.get_current_context().exit(error.exit_code)


def _defects(folder: Path | None) -> "tuple[Sample, ...]":
    if folder is None:
        return ()
    samples = find_folder(folder).train
    if not samples:
        raise UsageError(f"--anomalies {folder}: no images; expected pictures of defective parts")
    return samples


@click.command(context_settings={"show_default": True})
@click.argument("out", type=FOLDER)
@click.option("--size", "size_hw", type=SIZE, default=SIZE.text(FitConfig.size_hw))
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
