"""Options and endings that the commands of `edgeseg bench` share."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgeseg.bench.latency.turns import Schedule
from edgeseg.options import FOLDER, SIZE, Decorator, Entry, gathered, note
from edgeseg.progress import bar
from edgeseg.runtime.backends.session_options import available_cores

if TYPE_CHECKING:
    from edgeseg.bench.harness.report import Report


@dataclass(frozen=True, kw_only=True)
class Run:
    """Where a measurement goes, and how it is timed."""

    out: Path
    fresh: bool
    threads: int
    schedule: Schedule


def threads_or_all(threads: int | None) -> int:
    """All cores unless a number was given."""
    return threads or available_cores()


threads_option = click.option(
    "--threads", type=click.IntRange(1), help="Threads of every candidate. [default: all cores]"
)


def run_options_of(*, rounds: int | None = None, out: str | None = None) -> Decorator[Any]:
    """What reaches a command as its `run`; `rounds` are for those that time, `out` a default."""

    def made(*, out: Path, fresh: bool, threads: int | None, rounds: int = Schedule.rounds) -> Run:
        schedule = Schedule(rounds=rounds)
        return Run(out=out, fresh=fresh, threads=threads_or_all(threads), schedule=schedule)

    rounds_option = click.option(
        "--rounds",
        type=click.IntRange(2),
        default=rounds,
        show_default=True,
        help="Rounds of timing; each gives every candidate ten frames, then five streamed.",
    )
    out_option = click.option(
        "--out",
        "-o",
        type=FOLDER,
        required=out is None,
        default=out,
        show_default=True,
        help="Folder of the report; a run that was killed goes on there.",
    )
    fresh_option = click.option("--fresh", is_flag=True, help="Forget results in the folder.")
    timing = [] if rounds is None else [rounds_option]
    return gathered("run", made, threads_option, *timing, fresh_option, out_option)


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
        type=None if choices is None else Entry(choices),
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


run_options = run_options_of()
timed_run_options = run_options_of(rounds=Schedule.rounds)
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

    peers_python: Path | None
    install: bool

    def find(self) -> Path:
        """The interpreter, made first if that was asked for."""
        from edgeseg.bench.peers import environment

        if self.install:
            return environment.install(note)
        return environment.find_python(self.peers_python)


peer_python_options = gathered(
    "peer_python",
    PeerPython,
    click.option(
        "--peers-python",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="An interpreter that can import anomalib. [default: this one, or .venv-peers]",
    ),
    click.option("--install", is_flag=True, help="Make .venv-peers with anomalib 2.7 first."),
)


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
