"""`edgeseg bench`: options of the measurements; what they do loads when they run."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from edgeseg.cli_fit import parse_size

out_option = click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder of the report; a run that was killed goes on there.",
)
fresh_option = click.option("--fresh", is_flag=True, help="Forget results in the folder.")
threads_option = click.option(
    "--threads", type=click.IntRange(1), help="Threads of every candidate. [default: all cores]"
)
rounds_option = click.option(
    "--rounds",
    type=click.IntRange(2),
    default=30,
    show_default=True,
    help="Rounds of timing; each gives every candidate a turn of ten frames.",
)
seeds_option = click.option(
    "--seeds",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Random embeddings per setting; mean and standard deviation are over them.",
)
limit_option = click.option(
    "--limit",
    type=click.IntRange(2),
    help="At most N images to fit on and N of each test kind: a rehearsal, not a result.",
)
weights_option = click.option(
    "--weights-folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    envvar="EDGESEG_WEIGHTS",
    show_envvar=True,
    help="Folder with <backbone>.pth files.",
)
data_argument = click.argument("data", type=click.Path(path_type=Path, exists=True))


def say(text: str) -> None:
    """Progress and notes; results go to files and stdout."""
    click.echo(text, err=True)


def finish(report: Any, out: Path) -> None:
    """Print the tables, and where everything is."""
    for table in report.tables:
        click.echo(table.markdown())
    say(f"wrote {out / 'report.md'}, report.json and figures; next: open {out / 'report.html'}")


def threads_or_all(threads: int | None) -> int:
    """All cores unless told otherwise."""
    from edgeseg.bench.machine import available_cores

    return threads or available_cores()


def use_weights(folder: Path | None) -> None:
    """Make a folder the place where backbones look for their weights."""
    if folder is not None:
        os.environ["EDGESEG_WEIGHTS"] = str(folder)


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
    from edgeseg.bench.latency import Schedule
    from edgeseg.bench.speed import candidates_of, run_latency, runnable
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
    from edgeseg.bench.report import read_report, write_page
    from edgeseg.files import size_text

    write_page([(read_report(folder), folder) for folder in folders], out)
    say(f"wrote {out} ({size_text(out.stat().st_size)}); it needs no other file")


@bench.command()
@data_argument
@click.option("--kolektor", type=click.Path(path_type=Path, exists=True), help="KolektorSDD.")
@click.option("--kolektor2", type=click.Path(path_type=Path, exists=True), help="KolektorSDD2.")
@click.option("--mstc", type=click.Path(path_type=Path, exists=True), help="ShanghaiTech campus.")
@click.option(
    "--only",
    "parts",
    multiple=True,
    help="One of categories, ablation, curve, eigenvalues, inverse, kolektor, mstc, pictures; "
    "may be repeated. [default: all]",
)
@click.option("--backbone", "backbones", multiple=True, help="Instead of all four of the paper.")
@click.option(
    "--curve-seeds",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Seeds of the curve over k.",
)
@click.option("--keep-features", is_flag=True, help="Keep the features on disk (1 GB a category).")
@seeds_option
@weights_option
@limit_option
@threads_option
@fresh_option
@out_option
def paper(
    data: Path,
    kolektor: Path | None,
    kolektor2: Path | None,
    mstc: Path | None,
    parts: tuple[str, ...],
    backbones: tuple[str, ...],
    curve_seeds: int,
    keep_features: bool,
    seeds: int,
    weights_folder: Path | None,
    limit: int | None,
    threads: int | None,
    fresh: bool,
    out: Path,
) -> None:
    """Run the paper's experiments on the MVTec AD categories in DATA.

    Experiments whose data or weights are absent are named in the report and left out.

    \b
    edgeseg bench paper mvtec_ad --kolektor KolektorSDD --out out
    edgeseg bench paper mvtec_ad --only curve --curve-seeds 5 --out out
    """
    from edgeseg.bench.paper import PARTS, PaperOptions, run_paper
    from edgeseg.progress import bar

    use_weights(weights_folder)
    options = PaperOptions(
        mvtec=data,
        kolektor=kolektor,
        kolektor2=kolektor2,
        mstc=mstc,
        seeds=seeds,
        curve_seeds=curve_seeds,
        parts=parts or PARTS,
        limit=limit,
        keep_features=keep_features,
        threads=threads_or_all(threads),
    )
    if backbones:
        options = replace(options, backbones=backbones)
    finish(run_paper(options, out, fresh=fresh, say=say, progress=bar), out)
