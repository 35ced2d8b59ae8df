"""Seconds from an opened page to its first verdict, of one checkout or of several in turn.

    python -m tests.endurance.first_verdict --checkout . --checkout ../edgeseg-0.2.0 --runs 3

Two pages are opened in chromium: that of an empty project, whose buttons are pressed until its
station judges, and that of a stream that runs. The fit is a real one, through a backbone's graph.
Each checkout runs its own commands, and its own presses where its page wants others. Drawn parts
lie before a folder that is the camera, one after the other, as long as a person would need. The
clock is the program's: nobody thinks, walks or reads in it.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click

from tests.doubles import person
from tests.doubles.chromium import Browser, open_browser
from tests.doubles.server_process import ServerProcess

PICTURES, PART_S = 60, 0.6  # good parts, and how long each lies before the camera
SIZE = ("--size", "384x512")
CAMERA = "synthetic:fps=5,defects=0.1,height=384,width=512"
SAID = "/GOOD|DEFECT|UNSURE|INVALID/.test($('verdict').innerText.toUpperCase())"
ROOT = Path(__file__).resolve().parents[2]
EDGESEG = (sys.executable, "-m", "edgeseg")
GRAPH, MADE = "lite1.onnx", "gears/train/good"


class Page(ServerProcess):
    """A command with a page, while it is entered."""

    def __init__(self, *words: str) -> None:
        super().__init__()
        self._words, self.url = words, f"http://127.0.0.1:{self.port}/"

    def __enter__(self) -> "Page":
        self._listen([*EDGESEG, *self._words, "--serve", str(self.port)])
        return self


class Clock:
    """Steps one after another, from its making on."""

    def __init__(self) -> None:
        self._begin_s = self._last_s = time.monotonic()
        self.steps: dict[str, float] = {}

    def step(self, name: str, do: Callable[[], object]) -> None:
        """Do a step, and note the seconds that it took."""
        do()
        now_s = time.monotonic()
        self.steps[name] = now_s - self._last_s
        self._last_s = now_s
        self.steps["page opened to first verdict"] = now_s - self._begin_s


def taught(browser: Browser, work: Path) -> dict[str, float]:
    """Press through an empty project until its station judges."""
    parts, camera, project = sorted((work / MADE).iterdir()), work / "camera", work / "line3"
    for folder in (camera, project):
        shutil.rmtree(folder, ignore_errors=True)
    camera.mkdir()
    shutil.copy(parts[0], camera / "part.png")

    def bring(index: int) -> None:
        shutil.copy(parts[index % len(parts)], work / "next.png")
        (work / "next.png").replace(camera / "part.png")
        time.sleep(PART_S)

    place = ("--project", str(project), "--source", str(camera))
    words = (*place, "--graph", str(work / GRAPH), "--backbone", "efficientnet_lite1")
    with Page("teach", *words) as page:
        clock = Clock()
        tab = browser.open(page.url, size_wh=person.DESK)
        clock.step("teach: the page shows the camera", lambda: person.look(tab))
        collected = f"teach: {PICTURES} parts are captured"
        clock.step(collected, lambda: person.collect(tab, PICTURES, part=bring))
        clock.step("teach: fit", lambda: person.fit(tab))
        assert tab.evaluate("state.fit.state") == "done", tab.evaluate("state.fit.sentence")
        clock.step("teach: judge", lambda: person.judge(tab))
        clock.step("teach: the station gives a verdict", lambda: person.run(tab))
        tab.close()
    clock.steps["teach: page opened to first verdict"] = clock.steps.pop(
        "page opened to first verdict"
    )
    return clock.steps


def streamed(browser: Browser, work: Path) -> dict[str, float]:
    """Open the page of a stream that has judged parts for a while."""
    with Page("stream", "--model", str(work / "line3/fit/model.onnx"), "--source", CAMERA) as page:
        time.sleep(5)  # it runs before somebody looks
        begin_s = time.monotonic()
        tab = browser.open(page.url, size_wh=person.DESK)
        tab.wait_for(SAID)
        seconds = time.monotonic() - begin_s
        tab.close()
    return {"stream: page opened to first verdict": seconds}


def prepare(work: Path) -> None:
    """Draw parts and write the backbone's graph, by the checkout itself."""
    synthesize = ("synthesize", "gears", *SIZE, "--train", str(PICTURES))
    graph = ("export-backbone", GRAPH, "--backbone", "efficientnet_lite1")
    for words in (synthesize, graph):
        # In another folder, where the checkout is not found by itself.
        place = {**os.environ, "PYTHONPATH": str(Path.cwd())}
        command = [*EDGESEG, *words]
        subprocess.run(command, cwd=work, env=place, check=True, stdout=subprocess.DEVNULL)


def measure_here(work: Path) -> dict[str, float]:
    """Measure the checkout that this process was started in."""
    if not (work / GRAPH).is_file():
        prepare(work)
    with open_browser() as browser:
        return {**taught(browser, work), **streamed(browser, work)}


def measure_in(checkout: Path, work: Path) -> dict[str, float]:
    """Measure a checkout by a process of its own; its doubles press its page."""
    work.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, __file__, "--here", str(work)],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    steps: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return steps


def commit_of(checkout: Path) -> str:
    """Return the short name of a checkout's commit."""
    asked = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


@click.command(context_settings={"show_default": True})
@click.option("--checkout", "checkouts", type=click.Path(path_type=Path), multiple=True)
@click.option("--runs", type=click.IntRange(1), default=3, help="Of each, in turn.")
@click.option("--here", type=click.Path(path_type=Path), hidden=True)
@click.option("--out", type=click.Path(path_type=Path), default=ROOT / "bench/results/teach")
def main(checkouts: tuple[Path, ...], runs: int, here: Path | None, out: Path) -> None:
    """Measure each checkout some times, in turn, and write a table of medians."""
    if here is not None:
        print(json.dumps(measure_here(here)))
        return
    from tests.endurance.report import write_rows  # another checkout may have none

    places = [checkout.resolve() for checkout in checkouts or (ROOT,)]
    measured: dict[Path, list[dict[str, float]]] = {place: [] for place in places}
    loads = []
    with tempfile.TemporaryDirectory() as folder:
        for run in range(runs):
            for number, place in enumerate(places):
                loads.append(os.getloadavg()[0])
                measured[place].append(measure_in(place, Path(folder) / str(number)))
                total = measured[place][-1]["teach: page opened to first verdict"]
                click.echo(f"run {run + 1}, {commit_of(place)}: {total:.1f} s", err=True)
    rows = []
    for step in measured[places[0]][0]:
        row: dict[str, object] = {"step": step}
        for place in places:
            seconds = sorted(each[step] for each in measured[place])
            row[f"commit {commit_of(place)}, s"] = f"{statistics.median(seconds):.1f}"
            row[f"{commit_of(place)}, lowest to highest"] = f"{seconds[0]:.1f} to {seconds[-1]:.1f}"
        rows.append(row)
    title = (
        f"From the opened page to the first verdict: medians of {runs} runs each, in turn, on "
        f"{os.cpu_count()} cores; load before a run {min(loads):.1f} to {max(loads):.1f}. "
        f"{PICTURES * PART_S:.0f} s were waited for parts to come"
    )
    write_rows(out / "first_hour", "report", title=title, rows=rows)


if __name__ == "__main__":
    main()
