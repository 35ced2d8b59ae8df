"""Damage files of one format or of all, and say what became of each.

    python -m tests.endurance.fuzz --format image --count 100000 --seed 1 --out out

Cases run in a process of their own with bounded memory; if it dies or hangs, that case is a
finding, and the rest goes on. The same seed and number give the same file: --first N --count 1
repeats one. A report that is there is continued: formats of this run are written anew, the others
stay.
"""

import json
import mmap
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import click

from edgeseg.base.errors import UsageError
from tests.endurance.fuzz.cases import Finding, Tally, limit_memory, run_cases
from tests.endurance.fuzz.formats import FORMATS
from tests.endurance.report import write_rows
from tests.endurance.scratch import scratch

_COUNTED = 500  # cases between two counts
_STUCK_S = 300.0  # on one case; its own limits come long before, unless it hangs in a library


@click.command()
@click.option("--format", "names", type=click.Choice([*FORMATS, "all"]), default="all")
@click.option("--count", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--first", type=click.IntRange(0), default=0, help="Number of the first case.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--minutes", type=float, help="Stop each format after so long.")
@click.option("--keep", type=click.Path(path_type=Path), help="Folder for files that were found.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the report.")
@click.option("--worker", type=click.Path(path_type=Path), hidden=True)
def main(
    names: str,
    count: int,
    first: int,
    seed: int,
    minutes: float | None,
    keep: Path | None,
    out: Path | None,
    worker: Path | None,
) -> None:
    """Try damaged files; the exit code is 1 if one ended as none may."""
    if worker is not None:
        cases = range(first, first + count)
        _work(names, cases, seed=seed, keep=keep, folder=worker, minutes=minutes or 1e9)
        return
    rows: list[dict[str, Any]] = []
    found = 0
    for name in FORMATS if names == "all" else (names,):
        started = time.monotonic()
        tally = isolated(name, first, count, seed=seed, keep=keep, minutes=minutes)
        seconds = time.monotonic() - started
        found += len(tally.findings)
        told = {"seed": seed, "first": first, "seconds": round(seconds, 1)}
        rows.append({"format": name, **tally.facts(), **told})
        click.echo(
            f"{name}: {tally.cases} cases, {tally.refused} refused, {tally.loaded} loaded, "
            f"{len(tally.findings)} wrong, slowest {tally.slowest_s:.2f} s, {seconds:.0f} s"
        )
        for finding in tally.findings[:20]:
            click.echo(f"  {finding.case} {finding.seed_file} {finding.how}: {finding.what}")
        if out is not None:
            write_rows(out, "fuzz", title="Damaged input", rows=rows, known=FORMATS)
    sys.exit(1 if found else 0)


def isolated(
    name: str, first: int, count: int, *, seed: int, keep: Path | None, minutes: float | None
) -> Tally:
    """All cases, in as many processes as it takes."""
    total, waiting = Tally(), [range(first, first + count)]
    deadline = time.monotonic() + (60 * minutes if minutes else 1e9)
    with scratch("fuzz") as place:
        state = State(place)
        while waiting and time.monotonic() < deadline:
            cases = waiting.pop()
            state.reset(cases)
            code = _run_worker(name, cases, seed, keep, place, deadline - time.monotonic(), state)
            told, done = state.read()
            total.add(told)
            if code > 0:
                raise UsageError(f"the fuzzer itself failed (exit code {code}); see above")
            if code:
                what = f"the process died or hung (exit code {code})"
                died = state.case()
                total.findings.append(Finding(case=died, seed_file="", how="", what=what))
                total.cases += 1
                # What was tried since the last count is tried again, without the one that died.
                later = range(died + 1, cases.stop)
                waiting += [each for each in (later, range(done, died)) if each]
    return total


class State:
    """What a process has done, for when it dies."""

    def __init__(self, folder: Path) -> None:
        path, self._done = folder / "case", folder / "done.json"
        if not path.exists():
            path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._case = mmap.mmap(file.fileno(), 8)  # outlives the process that writes it

    def reset(self, cases: range) -> None:
        """Before the first."""
        self.at(cases.start)
        self.write(Tally(), cases.start)

    def at(self, case: int) -> None:
        """The case that is about to be tried."""
        self._case[:8] = case.to_bytes(8, "little")

    def case(self) -> int:
        """The case that was tried last."""
        return int.from_bytes(self._case[:8], "little")

    def write(self, tally: Tally, done: int) -> None:
        """Everything before a case is counted."""
        text = json.dumps({"tally": tally.facts(), "done": done})
        self._done.write_text(text, encoding="utf-8")

    def read(self) -> tuple[Tally, int]:
        """What was counted, and up to which case."""
        told = json.loads(self._done.read_text(encoding="utf-8"))
        return _tally(told["tally"]), int(told["done"])


def _run_worker(
    name: str,
    cases: range,
    seed: int,
    keep: Path | None,
    folder: Path,
    left_s: float,
    state: State,
) -> int:
    """One process; 0 when it came to its end, or to the end of its time; killed if it hangs."""
    words = [
        *("--format", name),
        *("--first", str(cases.start), "--count", str(len(cases)), "--seed", str(seed)),
        *("--worker", str(folder), "--minutes", str(max(left_s, 1.0) / 60)),
        *(("--keep", str(keep)) if keep else ()),
    ]
    command = _worker_command(*words)
    quiet = os.environ | {"OMP_NUM_THREADS": "1"}
    process, seen, since_s = subprocess.Popen(command, env=quiet), -1, time.monotonic()
    while True:
        try:
            return process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            if state.case() != seen:
                seen, since_s = state.case(), time.monotonic()
            elif time.monotonic() - since_s > _STUCK_S:
                process.kill()


def _worker_command(*words: str) -> list[str]:
    return [sys.executable, "-m", "tests.endurance.fuzz", *words]


def _work(
    name: str, cases: range, *, seed: int, keep: Path | None, folder: Path, minutes: float
) -> None:
    """Cases in this process, counted now and then."""
    deadline, total, state = time.monotonic() + 60 * minutes, Tally(), State(folder)
    run_cases(name, range(0), seed=seed)  # loads what it needs
    limit_memory()
    for start in range(cases.start, cases.stop, _COUNTED):
        part = range(start, min(start + _COUNTED, cases.stop))
        total.add(run_cases(name, part, seed=seed, keep=keep, at=state.at))
        state.write(total, part.stop)
        if time.monotonic() > deadline:
            break


def _tally(facts: dict[str, object]) -> Tally:
    values = dict(facts)
    findings = [Finding(**item) for item in values.pop("findings")]  # type: ignore[attr-defined]
    counted = Counter(values.pop("by_mutator"))  # type: ignore[call-overload]
    return Tally(**values, findings=findings, by_mutator=counted)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
