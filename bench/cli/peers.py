"""`edgeseg bench peers` and `edgeseg bench fit-cost`."""

from pathlib import Path

import click

from edgeseg.bench.cli.options import (
    data_argument,
    finish,
    fresh_option,
    install_option,
    limit_option,
    out_option,
    peer_python,
    peers_python_option,
    rounds_option,
    say,
    threads_option,
    threads_or_all,
    use_weights,
    weights_option,
)


@click.command()
@data_argument
@click.option(
    "--peer", "peers_wanted", multiple=True, default=("padim", "patchcore", "efficientad"),
    show_default=True, type=click.Choice(("padim", "patchcore", "efficientad")),
    help="May be repeated.",
)  # fmt: skip
@click.option(
    "--backbone", "backbones", multiple=True, show_default=True,
    default=("resnet18", "mobilenet_v3_small", "efficientnet_lite0"),
    help="Of our own models; peers use resnet18.",
)  # fmt: skip
@click.option(
    "--precision", "precisions", multiple=True, default=("fp32", "int8"), show_default=True,
    type=click.Choice(("fp32", "fp16", "int8")), help="Of our own models.",
)  # fmt: skip
@click.option("--coreset", type=float, default=0.01, show_default=True, help="Of PatchCore.")
@peers_python_option
@install_option
@weights_option
@limit_option
@threads_option
@rounds_option
@fresh_option
@out_option
def peers(
    data: Path,
    peers_wanted: tuple[str, ...],
    backbones: tuple[str, ...],
    precisions: tuple[str, ...],
    coreset: float,
    peers_python: Path | None,
    install: bool,
    weights_folder: Path | None,
    limit: int | None,
    threads: int | None,
    rounds: int,
    fresh: bool,
    out: Path,
) -> None:
    """Measure anomalib's models beside ours on the categories in DATA.

    \b
    edgeseg bench peers mvtec_ad --install --out out
    edgeseg bench peers mvtec_ad --peer padim --peers-python env/bin/python --out out
    """
    from edgeseg.bench.compare.trial import Recipe
    from edgeseg.bench.latency.turns import Schedule
    from edgeseg.bench.peers.peers import PeerOptions
    from edgeseg.bench.peers.report import run_peers
    from edgeseg.progress import bar

    use_weights(weights_folder)
    options = PeerOptions(
        data=data,
        python=peer_python(peers_python, install=install),
        peers=peers_wanted,
        recipes=tuple(
            Recipe(backbone=name, preset="edge", precisions=precisions) for name in backbones
        ),
        coreset=coreset,
        limit=limit,
        threads=threads_or_all(threads),
        schedule=Schedule(rounds=rounds),
    )
    finish(run_peers(options, out, fresh=fresh, say=say, progress=bar), out)


@click.command("fit-cost")
@data_argument
@click.option(
    "--images", "counts", type=click.IntRange(2), multiple=True, default=(50, 400),
    show_default=True, help="Images to fit on; may be repeated.",
)  # fmt: skip
@click.option("--no-peer", is_flag=True, help="Leave anomalib out.")
@peers_python_option
@install_option
@weights_option
@threads_option
@fresh_option
@out_option
def fit_cost(
    data: Path,
    counts: tuple[int, ...],
    no_peer: bool,
    peers_python: Path | None,
    install: bool,
    weights_folder: Path | None,
    threads: int | None,
    fresh: bool,
    out: Path,
) -> None:
    """Measure seconds and memory of a fit, beside anomalib's PaDiM.

    \b
    edgeseg bench fit-cost mvtec_ad/screw --out out
    """
    from edgeseg.bench.compare.trial import Recipe
    from edgeseg.bench.peers.fit_cost import FitCostOptions, run_fit_cost

    use_weights(weights_folder)
    options = FitCostOptions(
        data=data,
        python=None if no_peer else peer_python(peers_python, install=install),
        recipes=tuple(
            Recipe(backbone="resnet18", preset=preset, precisions=())
            for preset in ("edge", "paper")
        ),
        counts=counts,
        threads=threads_or_all(threads),
    )
    finish(run_fit_cost(options, out, fresh=fresh, say=say), out)
