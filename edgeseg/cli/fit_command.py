"""`edgeseg fit`.

    options --FitSettings.plan--> FitPlan --FitJob.run--> the model and a FitOutcome

A plan is made before torch is loaded, so that a wrong path is seen at once.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from edgeseg.base.errors import UsageError
from edgeseg.base.files import check_writable, size_text
from edgeseg.base.options import FOLDER, PATH, Shared
from edgeseg.base.typed_options import REQUIRED, GroupedCommand, same_as, takes, typed
from edgeseg.cli.data_options import FIT_GROUPS, LOOK, RUN, THRESHOLD, PassOptions, pass_options
from edgeseg.cli.fit_all import fit_all
from edgeseg.cli.fit_job import FitJob
from edgeseg.cli.fit_settings import FitSettings, settings_options
from edgeseg.data.layouts import find_folder
from edgeseg.fitting.options import FitOptions
from edgeseg.fitting.process_group import ALONE, ProcessGroup

if TYPE_CHECKING:
    from edgeseg.data.samples import Sample


@dataclass(frozen=True, kw_only=True)
class FitWishes:
    """What `edgeseg fit` is told beside the settings of the model and the images."""

    out: Path = typed(
        REQUIRED,
        "Where to write the model, for example part.edgeseg; with --all the folder of the models.",
        flags=("--out", "-o"),
    )
    every: bool = typed(
        False,
        "Fit on every dataset below DATA, go on after a failure, and print a table.",
        flags=("--all",),
    )
    skip_existing: bool = typed(False, "With --all: keep the models that are there.")
    as_json: bool = typed(
        False, "Print what became of it as JSON, with --all of each.", flags=("--json",)
    )
    robust: Literal["list", "drop"] | None = typed(
        None,
        "Compare all images with each other and list those that do not belong, with pictures; "
        "drop: leave them out of the fit.",
        alone="list",
        group=LOOK,
    )
    backbone_graph: Path | None = same_as(Shared, "backbone_graph")
    anomalies: Path | None = typed(
        None,
        "Folder of defective images: choose the threshold by F1 instead.",
        kind=click.Path(path_type=Path, exists=True, file_okay=False),
        group=THRESHOLD,
    )
    keep_moments: bool = typed(
        True, "Smaller file that cannot be updated later.", flags=("--no-moments",)
    )
    planted: int = typed(
        FitOptions.planted,
        "Most planted defects to try the threshold on; they are no part of the fit. 0: none.",
        kind=click.IntRange(0),
        group=THRESHOLD,
    )
    report: Path | None = typed(
        None,
        "Folder for what the fit says at its end, with pictures of the images that decide.",
        kind=FOLDER,
    )

    def check(self, data: Path, *, processes: int) -> None:
        """Refuse what does not go together, and a result in the wrong place."""
        if self.skip_existing and not self.every:
            raise UsageError("--skip-existing is for many datasets; add --all")
        if self.report is not None and self.every:
            raise UsageError("--report is of one dataset; leave it or --all out")
        if self.report is not None:
            check_writable(self.report / "fit.txt")
        if self.robust is not None and processes > 1:
            raise UsageError("--robust compares images in one process; run it without torchrun")
        if not self.every:
            if self.out.is_dir():
                file = self.out / f"{data.name}.edgeseg"
                raise UsageError(
                    f"--out {self.out}: a folder; expected a file such as {file}, or --all"
                )
            return
        if processes > 1:
            raise UsageError("--all runs in one process; run it without torchrun")
        if self.anomalies is not None:
            raise UsageError(
                "--anomalies are of one kind of part; fit on that dataset without --all"
            )


@click.command(cls=GroupedCommand, groups=FIT_GROUPS)
@click.argument("data", type=PATH)
@takes("wishes", FitWishes, group=RUN)
@settings_options
@pass_options
def fit(data: Path, wishes: FitWishes, settings: FitSettings, images: PassOptions) -> None:
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
    with _together() as group:
        wishes.check(data, processes=group.size)
        job = FitJob(
            settings=settings,
            images=replace(images, quiet=images.quiet or group.rank > 0),  # of several, one talks
            robust=wishes.robust,
            anomalies=_defects(wishes.anomalies),
            keep_moments=wishes.keep_moments,
            group=group,
            planted=wishes.planted,
            closing=not wishes.every,
            report=wishes.report,
            graph=wishes.backbone_graph,
        )
        if wishes.every:
            skip, as_json = wishes.skip_existing, wishes.as_json
            fit_all(job, data, wishes.out, skip_existing=skip, as_json=as_json)
            return
        _fit_one(job, data, wishes.out, as_json=wishes.as_json)


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


@contextmanager
def _together() -> Iterator[ProcessGroup]:
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
