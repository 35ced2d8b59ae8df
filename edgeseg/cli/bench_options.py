"""Options and endings that the commands of `edgeseg bench` share."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgeseg.base.options import FOLDER, SIZE, RegistryName, note
from edgeseg.base.progress import bar
from edgeseg.base.typed_options import REQUIRED, Decorator, same_as, takes, typed
from edgeseg.bench.compare.candidates import SmallOptions
from edgeseg.bench.latency.turns import Schedule
from edgeseg.runtime.backends.session_options import available_cores

if TYPE_CHECKING:
    from edgeseg.bench.harness.report import Report


@dataclass(frozen=True, kw_only=True)
class Run:
    """Where a measurement goes, and by how many threads."""

    threads: int | None = typed(
        None, "Threads of every candidate. [default: all cores]", kind=click.IntRange(1)
    )
    fresh: bool = typed(False, "Forget results in the folder.")
    out: Path = typed(
        REQUIRED,
        "Folder of the report; a run that was killed goes on there.",
        kind=FOLDER,
        flags=("--out", "-o"),
    )

    @property
    def cores(self) -> int:
        """All of them unless a number was given."""
        return self.threads or available_cores()


@dataclass(frozen=True, kw_only=True)
class TimedRun(Run):
    """The same, with the rounds of its timing."""

    rounds: int = typed(
        Schedule.rounds,
        "Rounds of timing; each gives every candidate ten frames, then five streamed.",
        kind=click.IntRange(2),
    )

    @property
    def schedule(self) -> Schedule:
        """Of the timing."""
        return Schedule(rounds=self.rounds)


@dataclass(frozen=True, kw_only=True)
class SmallRun(TimedRun):
    """The same for a first look, which needs no folder."""

    rounds: int = same_as(TimedRun, "rounds", default=SmallOptions.rounds)
    out: Path = same_as(Run, "out", default=Path("build/bench-small"))


def several(
    flag: str,
    name: str,
    default: Sequence[str],
    choices: Mapping[str, object] | None,
    text: str = "May be repeated.",
) -> Decorator[Any]:
    """An option that may be given more than once, of a registry's names or of any."""
    return click.option(
        flag,
        name,
        multiple=True,
        default=tuple(default),
        show_default=True,
        type=None if choices is None else RegistryName(choices),
        help=text,
    )


def size_option(default: tuple[int, int], text: str = "Image size.") -> Decorator[Any]:
    """`--size`, as `size_hw`."""
    return click.option(
        "--size",
        "size_hw",
        type=SIZE,
        default=SIZE.text(default),
        show_default=True,
        help=text,
    )


run_options = takes("run", Run)
timed_run_options = takes("run", TimedRun)
limit_option = click.option(
    "--limit",
    type=click.IntRange(2),
    help="At most N images to fit on and N of each test kind: a rehearsal, not a result.",
)
random_option = click.option(
    "--weights", type=click.Choice(("random",)), help="Times, without the weights."
)
weights_option = click.option(
    "--weights-folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    envvar="EDGESEG_WEIGHTS",
    show_envvar=True,
    help="Folder with <backbone>.pth files.",
)
data_argument = click.argument("data", type=click.Path(path_type=Path, exists=True))


@dataclass(frozen=True, kw_only=True)
class PeerPython:
    """Which interpreter has anomalib; looked for, or made, when it is needed."""

    peers_python: Path | None = typed(
        None,
        "An interpreter that can import anomalib. [default: this one, or .venv-peers]",
        kind=click.Path(path_type=Path, exists=True, dir_okay=False),
    )
    install: bool = typed(False, "Make .venv-peers with anomalib 2.7 first.")

    def find(self) -> Path:
        """The interpreter, made first if that was asked for."""
        from edgeseg.bench.compare import peer_environment

        if self.install:
            return peer_environment.install(note)
        return peer_environment.find_python(self.peers_python)


peer_python_options = takes("peer_python", PeerPython)


def carry_out(measure: Callable[..., "Report"], options: object, run: Run) -> None:
    """Measure, then print the tables, and where everything is."""
    finish(measure(options, run.out, fresh=run.fresh, note=note, progress=bar), run)


def finish(report: "Report", run: Run) -> None:
    """Print the tables, and where everything is."""
    for table in report.tables:
        click.echo(table.markdown())
    page = run.out / "report.html"
    note(f"wrote {run.out / 'report.md'}, report.json and figures; next: open {page}")


def use_weights(folder: Path | None) -> None:
    """Make a folder the place where backbones look for their weights."""
    if folder is not None:
        os.environ["EDGESEG_WEIGHTS"] = str(folder)
