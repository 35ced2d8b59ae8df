"""`edgeseg bench`: its commands; most options stand in the light records that they fill."""

from pathlib import Path
from typing import Any

import click

from edgeseg.base.options import FILE, PATH, SIZE, note, trust_option
from edgeseg.base.progress import bar
from edgeseg.base.typed_options import NearestGroup, option_of, takes
from edgeseg.bench.compare.candidates import (
    BACKBONES,
    CompareOptions,
    OurModel,
    PeerOptions,
    SmallOptions,
)
from edgeseg.bench.fit_cost.fits import FitCostOptions
from edgeseg.bench.paper.parts import PaperOptions
from edgeseg.cli.bench_options import (
    PeerPython,
    RunOptions,
    SmallRunOptions,
    TimedRunOptions,
    carry_out,
    data_argument,
    finish,
    peer_python_options,
    repeatable,
    run_options,
    timed_run_options,
    use_weights,
    weights_folder_option,
)
from edgeseg.cli.needs import EXPORTING, check_needs
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
@click.option(
    "--size",
    "size_hw",
    type=SIZE,
    default="256x256",
    show_default=True,
    help="Image size, where a model leaves it open.",
)
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
@takes("asked", SmallOptions, made=dict)
@takes("run", SmallRunOptions)
def small(asked: dict[str, Any], run: SmallRunOptions) -> None:
    """Run a small comparison on a synthetic part, without downloads.

    \b
    edgeseg bench small --out out
    """
    check_needs(*EXPORTING)

    from edgeseg.bench.compare.compare import run_small

    carry_out(run_small, SmallOptions(rounds=run.rounds, threads=run.cores, **asked), run)


@bench.command()
@data_argument
@repeatable("--backbone", "backbones", BACKBONES, None, "Backbone to compare.")
@repeatable("--preset", "presets", ("edge", "paper"), PRESETS, "Preset to compare.")
@repeatable("--precision", "precisions", tuple(PRECISIONS), PRECISIONS, "Precision to compare.")
@takes("asked", CompareOptions, made=dict)
@weights_folder_option
@timed_run_options
def compare(
    data: Path,
    backbones: tuple[str, ...],
    presets: tuple[str, ...],
    precisions: tuple[str, ...],
    asked: dict[str, Any],
    weights_folder: Path | None,
    run: TimedRunOptions,
) -> None:
    """Compare backbones, presets and precisions on the categories in DATA.

    \b
    edgeseg bench compare mvtec_ad --out out
    edgeseg bench compare mvtec_ad --backbone resnet18 --precision int8 --seeds 5 --out out
    """
    check_needs(*EXPORTING)

    from edgeseg.bench.compare.compare import run_compare
    from edgeseg.bench.latency.timing import runnable

    use_weights(weights_folder)
    asked["backends"] = tuple(runnable(asked["backends"]))
    models = tuple(
        OurModel.of(backbone, preset, precisions) for backbone in backbones for preset in presets
    )
    options = CompareOptions(
        data=data, models=models, schedule=run.schedule, threads=run.cores, **asked
    )
    carry_out(run_compare, options, run)


@bench.command()
@data_argument
@takes("asked", PaperOptions, made=dict)
@weights_folder_option
@run_options
def paper(data: Path, asked: dict[str, Any], weights_folder: Path | None, run: RunOptions) -> None:
    """Run the paper's experiments on the MVTec AD categories in DATA.

    Experiments whose data or weights are absent are named in the report and left out.

    \b
    edgeseg bench paper mvtec_ad --kolektor KolektorSDD --out out
    edgeseg bench paper mvtec_ad --only curve --curve-seeds 5 --out out
    """
    check_needs(*EXPORTING)

    from edgeseg.bench.paper.paper import run_paper

    use_weights(weights_folder)
    carry_out(run_paper, PaperOptions(mvtec=data, threads=run.cores, **asked), run)


@bench.command()
@data_argument
@takes("asked", PeerOptions, made=dict)
@repeatable(
    "--backbone",
    "backbones",
    BACKBONES,
    None,
    f"Backbone of our models; peers use {PeerOptions.backbone}.",
)
@repeatable("--precision", "precisions", ("fp32", "int8"), PRECISIONS, "Precision of our models.")
@peer_python_options
@weights_folder_option
@option_of(CompareOptions, "limit")
@timed_run_options
def peers(
    data: Path,
    asked: dict[str, Any],
    backbones: tuple[str, ...],
    precisions: tuple[str, ...],
    peer_python: PeerPython,
    weights_folder: Path | None,
    limit: int | None,
    run: TimedRunOptions,
) -> None:
    """Measure anomalib's models beside ours on the categories in DATA.

    \b
    edgeseg bench peers mvtec_ad --install --out out
    edgeseg bench peers mvtec_ad --peer padim --peers-python env/bin/python --out out
    """
    check_needs(*EXPORTING)

    from edgeseg.bench.compare.compare import run_compare

    use_weights(weights_folder)
    options = CompareOptions(
        name="peers",
        title="edgeseg beside anomalib, in one run",
        data=data,
        models=tuple(
            OurModel.of(name, "edge", precisions, prefix="edgeseg ") for name in backbones
        ),
        peers=PeerOptions(python=peer_python.find(), **asked),
        backends=("cpu", "openvino"),
        limit=limit,
        threads=run.cores,
        schedule=run.schedule,
    )
    carry_out(run_compare, options, run)


@bench.command("fit-cost")
@data_argument
@takes("asked", FitCostOptions, made=dict)
@click.option("--no-peer", is_flag=True, help="Leave anomalib out.")
@peer_python_options
@weights_folder_option
@run_options
def fit_cost(
    data: Path,
    asked: dict[str, Any],
    no_peer: bool,
    peer_python: PeerPython,
    weights_folder: Path | None,
    run: RunOptions,
) -> None:
    """Measure seconds and memory of a fit, beside anomalib's PaDiM.

    \b
    edgeseg bench fit-cost mvtec_ad/screw --out out
    """
    check_needs(*EXPORTING)

    from edgeseg.bench.fit_cost.fit_cost import run_fit_cost

    use_weights(weights_folder)
    python = None if no_peer else peer_python.find()
    options = FitCostOptions(data=data, python=python, threads=run.cores, **asked)
    finish(run_fit_cost(options, run.out, fresh=run.fresh, note=note), run)


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
