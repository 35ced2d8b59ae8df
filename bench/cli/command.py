"""`edgeseg bench`: the group, and its short commands; what they do loads when they run."""

from pathlib import Path

import click

from edgeseg.bench.cli.options import (
    finish,
    fresh_option,
    out_option,
    rounds_option,
    say,
    threads_option,
    threads_or_all,
)
from edgeseg.bench.cli.peers import fit_cost, peers
from edgeseg.bench.cli.studies import compare, paper
from edgeseg.cli.fit_command import parse_size


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
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


for command in (compare, paper, peers, fit_cost):
    bench.add_command(command)


@bench.command()
@click.option("--models", type=click.Path(path_type=Path), multiple=True, help="A model file.")
@click.argument("more", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--backend",
    "backends",
    type=click.Choice(("auto", "cpu", "cuda", "openvino", "tensorrt")),
    multiple=True,
    default=("cpu",),
    show_default=True,
    help="cpu and cuda are ONNX Runtime; auto is all that is installed. May be repeated.",
)
@click.option(
    "--size",
    "size_hw",
    type=parse_size,
    default="256",
    show_default=True,
    metavar="HxW",
    help="Image size, where a model leaves it open.",
)
@threads_option
@rounds_option
@fresh_option
@out_option
def latency(
    models: tuple[Path, ...],
    more: tuple[Path, ...],
    backends: tuple[str, ...],
    size_hw: tuple[int, int],
    threads: int | None,
    rounds: int,
    fresh: bool,
    out: Path,
) -> None:
    """Time model files, ours and anyone's, in interleaved rounds.

    \b
    edgeseg bench latency --models *.onnx --out out
    edgeseg bench latency ours.onnx theirs.onnx --backend cpu --backend openvino --out out
    """
    from edgeseg.bench.latency.report import candidates_of, run_latency, runnable
    from edgeseg.bench.latency.turns import Schedule
    from edgeseg.progress import bar

    report = run_latency(
        candidates_of([*models, *more], runnable(backends)),
        out,
        schedule=Schedule(rounds=rounds),
        threads=threads_or_all(threads),
        size_hw=size_hw,
        fresh=fresh,
        say=say,
        progress=bar,
    )
    finish(report, out)


@bench.command()
@threads_option
@fresh_option
@click.option(
    "--out", "-o", type=click.Path(path_type=Path, file_okay=False), default="build/bench-small",
    show_default=True, help="Folder of the report.",
)  # fmt: skip
def small(threads: int | None, fresh: bool, out: Path) -> None:
    """Run a small comparison on a synthetic part, without downloads.

    \b
    edgeseg bench small --out out
    """
    from edgeseg.bench.compare.small import run_small
    from edgeseg.progress import bar

    report = run_small(out, threads=threads_or_all(threads), fresh=fresh, say=say, progress=bar)
    finish(report, out)


@bench.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--out", "-o", type=click.Path(path_type=Path, dir_okay=False), required=True,
    help="The page, for example bench.html.",
)  # fmt: skip
def report(folders: tuple[Path, ...], out: Path) -> None:
    """Put the reports of several runs on one self-contained page.

    \b
    edgeseg bench report results/compare results/peers --out bench.html
    """
    from edgeseg.bench.harness.report import read_report, write_page
    from edgeseg.files import size_text

    write_page([(read_report(folder), folder) for folder in folders], out)
    say(f"wrote {out} ({size_text(out.stat().st_size)}); it needs no other file")
