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
from edgeseg.base.extras import missing
from edgeseg.base.files import check_writable, size_text
from edgeseg.base.options import FOLDER, PATH, Shared, command_line
from edgeseg.base.typed_options import GroupedCommand, same_as, takes, typed
from edgeseg.cli.data_options import FIT_GROUPS, LOOK, RUN, THRESHOLD, PassOptions, pass_options
from edgeseg.cli.fit_all import fit_all
from edgeseg.cli.fit_job import FitJob, settings_of
from edgeseg.cli.fit_settings import FitPlan, FitSettings, settings_options
from edgeseg.cli.needs import FITTING, check_fit_needs
from edgeseg.data.known_defects import read_kind_order, read_known_defects
from edgeseg.data.layouts import find_folder
from edgeseg.decision.kinds import read_severity
from edgeseg.fitting.options import FitOptions
from edgeseg.fitting.process_group import ALONE, ProcessGroup

if TYPE_CHECKING:
    from edgeseg.data.samples import Sample


@dataclass(frozen=True, kw_only=True)
class FitWishes:
    """Options of `edgeseg fit` that are not settings of the model or of reading images."""

    out: Path | None = typed(
        None,
        "Where to write the model, for example part.edgeseg; with --all the folder of the models. "
        "Needed, except where --smallest is only asked about.",
        flags=("--out", "-o"),
    )
    every: bool = typed(
        False,
        "Fit on every dataset below DATA, go on after a failure, and print a table.",
        flags=("--all",),
    )
    skip_existing: bool = typed(False, "With --all: skip a dataset whose model exists.")
    as_json: bool = typed(
        False,
        "Print the result as JSON; with --all, the result of every dataset.",
        flags=("--json",),
    )
    robust: Literal["list", "drop"] | None = typed(
        None,
        "Compare all images with each other. list: name those that do not belong, with pictures; "
        "also the meaning of --robust alone. drop: leave them out of the fit as well.",
        alone="list",
        group=LOOK,
    )
    variants: bool = typed(
        False,
        "Folders inside that of the good images are variants of the product, such as red/ and "
        "blue/: each gets a mean of its own, all share the rest, and a verdict names the variant.",
        group=LOOK,
    )
    backbone_graph: Path | None = same_as(Shared, "backbone_graph")
    anomalies: Path | None = typed(
        None,
        "Folder of defective images: choose the threshold with the best F1 on them, instead of by "
        "--false-alarm-rate.",
        kind=click.Path(path_type=Path, exists=True, file_okay=False),
        group=THRESHOLD,
    )
    known: Path | None = typed(
        None,
        "Folder of known defects to learn from, in folders by kind: more like them are found, for "
        "as many alarms, and named by their kind. A mask beside a picture is 001_mask.png, an "
        "outline 001.json (labelme).",
        kind=click.Path(path_type=Path, exists=True, file_okay=False),
        group=THRESHOLD,
    )
    severity: tuple[str, ...] = typed(
        (),
        "Severity of every region of a known kind, such as scratch=minor; may be repeated. Other "
        "regions are as severe as they are strong and large.",
        metavar="KIND=minor|major",
        group=THRESHOLD,
    )
    keep_moments: bool = typed(
        True,
        "Leave out what `edgeseg update` and `edgeseg merge` need: a smaller file.",
        flags=("--no-moments",),
    )
    planted: int = typed(
        FitOptions.planted,
        "Artificial defects, at most, that are planted on copies of good images to try the "
        "threshold on; the fit does not see them. 0: none.",
        kind=click.IntRange(0),
        group=THRESHOLD,
    )
    smallest: int | None = typed(
        None,
        "Side of the smallest defect that matters, in pixels of the camera, such as 12. Before the "
        "fit it says whether the model can see it, and afterwards how many planted spots of that "
        "size are found. Without --out it says the first and fits nothing.",
        kind=click.IntRange(2),
        group=LOOK,
    )
    report: Path | None = typed(
        None,
        "Folder for the report that ends the fit, with pictures of the images that decide the "
        "threshold.",
        kind=FOLDER,
    )

    def check(self, data: Path, out: Path, *, processes: int) -> None:
        """Refuse options that exclude each other, and an output path that cannot work."""
        if self.skip_existing and not self.every:
            raise UsageError("--skip-existing is for many datasets; add --all")
        if self.report is not None and self.every:
            raise UsageError("--report is of one dataset; leave it or --all out")
        if self.report is not None:
            check_writable(self.report / "fit.txt")
        if self.variants and self.robust is not None:
            raise UsageError(
                "--robust compares images of one product with each other; run it on the folder of "
                "each variant, or leave --variants out"
            )
        if self.variants and self.every:
            raise UsageError("--variants are of one product; fit on that dataset without --all")
        if self.variants and self.backbone_graph is not None:
            raise UsageError(
                "--variants: the graph of a backbone has room for one product; leave --graph or "
                "--variants out"
            )
        if self.robust is not None and processes > 1:
            raise UsageError("--robust compares images in one process; run it without torchrun")
        if not self.every:
            if out.is_dir():
                file = out / f"{data.name}.edgeseg"
                raise UsageError(f"--out {out}: a folder; expected a file such as {file}, or --all")
            return
        if processes > 1:
            raise UsageError("--all runs in one process; run it without torchrun")
        for name, given in (("--anomalies", self.anomalies), ("--known", self.known)):
            if given is not None:
                raise UsageError(
                    f"{name} are of one kind of part; fit on that dataset without --all"
                )


