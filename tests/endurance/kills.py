"""SIGKILL at random moments, and what is left: old or new, never half.

    python -m tests.endurance.kills --count 200

Every other kill strikes right before a random operation on files, where a half-done output would
be left; the rest strike after a random time. After each one the outputs are read as the next
command would read them, and the command is run again: nothing of the killed run may remain.
A report that is there is continued: commands that are not tried now keep their rows.
"""

import random
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from tests.endurance.aftermath import Aftermath, Whole
from tests.endurance.forked import Ended, answer_forked, prepared, run_forked
from tests.endurance.jobs import JOBS, Job, lay_out, make_bench, names_in
from tests.endurance.report import OUT, markdown, write_rows
from tests.endurance.scratch import scratch
from tests.endurance.warm import warm

_ROUND = 5  # the report is written after so many kills of every command


@dataclass(kw_only=True)
class Tried(Aftermath):
    """What the kills of one command left."""

    tried: int = 0
    killed: int = 0  # the others came after its end


@dataclass(frozen=True, kw_only=True)
class WholeRun(Whole):
    """With its time and its operations on files: between them the kills strike."""

    ended: Ended


def run_whole(job: Job, bench: Path, folder: Path) -> WholeRun:
    """Run the command to its end and see what it changes."""
    lay_out(bench, folder, job)
    old = answer_forked(lambda: job.facts(folder), folder=folder)
    ended = run_forked(lambda: job.run(folder), folder=folder)
    if ended.code != 0:
        raise SystemExit(f"the undisturbed run failed: {ended.said[-2000:]}")
    new = answer_forked(lambda: job.facts(folder), folder=folder)
    return WholeRun(old=old, new=new, names=names_in(folder), ended=ended)


def kill_once(job: Job, whole: WholeRun, folder: Path, moment: float, tried: Tried) -> None:
    """Kill one run, and see what it left."""
    tried.tried += 1
    by_operation = tried.tried % 2 == 1
    ended = run_forked(
        lambda: job.run(folder),
        folder=folder,
        kill_at=int(moment * whole.ended.operations) if by_operation else None,
        kill_after_s=None if by_operation else moment * whole.ended.seconds,
    )
    tried.killed += ended.killed
    tried.inspect(job, whole, folder, f"{moment:.3f}", place=folder)


class Siege:
    """All kills of one command; they may come in rounds."""

    def __init__(self, name: str, *, bench: Path, scratch: Path, seed: int) -> None:
        self.job, self.tried = JOBS[name], Tried()
        self._bench, self._folder = bench, scratch / "run"
        self._whole = run_whole(self.job, bench, self._folder)
        self._rng = random.Random(f"{seed} {name}")
        shutil.rmtree(self._folder)

    def go_on(self, count: int) -> None:
        """So many more."""
        for _ in range(count):
            lay_out(self._bench, self._folder, self.job)
            kill_once(self.job, self._whole, self._folder, self._rng.random(), self.tried)
            shutil.rmtree(self._folder)


@click.command(context_settings={"show_default": True})
@click.option("--count", type=click.IntRange(1), default=200, help="Kills of each command.")
@click.option("--job", "names", multiple=True, type=click.Choice(list(JOBS)), help="Default: all.")
@click.option("--seed", default=0, help="Of the moments.")
@click.option("--bench", type=click.Path(path_type=Path), help="Made here, if it is not there.")
@click.option("--out", type=click.Path(path_type=Path), default=OUT, help="Folder of the report.")
def main(count: int, names: tuple[str, ...], seed: int, bench: Path | None, out: Path) -> None:
    """Kill every command that writes, count what is lost, and fail if it is anything."""
    warm()
    with scratch("kills") as place:
        bench = prepared(make_bench, bench, place)
        sieges: dict[str, Siege] = {}
        for done in range(0, count, _ROUND):
            for name in names or JOBS:
                if name not in sieges:
                    sieges[name] = Siege(name, bench=bench, scratch=place, seed=seed)
                sieges[name].go_on(min(_ROUND, count - done))
                rows = [{"job": key, **asdict(each.tried)} for key, each in sieges.items()]
                write_rows(out, "kills", title="SIGKILL at random moments", rows=rows, known=JOBS)
    click.echo(markdown(rows))
    if any(siege.tried.lost for siege in sieges.values()):
        raise SystemExit("FAILED: something was lost")


if __name__ == "__main__":
    main()
