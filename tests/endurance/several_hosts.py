"""A fit by torchrun over several hosts, undisturbed and disturbed: its bytes, times and words.

    python -m tests.endurance.several_hosts --hosts 3 --out bench/results/scaling

Hosts are namespaces of this computer, with a link each: they share its processors, so seconds say
what a disturbance adds and not how fast several computers are. Needs root.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from edgeseg.base.files import file_sha256
from tests.endurance.report import markdown, write_rows
from tests.endurance.scratch import scratch
from tests.support.hosts import Host, hosts, why_no_hosts
from tests.support.small_models import write_plate

_LONGEST_S = 600.0  # of one fit; longer is a hang
_OUTAGE_S = 20.0  # of a cable that somebody puts back
_GRACE_S = 30.0  # for torchrun to follow
_POLL_S = 0.05
PLATES = 120  # drawn good images


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What became of one run."""

    what: str
    seconds: float
    megabytes_sent: float  # by the host that sent most
    ended: str  # exit codes of torchrun by host; -: it still ran after edgeseg had ended
    said: list[str]  # the errors of edgeseg, by whichever host
    same_bytes: str = "-"  # as on one host


@dataclass(frozen=True, kw_only=True)
class Study:
    """One fit, which is done over and over again."""

    data: Path
    folder: Path
    settings: tuple[str, ...]
    processes: int
    checkpoint_s: float = 0.0

    @property
    def out(self) -> Path:
        """The model."""
        return self.folder / "part.edgeseg"

    def start(self, machines: list[Host], *more: str) -> list["subprocess.Popen[str]"]:
        """The same command on every host, as docs/scaling.md has it."""
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", len(machines)]
        share = ["--nproc-per-node", self.processes // len(machines)]
        meet = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{machines[0].name}:29500"]
        fit = ["-m", "edgeseg", "fit", self.data, "--out", self.out, *self.settings]
        fit += ["--checkpoint-seconds", self.checkpoint_s, *more]
        programs = []
        for place, machine in enumerate(machines):
            with (self.folder / f"said-{place}").open("w") as said:
                streams = {"stdout": said.fileno(), "stderr": said.fileno()}
                programs.append(machine.start([*torchrun, *share, *meet, *fit], **streams))
        return programs

    def said(self) -> list[str]:
        """Every error once; torchrun has much more to say."""
        texts = [path.read_text(errors="replace") for path in sorted(self.folder.glob("said-*"))]
        lines = (line for text in texts for line in text.splitlines())
        return list(dict.fromkeys(line for line in lines if line.startswith("Error: ")))

    def wait_for_middle(self, programs: list["subprocess.Popen[str]"]) -> None:
        """Until every process has left a checkpoint."""
        parts = self.out.with_name(f"{self.out.name}.parts")
        while len(list(parts.glob("*.moments"))) < self.processes:
            if any(program.poll() is not None for program in programs):
                raise SystemExit(f"the fit ended before its middle: {self.said()}")
            time.sleep(_POLL_S)


Disturb = Callable[[Study, list[Host], list["subprocess.Popen[str]"]], None]


def wait_told(study: Study, programs: list["subprocess.Popen[str]"]) -> None:
    """Until all have ended, or edgeseg has and torchrun does not follow."""
    deadline_s = time.monotonic() + _LONGEST_S
    while any(program.poll() is None for program in programs) and time.monotonic() < deadline_s:
        if study.said():
            deadline_s = min(deadline_s, time.monotonic() + _GRACE_S)
        time.sleep(_POLL_S)


def fit_once(study: Study, what: str, machines: list[Host], disturb: Disturb, *more: str) -> Fitted:
    """One run to its end."""
    sent = [machine.sent_bytes() for machine in machines]
    begun_s = time.monotonic()
    programs = study.start(machines, *more)
    try:
        disturb(study, machines, programs)
        wait_told(study, programs)
        seconds = time.monotonic() - begun_s
        codes = " ".join("-" if (code := one.poll()) is None else str(code) for one in programs)
    finally:
        for program in programs:
            program.kill()
            program.wait()
    most = max(
        machine.sent_bytes() - before for machine, before in zip(machines, sent, strict=True)
    )
    return Fitted(
        what=what,
        seconds=seconds,
        megabytes_sent=most / 1e6,
        ended=codes,
        said=study.said(),
        same_bytes=file_sha256(study.out) if study.out.exists() else "no model",
    )


def leave_alone(study: Study, machines: list[Host], programs: object) -> None:
    """Nothing happens."""


def interrupt_the_link(
    study: Study, machines: list[Host], programs: list["subprocess.Popen[str]"]
) -> None:
    """Pull a cable in the middle, and put it back."""
    study.wait_for_middle(programs)
    machines[-1].cable(plugged=False)
    time.sleep(_OUTAGE_S)
    machines[-1].cable(plugged=True)


def kill_processes(
    study: Study, machines: list[Host], programs: list["subprocess.Popen[str]"]
) -> None:
    """Kill all that runs on the last host, whose kernel takes leave of the others."""
    study.wait_for_middle(programs)
    programs[-1].kill()


def cut_power(place: int) -> Disturb:
    """Take a host away without a word: the others hear nothing any more."""

    def disturb(
        study: Study, machines: list[Host], programs: list["subprocess.Popen[str]"]
    ) -> None:
        study.wait_for_middle(programs)
        machines[place].cable(plugged=False)
        programs[place].kill()

    return disturb


def runs(study: Study, machines: list[Host], megabits: int) -> Iterator[Fitted]:
    """Every run, and after each loss the one that goes on from there."""
    alone = machines[:1]
    yield fit_once(study, "one host", alone, leave_alone)
    yield fit_once(study, f"{len(machines)} hosts", machines, leave_alone)
    outage = f"a cable pulled for {_OUTAGE_S:g} s"
    yield fit_once(study, outage, machines, interrupt_the_link)
    losses = {
        "processes of one host killed": kill_processes,
        "last host without power": cut_power(-1),
        "first host without power": cut_power(0),
    }
    for what, disturb in losses.items():
        yield fit_once(study, what, machines, disturb)
        for machine in machines:
            machine.cable(plugged=True)
        yield fit_once(study, "and started again", machines, leave_alone, "--resume")
    machines[-1].slow_down(megabits)
    yield fit_once(study, f"a link of {megabits} Mbit/s", machines, leave_alone)


def compared(found: Iterator[Fitted]) -> Iterator[Fitted]:
    """Every run beside the first."""
    expected: str | None = None
    for fitted in found:
        digest = fitted.same_bytes
        expected = expected or digest
        same = digest if digest == "no model" else "yes" if digest == expected else "NO"
        yield Fitted(**asdict(fitted) | {"same_bytes": same})


def settings_of(data: Path | None, folder: Path) -> tuple[Path, tuple[str, ...]]:
    """The user's data with the defaults of a fit, or drawn pictures and random weights."""
    if data is not None:
        return data, ()
    made = write_plate(folder / "plate", size_hw=(256, 256), train=PLATES, seed=0)
    small = ("--backbone", "mobilenet_v3_small", "--weights", "random", "--size", "256")
    return made, (*small, "-k", "32", "--batch-size", "4")


@click.command(context_settings={"show_default": True})
@click.option("--hosts", "count", type=click.IntRange(2), default=3, help="How many.")
@click.option("--data", type=click.Path(path_type=Path, exists=True), help="Drawn, if none.")
@click.option("--megabits", default=100, help="A second, of the slow link.")
@click.option("--option", "more", multiple=True, help="Of `edgeseg fit`, such as -o=-k -o=32.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("bench/results/scaling"))
def main(count: int, data: Path | None, megabits: int, more: tuple[str, ...], out: Path) -> None:
    """Fit over several hosts, disturb them, and fail if any model has other bytes."""
    if (reason := why_no_hosts()) is not None:
        raise SystemExit(reason)
    rows, drawn = [], data is None
    with scratch("hosts") as folder, hosts(count) as machines:
        data, settings = settings_of(data, folder)
        study = Study(data=data, folder=folder, settings=settings + more, processes=count)
        for fitted in compared(runs(study, machines, megabits)):
            rows.append(asdict(fitted) | {"said": " / ".join(fitted.said) or "-"})
            click.echo(rows[-1], err=True)
            with contextlib.suppress(FileNotFoundError):
                study.out.unlink()
    pictures = f"{PLATES} drawn plates" if drawn else data.name
    title = f"A fit of {pictures} over {count} hosts: {' '.join(settings + more)}"
    write_rows(out, f"hosts-{count}", title=title, rows=rows)
    click.echo(markdown(rows))
    if any(row["same_bytes"] == "NO" for row in rows):
        raise SystemExit("FAILED: a model has other bytes")


if __name__ == "__main__":
    main()
