"""From the opened page to a running station: seconds of every step, in a real browser.

    python -m edgeseg.bench.studies.teach.first_hour mvtec_ad/bottle/train/good --out first-hour

`edgeseg teach` is started on a folder as camera, and its page is pressed through as a person would.
A part lies before the camera for three of its frames before the button is pressed. The clock is
the program's own, so nobody thinks or walks in it.
"""

import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click

from edgeseg.bench.harness.machine import busy_warning, describe
from edgeseg.bench.harness.report import Report, write_report
from edgeseg.bench.harness.scratch import scratch
from edgeseg.bench.harness.tabular import column, table_of
from edgeseg.bench.studies.teach import person
from edgeseg.bench.studies.teach.chromium import Tab, find_browser, running_browser
from edgeseg.contract.images import images_in
from edgeseg.errors import RuntimeFailure, UsageError
from edgeseg.options import FILE, FOLDER, note
from edgeseg.runtime.backends.session_options import available_cores
from edgeseg.teach.camera import FILES_FPS

_PART_S = 3 / FILES_FPS
_START_S, _END_S = 120.0, 30.0
_LOOKED_AT = ((0.05, 0.05), (0.5, 0.5), (0.95, 0.95))  # the rectangle that is drawn
_OPEN = re.compile(r"open (http://\S+) in a browser")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the page."""

    step: str = field(metadata=column("step"))
    seconds: float = field(metadata=column("seconds", digits=1))
    since: float = field(metadata=column("since the page was opened", digits=1))


class Clock:
    """Steps one after another, from its making on."""

    def __init__(self) -> None:
        self._begin_s = self._last_s = time.monotonic()
        self.steps: list[Step] = []

    def step(self, name: str) -> None:
        """What was done since the last one."""
        now_s = time.monotonic()
        done = Step(step=name, seconds=now_s - self._last_s, since=now_s - self._begin_s)
        self._last_s = now_s
        self.steps.append(done)
        note(f"{name}: {done.seconds:.1f} s")


class FolderCamera:
    """A folder that `edgeseg teach` takes for a camera: one part, or all of them in turn."""

    def __init__(self, folder: Path, parts: Sequence[Path]) -> None:
        self.folder, self._parts = folder, parts
        folder.mkdir()
        self._show(parts[0])

    def bring(self, index: int) -> None:
        """The next part, and no other."""
        self._show(self._parts[index % len(self._parts)])
        time.sleep(_PART_S)

    def bring_all(self) -> None:
        """As on a line that runs."""
        for part in self._parts[1:]:
            shutil.copy(part, self.folder / f"line-{part.name}")

    def _show(self, part: Path) -> None:
        spare = self.folder.parent / f"next{part.suffix}"
        shutil.copy(part, spare)
        spare.replace(self.folder / f"part{part.suffix}")


@contextmanager
def teaching(project: Path, camera: Path, wishes: Sequence[str]) -> Iterator[str]:
    """`edgeseg teach` with its page; the page's address."""
    command = [sys.executable, "-m", "edgeseg", "teach", "--source", str(camera)]
    process = subprocess.Popen(
        [*command, "--project", str(project), "--serve", "0", *wishes],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield _address(process)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _address(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None  # it is a pipe
    said, until_s = "", time.monotonic() + _START_S
    while (left_s := until_s - time.monotonic()) > 0:
        if not select.select([process.stderr], [], [], left_s)[0]:
            break
        line = process.stderr.readline()
        found = _OPEN.search(line)
        if found:
            return found[1]
        if not line:
            break
        said = line
    raise RuntimeFailure(f"edgeseg teach: no page ({said.strip() or 'nothing was said'})")


def pressed(tab: Tab, clock: Clock, camera: FolderCamera, *, captures: int) -> None:
    """Every step of a first hour."""
    person.look(tab)
    clock.step("the page opens and shows the camera")
    person.collect(tab, captures, part=camera.bring)
    clock.step(f"{captures} good parts are captured")
    person.draw(tab, *_LOOKED_AT)
    clock.step("where to look is drawn")
    person.fit(tab)
    if tab.evaluate("state.fit.state") != "done":
        raise RuntimeFailure(f"fit: {tab.evaluate('state.fit.sentence')}")
    clock.step("fit")
    person.judge(tab)
    clock.step("what it is worth is shown")
    camera.bring_all()
    person.run(tab)
    clock.step("the station gives its first verdict")


def measure(
    parts: Sequence[Path], folder: Path, *, captures: int, wishes: Sequence[str]
) -> list[Step]:
    """Seconds of each step, from an empty project on."""
    program = find_browser()
    if program is None:
        raise UsageError("needs a browser: apt-get install chromium")
    camera = FolderCamera(folder / "camera", parts)
    with (
        teaching(folder / "line3", camera.folder, wishes) as url,
        running_browser(program) as browser,
    ):
        clock = Clock()
        tab = browser.open(url, size_wh=person.DESK)
        pressed(tab, clock, camera, captures=captures)
        problems = browser.problems()
        tab.close()
    if problems:
        raise RuntimeFailure(f"the page logged errors: {problems[0]}")
    return clock.steps


def report_of(
    steps: Sequence[Step], *, captures: int, parts: int, wishes: Sequence[str], busy: str | None
) -> Report:
    """The steps and their sum."""
    brought_s = captures * _PART_S
    waited = f"{brought_s:.0f} s of it were waited for parts to come, {_PART_S:.1f} s for each"
    return Report(
        name="first-hour",
        title="From the opened page to a running station",
        findings=(
            f"The station ran {steps[-1].since:.0f} s after the page was opened, with {captures} "
            f"captured parts; {waited}.",
        ),
        tables=(
            table_of(
                f"Steps of a first hour, {captures} captures",
                steps,
                note=f"Pressed by a program in chromium, {parts} pictures before a folder as "
                f"camera at {FILES_FPS:g} frames a second. Nobody thinks, walks or reads in it.",
            ),
        ),
        figures=(),
        facts={
            **describe(threads=available_cores()),
            "edgeseg teach": " ".join(wishes) or "default settings",
        },
        notes=() if busy is None else (busy,),
        raw={"steps": [asdict(step) for step in steps], "captures": captures},
    )


@click.command(context_settings={"show_default": True})
@click.argument("data", type=FOLDER)
@click.option("--captures", type=click.IntRange(5), default=60, help="Good parts.")
@click.option("--backbone", help="As of `edgeseg teach`.")
@click.option("--graph", type=FILE, help="Of the backbone, where it is not at hand by itself.")
@click.option("--out", type=FOLDER, required=True)
def main(data: Path, captures: int, backbone: str | None, graph: Path | None, out: Path) -> None:
    """Teach a station on DATA, a folder of good pictures, through its page."""
    busy = busy_warning()
    parts = images_in(data)[:captures]
    if not parts:
        raise UsageError(f"{data}: no pictures, expected a folder of good ones")
    given = (("--backbone", backbone), ("--graph", graph))
    wishes = [word for name, value in given if value is not None for word in (name, str(value))]
    with scratch("first-hour") as place:
        steps = measure(parts, place, captures=captures, wishes=wishes)
    out.mkdir(parents=True, exist_ok=True)
    report = report_of(steps, captures=captures, parts=len(parts), wishes=wishes, busy=busy)
    write_report(report, out)
    note(f"wrote {out / 'report.md'}")


if __name__ == "__main__":
    main()
