"""`edgeseg bench`: the group, and its commands that need no data set."""

from pathlib import Path

import click

from edgeseg.base.options import FILE, PATH, note, trust_option
from edgeseg.base.progress import bar
from edgeseg.base.typed_options import NearestGroup, option_of, takes
from edgeseg.bench.compare.candidates import SmallOptions
from edgeseg.cli.bench_dataset_commands import compare, fit_cost, paper, peers
from edgeseg.cli.bench_options import (
    SmallRunOptions,
    TimedRunOptions,
    carry_out,
    finish,
    repeatable,
    size_option,
    timed_run_options,
)
from edgeseg.config import PRESETS
from edgeseg.modelfile.precisions import PRECISIONS
from edgeseg.modelfile.signature import admit
from edgeseg.runtime.backends.choose import backend_names
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.settings.opening_options import OpeningOptions


@click.group(
    cls=NearestGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
def bench() -> None:
    """Measure speed and accuracy on this machine.

    \b
    edgeseg bench small --out out                       all of it on synthetic data, in minutes
    edgeseg bench latency --models *.onnx --out out     milliseconds of model files
    edgeseg bench compare mvtec_ad --out out            backbones, presets and precisions
    edgeseg bench paper mvtec_ad --out out              the published tables beside ours
    edgeseg bench peers mvtec_ad --out out              anomalib in the same run
    edgeseg bench fit-cost mvtec_ad/screw --out out     seconds and memory of a fit
    edgeseg bench report out1 out2 --out page.html      several reports as one page
    """


@bench.command()
@click.option("--models", type=PATH, multiple=True, help="Model file to time. May be repeated.")
@click.argument("more", nargs=-1, type=PATH)
@click.option(
    "--backend",
    "backends",
    type=click.Choice(backend_names()),
    multiple=True,
    default=("cpu",),
    show_default=True,
    help="What runs the models: cpu and cuda are ONNX Runtime, auto is all that is installed. "
    "May be repeated.",
)
@size_option((256, 256), "Image size, where a model leaves it open.")
@option_of(OpeningOptions, "spin")
@trust_option
@timed_run_options
def latency(
    models: tuple[Path, ...],
    more: tuple[Path, ...],
    backends: tuple[str, ...],
    size_hw: tuple[int, int],
    spin: bool,
    trust: tuple[Path, ...],
    run: TimedRunOptions,
) -> None:
    """Time model files, ours and anyone's, in interleaved rounds.

    \b
    edgeseg bench latency --models *.onnx --out out
    edgeseg bench latency ours.onnx theirs.onnx --backend cpu --backend openvino --out out
    """
    for path in (*models, *more):
        admit(path, trust)

    from edgeseg.bench.latency.latency import run_latency
    from edgeseg.bench.latency.timing import candidates_of, runnable

    report = run_latency(
        candidates_of([*models, *more], runnable(backends)),
        run.out,
        schedule=run.schedule,
        options=SessionOptions(threads=run.cores, spin=spin),
        size_hw=size_hw,
        fresh=run.fresh,
        note=note,
        progress=bar,
    )
    finish(report, run)


@bench.command()
@size_option(SmallOptions.size_hw)
@click.option(
    "--train",
    type=click.IntRange(2),
    default=SmallOptions.train,
    show_default=True,
    help="Good images to make and fit on.",
)
@repeatable("--preset", "presets", SmallOptions.presets, PRESETS, "Preset to compare.")
@repeatable(
    "--precision", "precisions", SmallOptions.precisions, PRECISIONS, "Precision to compare."
)
@takes("run", SmallRunOptions)
def small(
    size_hw: tuple[int, int],
    train: int,
    presets: tuple[str, ...],
    precisions: tuple[str, ...],
    run: SmallRunOptions,
) -> None:
    """Run a small comparison on a synthetic part, without downloads.

    \b
    edgeseg bench small --out out
    """
    from edgeseg.bench.compare.compare import run_small

    options = SmallOptions(
        size_hw=size_hw,
        train=train,
        presets=presets,
        precisions=precisions,
        rounds=run.schedule.rounds,
        threads=run.cores,
    )
    carry_out(run_small, options, run)


for command in (compare, paper, peers, fit_cost):
    bench.add_command(command)


@bench.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--out", "-o", type=FILE, required=True, help="The page, for example bench.html.")
def report(folders: tuple[Path, ...], out: Path) -> None:
    """Put the reports of several runs on one self-contained page.

    \b
    edgeseg bench report results/compare results/peers --out bench.html
    """
    from edgeseg.base.files import size_text
    from edgeseg.bench.harness.report import read_report, write_page

    write_page([(read_report(folder), folder) for folder in folders], out)
    note(f"wrote {out} ({size_text(out.stat().st_size)}); it needs no other file")
