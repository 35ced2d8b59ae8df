"""Options and endings that the commands of `edgeseg bench` share."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgeseg.base.options import FOLDER, RegistryName, note
from edgeseg.base.progress import bar
from edgeseg.base.typed_options import REQUIRED, Decorator, same_as, takes, typed
from edgeseg.bench.compare.candidates import SmallOptions
from edgeseg.bench.latency.turns import Schedule
from edgeseg.runtime.backends.session_options import available_cores

if TYPE_CHECKING:
    from edgeseg.bench.harness.report import Report


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of every measurement: its folder and its threads."""

    threads: int | None = typed(
        None, "Threads of every candidate.  [default: all cores]", kind=click.IntRange(1)
    )
    fresh: bool = typed(False, "Delete the results in the folder first.")
    out: Path = typed(
        REQUIRED,
        "Folder of the report. A run that was stopped goes on there.",
        kind=FOLDER,
        flags=("--out", "-o"),
    )

    @property
    def cores(self) -> int:
        """Number of threads: as typed, or all cores."""
        return self.threads or available_cores()


@dataclass(frozen=True, kw_only=True)
class TimedRunOptions(RunOptions):
    """Options of a measurement that times candidates in rounds."""

    rounds: int = typed(
        Schedule.rounds,
        "Rounds of timing; each gives every candidate ten frames, then five streamed.",
        kind=click.IntRange(2),
    )

    @property
    def schedule(self) -> Schedule:
        """Rounds of the timing."""
        return Schedule(rounds=self.rounds)


@dataclass(frozen=True, kw_only=True)
class SmallRunOptions(TimedRunOptions):
    """Options of `edgeseg bench small`: fewer rounds, and a folder by default."""

    rounds: int = same_as(TimedRunOptions, "rounds", default=SmallOptions.rounds)
    out: Path = same_as(RunOptions, "out", default=Path("build/bench-small"))


def repeatable(
    flag: str,
    name: str,
    default: Sequence[str],
    choices: Mapping[str, object] | None,
    text: str,
) -> Decorator[Any]:
    """Make an option that may be given more than once: a registry's names, or any text."""
    return click.option(
        flag,
        name,
        multiple=True,
        default=tuple(default),
        show_default=True,
        type=None if choices is None else RegistryName(choices),
        help=f"{text} May be repeated.",
    )


run_options = takes("run", RunOptions)
timed_run_options = takes("run", TimedRunOptions)
weights_folder_option = click.option(
    "--weights-folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    envvar="EDGESEG_WEIGHTS",
    show_envvar=True,
    help="Folder with <backbone>.pth files.",
)
data_argument = click.argument("data", type=click.Path(path_type=Path, exists=True))


@dataclass(frozen=True, kw_only=True)
class PeerPython:
    """Options that name the interpreter that has anomalib."""

    peers_python: Path | None = typed(
        None,
        "Python interpreter that can import anomalib.  [default: this one, or .venv-peers]",
        kind=click.Path(path_type=Path, exists=True, dir_okay=False),
    )
    install: bool = typed(False, "Make .venv-peers with anomalib 2.7 first.")

    def find(self) -> Path:
        """Find the interpreter; with --install make its environment first."""
        from edgeseg.bench.compare import peer_environment

        if self.install:
            return peer_environment.install(note)
        return peer_environment.find_python(self.peers_python)


peer_python_options = takes("peer_python", PeerPython)


def carry_out(measure: Callable[..., "Report"], options: object, run: RunOptions) -> None:
    """Measure, then print the tables and the paths of the report."""
    finish(measure(options, run.out, fresh=run.fresh, note=note, progress=bar), run)


def finish(report: "Report", run: RunOptions) -> None:
    """Print the tables and the paths of the report."""
    for table in report.tables:
        click.echo(table.markdown())
    page = run.out / "report.html"
    note(f"wrote {run.out / 'report.md'}, report.json and figures; next: open {page}")


def use_weights(folder: Path | None) -> None:
    """Make a folder the place where backbones look for their weights."""
    if folder is not None:
        os.environ["EDGESEG_WEIGHTS"] = str(folder)
