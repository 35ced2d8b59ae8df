"""`edgeseg bench` on a data set: compare, paper, peers and fit-cost.

Defaults come from the options each command fills, which are light to import.
"""

from pathlib import Path

import click

from edgeseg.base.options import note
from edgeseg.bench.compare.candidates import (
    BACKBONES,
    PEERS,
    CompareOptions,
    OurModel,
    PeerOptions,
)
from edgeseg.bench.fit_cost.fits import FitCostOptions
from edgeseg.bench.paper.parts import PARTS, PaperOptions
from edgeseg.cli.bench_options import (
    PeerPython,
    RunOptions,
    TimedRunOptions,
    carry_out,
    data_argument,
    finish,
    limit_option,
    peer_python_options,
    random_weights_option,
    repeatable,
    run_options,
    size_option,
    timed_run_options,
    use_weights,
    weights_folder_option,
)
from edgeseg.config import PRESETS
from edgeseg.modelfile.precisions import PRECISIONS
from edgeseg.runtime.backends.choose import backend_names


@click.command()
@data_argument
@repeatable("--backbone", "backbones", BACKBONES, None, "Backbone to compare.")
@repeatable("--preset", "presets", ("edge", "paper"), PRESETS, "Preset to compare.")
@repeatable("--precision", "precisions", tuple(PRECISIONS), PRECISIONS, "Precision to compare.")
@click.option(
    "--backend",
    "backends",
    multiple=True,
    default=CompareOptions.backends,
    show_default=True,
    type=click.Choice(backend_names()),
    help="What runs the models that are timed. May be repeated.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=CompareOptions.seeds,
    show_default=True,
    help="Random embeddings per setting.",
)
@random_weights_option
@weights_folder_option
@limit_option
@timed_run_options
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
    run: TimedRunOptions,
) -> None:
    """Compare backbones, presets and precisions on the categories in DATA.

    \b
    edgeseg bench compare mvtec_ad --out out
    edgeseg bench compare mvtec_ad --backbone resnet18 --precision int8 --seeds 5 --out out
    """
    from edgeseg.bench.compare.compare import run_compare
    from edgeseg.bench.latency.timing import runnable

    use_weights(weights_folder)
    options = CompareOptions(
        data=data,
        models=tuple(
            OurModel.of(backbone, preset, precisions)
            for backbone in backbones
            for preset in presets
        ),
        backends=tuple(runnable(backends)),
        seeds=seeds,
        limit=limit,
        weights=weights,
        schedule=run.schedule,
        threads=run.cores,
    )
    carry_out(run_compare, options, run)


@click.command()
@data_argument
@click.option("--kolektor", type=click.Path(path_type=Path, exists=True), help="KolektorSDD.")
@click.option("--kolektor2", type=click.Path(path_type=Path, exists=True), help="KolektorSDD2.")
@click.option("--mstc", type=click.Path(path_type=Path, exists=True), help="ShanghaiTech campus.")
@click.option(
    "--only",
    "parts",
    multiple=True,
    help=f"One of {', '.join(PARTS)}; may be repeated. [default: all]",
)
@click.option("--backbone", "backbones", multiple=True, help="Instead of all four of the paper.")
@click.option(
    "--curve-seeds",
    type=click.IntRange(1),
    default=PaperOptions.curve_seeds,
    show_default=True,
    help="Seeds of the curve over k.",
)
@click.option("--keep-features", is_flag=True, help="Keep the features on disk (1 GB a category).")
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=PaperOptions.seeds,
    show_default=True,
    help="Random embeddings per setting; mean and standard deviation are over them.",
)
@weights_folder_option
@limit_option
@run_options
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
    run: RunOptions,
) -> None:
    """Run the paper's experiments on the MVTec AD categories in DATA.

    Experiments whose data or weights are absent are named in the report and left out.

    \b
    edgeseg bench paper mvtec_ad --kolektor KolektorSDD --out out
    edgeseg bench paper mvtec_ad --only curve --curve-seeds 5 --out out
    """
    from edgeseg.bench.paper.paper import run_paper

    use_weights(weights_folder)
    options = PaperOptions(
        mvtec=data,
        kolektor=kolektor,
        kolektor2=kolektor2,
        mstc=mstc,
        seeds=seeds,
        curve_seeds=curve_seeds,
        parts=parts or PARTS,
        backbones=backbones or PaperOptions.backbones,
        limit=limit,
        keep_features=keep_features,
        threads=run.cores,
    )
    carry_out(run_paper, options, run)


@click.command()
@data_argument
@repeatable("--peer", "peers_wanted", PeerOptions.names, PEERS, "Model of anomalib to measure.")
@repeatable(
    "--backbone",
    "backbones",
    BACKBONES,
    None,
    f"Backbone of our models; peers use {PeerOptions.backbone}.",
)
@repeatable("--precision", "precisions", ("fp32", "int8"), PRECISIONS, "Precision of our models.")
@click.option(
    "--coreset",
    type=float,
    default=PeerOptions.coreset,
    show_default=True,
    help="Share of the features that PatchCore keeps.",
)
@peer_python_options
@weights_folder_option
@limit_option
@timed_run_options
def peers(
    data: Path,
    peers_wanted: tuple[str, ...],
    backbones: tuple[str, ...],
    precisions: tuple[str, ...],
    coreset: float,
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
    from edgeseg.bench.compare.compare import run_compare

    use_weights(weights_folder)
    options = CompareOptions(
        name="peers",
        title="edgeseg beside anomalib, in one run",
        data=data,
        models=tuple(
            OurModel.of(name, "edge", precisions, prefix="edgeseg ") for name in backbones
        ),
        peers=PeerOptions(python=peer_python.find(), names=peers_wanted, coreset=coreset),
        backends=("cpu", "openvino"),
        limit=limit,
        threads=run.cores,
        schedule=run.schedule,
    )
    carry_out(run_compare, options, run)


@click.command("fit-cost")
@data_argument
@click.option(
    "--images",
    "counts",
    type=click.IntRange(2),
    multiple=True,
    default=FitCostOptions.counts,
    show_default=True,
    help="Images to fit on; may be repeated.",
)
@click.option(
    "-k",
    "--k",
    "sizes",
    type=click.IntRange(2),
    multiple=True,
    default=FitCostOptions.sizes,
    show_default=True,
    help="Sizes of the embedding whose factors are timed; may be repeated.",
)
@size_option(FitCostOptions.size_hw)
@click.option("--no-peer", is_flag=True, help="Leave anomalib out.")
@peer_python_options
@random_weights_option
@weights_folder_option
@run_options
def fit_cost(
    data: Path,
    counts: tuple[int, ...],
    sizes: tuple[int, ...],
    size_hw: tuple[int, int],
    no_peer: bool,
    peer_python: PeerPython,
    weights: str | None,
    weights_folder: Path | None,
    run: RunOptions,
) -> None:
    """Measure seconds and memory of a fit, beside anomalib's PaDiM.

    \b
    edgeseg bench fit-cost mvtec_ad/screw --out out
    """
    from edgeseg.bench.fit_cost.fit_cost import run_fit_cost

    use_weights(weights_folder)
    options = FitCostOptions(
        data=data,
        python=None if no_peer else peer_python.find(),
        counts=counts,
        sizes=sizes,
        size_hw=size_hw,
        weights=weights,
        threads=run.cores,
    )
    finish(run_fit_cost(options, run.out, fresh=run.fresh, note=note), run)
