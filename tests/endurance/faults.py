"""No room, no permission, no descriptors, no memory, a clock that jumps: and what is left.

    python -m tests.endurance.faults --count 40

Every fault meets all commands that write, in turn. After each run the outputs are read as the
next command would read them, and the command is run again without the fault. Needs root: full and
read-only disks are mounted for it. A report that is there is continued:
faults that are not tried now keep their rows.
"""

import os
import random
import resource
import signal
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click

from tests.endurance.aftermath import Aftermath, Whole
from tests.endurance.forked import Ended, answer_forked, prepared, run_forked
from tests.endurance.jobs import JOBS, Job, lay_out, make_bench, names_in
from tests.endurance.report import OUT, markdown, write_rows
from tests.endurance.scratch import scratch
from tests.endurance.shortage import (
    FAULTS,
    Fault,
    Need,
    address_bytes,
    can_mount,
    descriptors,
    disturbed_disk,
    small_disk,
)
from tests.endurance.warm import warm


@dataclass(kw_only=True)
class Met(Aftermath):
    """What the runs under one fault came to."""

    runs: int = 0
    went_well: int = 0
    one_sentence: int = 0
    traceback: list[str] = field(default_factory=list)
    signal: list[str] = field(default_factory=list)  # a library gave up

    def judge(self, name: str, ended: Ended, *, must_succeed: bool) -> None:
        """How the run itself ended."""
        self.runs += 1
        last = (ended.said.strip().splitlines() or [""])[-1]
        if ended.code < 0:
            self.signal.append(f"{name}: {signal.Signals(-ended.code).name}")
        elif "Traceback" in ended.said:
            self.traceback.append(f"{name}: {last[:200]}")
        elif ended.code == 0:
            self.went_well += 1
        elif must_succeed:
            self.damaged.append(f"{name}: {last[:200]}")
        else:
            self.one_sentence += 1


@dataclass(frozen=True, kw_only=True)
class MeasuredRun(Whole):
    """With what it takes, of which a fault leaves a share."""

    need: Need


def run_measured(job: Job, bench: Path, folder: Path) -> MeasuredRun:
    """Run the command to its end and see what it takes and changes."""
    with small_disk(folder):
        lay_out(bench, folder, job, made=True)
        old = answer_forked(lambda: job.facts(folder), folder=folder)
        before = os.statvfs(folder)
        taken = answer_forked(lambda: _measured(job, folder), folder=folder)
        after = os.statvfs(folder)
        new = answer_forked(lambda: job.facts(folder), folder=folder)
        disk = (before.f_bfree - after.f_bfree) * before.f_frsize
        need = Need(**taken, disk_bytes=max(disk, 0) + 2_000_000)  # what it writes beside it
        return MeasuredRun(old=old, new=new, names=names_in(folder), need=need)


def _measured(job: Job, folder: Path) -> dict[str, float]:
    import time

    begin_s, begin = time.monotonic(), address_bytes()
    try:
        job.run(folder)
    except SystemExit as end:
        if end.code not in (0, None):
            raise
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    peak = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmPeak"))
    return {
        "seconds": time.monotonic() - begin_s,
        "address_bytes": peak - begin,
        "descriptors": descriptors() + 6,
    }


def meet_once(
    name: str, fault: Fault, calm: MeasuredRun, bench: Path, folder: Path, share: float, met: Met
) -> None:
    """Run a command under a fault, and see what it left."""
    job, where = JOBS[name], f"{name} at {share:.3f}"
    with small_disk(folder):
        lay_out(bench, folder, job, made=True)

        def disturbed() -> None:
            job.run(folder, fault=lambda: fault.in_child(calm.need, share))

        with disturbed_disk(folder, fault, calm.need, share):
            ended = run_forked(disturbed, folder=folder.parent)
        met.judge(where, ended, must_succeed=fault.succeeds)
        met.inspect(job, calm, folder, where, place=folder.parent)


@click.command(context_settings={"show_default": True})
@click.option("--count", type=click.IntRange(1), default=40, help="Runs under each fault.")
@click.option("--fault", "faults", multiple=True, type=click.Choice(list(FAULTS)))
@click.option("--job", "names", multiple=True, type=click.Choice(list(JOBS)), help="Default: all.")
@click.option("--seed", default=0, help="Of the moments.")
@click.option("--bench", type=click.Path(path_type=Path), help="Made here, if it is not there.")
@click.option("--out", type=click.Path(path_type=Path), default=OUT, help="Folder of the report.")
def main(
    count: int,
    faults: tuple[str, ...],
    names: tuple[str, ...],
    seed: int,
    bench: Path | None,
    out: Path,
) -> None:
    """Let every command that writes meet every fault, and fail if an output is lost."""
    warm()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    jobs = list(names or JOBS)
    with scratch("faults") as place:
        if not can_mount(place):
            raise SystemExit("full and read-only disks are mounted for this: run it as root")
        bench, folder = prepared(make_bench, bench, place), place / "run"
        calm = {name: run_measured(JOBS[name], bench, folder) for name in jobs}
        results: dict[str, Met] = {}
        for fault in faults or FAULTS:
            met, rng = results.setdefault(fault, Met()), random.Random(f"{seed} {fault}")
            for number in range(count):
                name = jobs[number % len(jobs)]
                meet_once(name, FAULTS[fault], calm[name], bench, folder, rng.random(), met)
            rows = [{"fault": key, **asdict(each)} for key, each in results.items()]
            title = "Shortages and a clock that jumps"
            write_rows(out, "faults", title=title, rows=rows, known=FAULTS)
    click.echo(markdown(rows))
    if any(met.lost for met in results.values()):
        raise SystemExit("FAILED: something was lost")


if __name__ == "__main__":
    main()
