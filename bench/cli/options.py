"""Options and endings that the commands of `edgeseg bench` share."""

import os
from pathlib import Path
from typing import Any

import click

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
peers_python_option = click.option(
    "--peers-python",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="An interpreter that can import anomalib. [default: this one, or .venv-peers]",
)
install_option = click.option(
    "--install", is_flag=True, help="Make .venv-peers with anomalib 2.7 first."
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
    from edgeseg.bench.harness.machine import available_cores

    return threads or available_cores()


def use_weights(folder: Path | None) -> None:
    """Make a folder the place where backbones look for their weights."""
    if folder is not None:
        os.environ["EDGESEG_WEIGHTS"] = str(folder)


def peer_python(given: Path | None, *, install: bool) -> Path:
    """The interpreter with anomalib, made first if that was asked for."""
    from edgeseg.bench.peers import environment as peer_environment

    return peer_environment.install(say) if install else peer_environment.find_python(given)
