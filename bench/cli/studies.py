"""`edgeseg bench paper` and `edgeseg bench compare`."""

from dataclasses import replace
from pathlib import Path

import click

from edgeseg.bench.cli.options import (
    data_argument,
    finish,
    fresh_option,
    limit_option,
    out_option,
    rounds_option,
    say,
    seeds_option,
    threads_option,
    threads_or_all,
    use_weights,
    weights_option,
)


@click.command()
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
    from edgeseg.bench.paper.paper import PARTS, PaperOptions, run_paper
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


@click.command()
@data_argument
@click.option(
    "--backbone",
    "backbones",
    multiple=True,
    default=("resnet18", "mobilenet_v3_small", "efficientnet_lite0"),
    show_default=True,
    help="May be repeated.",
)
@click.option(
    "--preset", "presets", multiple=True, default=("edge", "paper"), show_default=True,
    type=click.Choice(("edge", "paper")), help="May be repeated.",
)  # fmt: skip
@click.option(
    "--precision", "precisions", multiple=True, default=("fp32", "fp16", "int8"),
    show_default=True, type=click.Choice(("fp32", "fp16", "int8")), help="May be repeated.",
)  # fmt: skip
@click.option(
    "--backend", "backends", multiple=True, default=("cpu",), show_default=True,
    type=click.Choice(("auto", "cpu", "cuda", "openvino")), help="For the timing.",
)  # fmt: skip
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True)
@click.option("--weights", type=click.Choice(("random",)), help="Times, without the weights.")
@weights_option
@limit_option
@threads_option
@rounds_option
@fresh_option
@out_option
def compare(
    data: Path,
    backbones: tuple[str, ...],
    presets: tuple[str, ...],
    precisions: tuple[str, ...],
    backends: tuple[str, ...],
    seeds: int,
    weights: str | None,
    weights_folder: Path | None,
    limit: int | None,
    threads: int | None,
    rounds: int,
    fresh: bool,
    out: Path,
) -> None:
    """Compare backbones, presets and precisions on the categories in DATA.

    \b
    edgeseg bench compare mvtec_ad --out out
    edgeseg bench compare mvtec_ad --backbone resnet18 --precision int8 --seeds 5 --out out
    """
    from edgeseg.bench.compare.compare import run_compare
    from edgeseg.bench.compare.recipes import CompareOptions
    from edgeseg.bench.compare.trial import Recipe
    from edgeseg.bench.latency.report import runnable
    from edgeseg.bench.latency.turns import Schedule
    from edgeseg.progress import bar

    use_weights(weights_folder)
    options = CompareOptions(
        data=data,
        recipes=tuple(
            Recipe(backbone=backbone, preset=preset, precisions=precisions)
            for backbone in backbones
            for preset in presets
        ),
        backends=tuple(runnable(backends)),
        seeds=seeds,
        limit=limit,
        weights=weights,
        schedule=Schedule(rounds=rounds),
        threads=threads_or_all(threads),
    )
    finish(run_compare(options, out, fresh=fresh, say=say, progress=bar), out)