@click.command(cls=GroupedCommand, groups=FIT_GROUPS)
@click.argument("data", type=PATH)
@settings_options
@takes("wishes", FitWishes, group=RUN)
@pass_options
def fit(data: Path, wishes: FitWishes, settings: FitSettings, images: PassOptions) -> None:
    """Fit a model on the good images in DATA.

    DATA is a folder of pictures of good parts, or a data set of a known layout. At the end the
    command prints what each false-alarm rate costs in planted defects, and the good images whose
    scores decide the threshold. Most users need --out alone.

    \b
    edgeseg fit mvtec_ad/bottle --out bottle.edgeseg
    edgeseg fit photos/good --out part.edgeseg --false-alarm-rate 0.005
    edgeseg fit KolektorSDD --fold 0 --size 704x256 --preset paper --out kos.edgeseg
    edgeseg fit photos/good --out part.edgeseg --known defects
    edgeseg fit photos/good --out part.edgeseg --smallest 12
    edgeseg fit photos/good --smallest 12
    edgeseg fit photos/good --out part.edgeseg --robust
    edgeseg fit photos/colours --out part.edgeseg --variants
    edgeseg fit photos/good --out part.edgeseg --graph lite1.onnx
    edgeseg fit mvtec_ad --all --out models
    torchrun --nproc-per-node 2 -m edgeseg fit mvtec_ad/bottle --out bottle.edgeseg
    """
    out, smallest, graph = wishes.out, wishes.smallest, wishes.backbone_graph
    if out is None:
        if smallest is None or wishes.every or wishes.as_json:
            raise _missing("out")
        from edgeseg.cli.smallest_question import answer_smallest

        base, variants = settings_of(graph), wishes.variants
        answer_smallest(data, smallest, settings, images, base=base, variants=variants)
        return
    check_fit_needs(settings.config(), graph)
    with _together() as group:
        wishes.check(data, out, processes=group.size)
        job = FitJob(
            settings=settings,
            images=replace(images, quiet=images.quiet or group.rank > 0),  # of several, one talks
            robust=wishes.robust,
            anomalies=_defects(wishes.anomalies),
            known=() if wishes.known is None else read_known_defects(wishes.known),
            severity=tuple(map(read_severity, wishes.severity)),
            kind_order=() if wishes.known is None else read_kind_order(wishes.known),
            keep_moments=wishes.keep_moments,
            group=group,
            planted=wishes.planted,
            smallest=smallest,
            closing=not wishes.every,
            report=wishes.report,
            graph=graph,
            variants=wishes.variants,
        )
        if wishes.every:
            skip, as_json = wishes.skip_existing, wishes.as_json
            fit_all(job, data, out, skip_existing=skip, as_json=as_json)
            return
        _fit_one(job, data, out, as_json=wishes.as_json)


def _missing(name: str) -> click.MissingParameter:
    """Return the error of an option that is needed, as click writes it."""
    context = click.get_current_context()
    option = next(each for each in context.command.params if each.name == name)
    return click.MissingParameter(ctx=context, param=option)


def _fit_one(job: FitJob, data: Path, out: Path, *, as_json: bool) -> None:
    plan = job.plan(data, out, layout=job.images.layout, fold=job.images.fold)
    options = job.options()
    outcome = job.run(plan, options, note=options.note if as_json else click.echo)
    if as_json and job.group.rank == 0:
        click.echo(json.dumps(outcome.to_dict(), indent=2))
    options.note(
        f"wrote {out} ({size_text(out.stat().st_size)}) in {outcome.seconds:.1f} s; "
        f"next: {next_command(job, plan, data)}"
    )


def next_command(job: FitJob, plan: FitPlan, data: Path) -> str:
    """Return what can be done with the model and this data: measured only where it has labels."""
    if job.graph is not None:
        return command_line("export", plan.out, "--graph", job.graph)
    if missing(FITTING):  # a device; the graph that the fit went through is found again
        return command_line("export", plan.out)
    layout, fold = job.images.layout, job.images.fold
    typed = {"--dataset": layout, "--fold": fold}
    chosen = [word for pair in typed.items() if pair[1] is not None for word in pair]
    if plan.dataset.test:
        return command_line("eval", plan.out, data, *chosen)
    good = () if chosen else ("--calibrate", data)
    return (
        f"{command_line('predict', plan.out, 'PICTURES', '--out', 'drawn')}, or "
        f"{command_line('export', plan.out, *good)}"
    )


@contextmanager
def _together() -> Iterator[ProcessGroup]:
    """Join the processes that torchrun has started, or run alone; one process reports a failure."""
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
