"""`edgeseg demo`: every step of a first afternoon, on data that needs no camera and no download."""

import time
from pathlib import Path

import click

from edgeseg.bench.demo.demo import Demo
from edgeseg.cli.needs import EXPORTING, check_needs
from edgeseg.config import FitConfig


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default="demo",
    show_default=True,
    help="Folder for everything the demo makes.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Your own images instead of the synthetic part: a folder of good ones or a data set.",
)
@click.option(
    "--backbone",
    default=FitConfig.backbone,
    show_default=True,
    help="Any backbone with weights here.",
)
def demo(out: Path, data: Path | None, backbone: str) -> None:
    """Fit, evaluate, export, verify and stream, then write one page about it.

    \b
    edgeseg demo
    edgeseg demo --data photos/good --out trial
    """
    check_needs(*EXPORTING)
    started = time.perf_counter()
    run = Demo(out, data)
    run.fit_and_evaluate(backbone)
    run.export()
    run.compare(backbone)
    run.stream()
    page = run.report(seconds=time.perf_counter() - started)
    click.echo(f"\nDone in {time.perf_counter() - started:.0f} s. Open {page}")
    click.echo("Try next:")
    click.echo(f"  edgeseg stream --model {run.fp32} --source 0 --serve 8080")
    click.echo("  edgeseg fit YOUR_GOOD_IMAGES --out part.edgeseg")
