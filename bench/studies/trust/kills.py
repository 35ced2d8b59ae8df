"""SIGKILL at random moments, and what is left: old or new, never half.

    python -m edgeseg.bench.studies.trust.kills --count 200

Every other kill strikes right before a random operation on files, where a half-done output would
be left; the rest strike after a random time. After each one the outputs are read as the next
command would read them, and the command is run again: nothing of the killed run may remain.
A report that is there is gone on with: commands that are not tried now keep their rows.
"""

import json
import random
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

from edgeseg.bench.harness.scratch import scratch
from edgeseg.bench.studies.trust.forked import Ended, answer_forked, prepared, run_forked
from edgeseg.bench.studies.trust.jobs import (
    JOBS,
    Job,
    close_enough,
    lay_out,
    make_bench,
    names_in,
)
from edgeseg.bench.studies.trust.report import OUT, markdown, write_rows
from edgeseg.bench.studies.trust.warm import warm

LOSSES = ("damaged", "left_after_next_run", "not_repeatable")  # fields of Tried
_ROUND = 5  # the report is written after so many kills of every command


@dataclass(kw_only=True)
class Tried:
    """What the kills of one command left."""

    job: str
    tried: int = 0
    killed: int = 0  # the others came after its end
    old: int = 0
    new: int = 0
    damaged: list[str] = field(default_factory=list)
    left_after_next_run: list[str] = field(default_factory=list)
    not_repeatable: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Whole:
    """A run that nobody disturbed."""

    old: Any  # before it
    new: Any  # after it
    names: set[str]
    ended: Ended


def run_whole(job: Job, bench: Path, folder: Path) -> Whole:
    """Run the command to its end and see what it changes."""
    lay_out(bench, folder, job)
    old = answer_forked(lambda: job.facts(folder), folder=folder)
    ended = run_forked(lambda: job.run(folder), folder=folder)
    if ended.code != 0:
        raise SystemExit(f"the undisturbed run failed: {ended.said[-2000:]}")
    new = answer_forked(lambda: job.facts(folder), folder=folder)
    return Whole(old=old, new=new, names=names_in(folder), ended=ended)


def kill_once(job: Job, whole: Whole, folder: Path, moment: float, tried: Tried) -> None:
    """Kill one run, look, run it again, and look again."""
    tried.tried += 1
    where = f"{moment:.3f}"
    by_operation = tried.tried % 2 == 1
    ended = run_forked(
        lambda: job.run(folder),
        folder=folder,
        kill_at=int(moment * whole.ended.operations) if by_operation else None,
        kill_after_s=None if by_operation else moment * whole.ended.seconds,
    )
    tried.killed += ended.killed
    try:
        facts = answer_forked(lambda: job.facts(folder), folder=folder)
        is_new = close_enough(facts, whole.new)
        tried.new += is_new
        tried.old += not is_new
        if not is_new and not close_enough(facts, whole.old):
            tried.damaged.append(f"{where}: neither old nor new: {facts}")
    except RuntimeError as error:
        tried.damaged.append(f"{where}: {error}")
    again = run_forked(lambda: job.run(folder, *job.again), folder=folder)
    if not job.ended_well(again):
        tried.not_repeatable.append(f"{where}: {again.said[-500:]}")
        return
    try:
        answer_forked(lambda: job.after(folder), folder=folder)
        facts = answer_forked(lambda: job.facts(folder), folder=folder)
        if not close_enough(facts, whole.new):
            tried.not_repeatable.append(f"{where}: another result than an undisturbed run")
    except RuntimeError as error:
        tried.not_repeatable.append(f"{where}: {error}")
    tried.left_after_next_run += sorted(names_in(folder) - whole.names)


class Siege:
    """All kills of one command; they may come in rounds."""

    def __init__(self, name: str, *, bench: Path, scratch: Path, seed: int) -> None:
        self.job, self.tried = JOBS[name], Tried(job=name)
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


def with_others(rows: list[dict[str, Any]], out: Path) -> list[dict[str, Any]]:
    """The rows of this run among those that a report has of other commands."""
    path, tried = out / "kills.json", {row["job"] for row in rows}
    told = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else []
    kept = [asdict(Tried(**row)) for row in told if row["job"] in set(JOBS) - tried]
    return sorted([*kept, *rows], key=lambda row: list(JOBS).index(row["job"]))


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
                rows = [asdict(siege.tried) for siege in sieges.values()]
                all_rows = with_others(rows, out)
                write_rows(out, "kills", title="SIGKILL at random moments", rows=all_rows)
    click.echo(markdown(rows))
    if any(row[key] for row in rows for key in LOSSES):
        raise SystemExit("FAILED: something was lost")


if __name__ == "__main__":
    main()
