"""A real fit beside a computer that is busy: does it end, and what does its page say meanwhile?

    python -m tests.endurance.busy_fit            # needs weights, takes some minutes

The fit is that of a project's page: a child that gives way, and never gets less than a floor for
long. It is made beside what runs there already, and then beside four endless loops for each core.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from edgeseg.base.options import note
from edgeseg.teach.project import Project
from edgeseg.teach.service import TeachService
from tests.endurance.report import write_rows
from tests.support.small_models import write_plate

LOOPS = 4  # for each core
_LOOK_S = 0.5
OUT = Path("bench/results/teach/busy_fit")


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep cores busy while it is entered, each loop by a session of its own."""
    running = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
        for _ in range(loops)
    ]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def fitted(project: Project, *, loops: int) -> dict[str, Any]:
    """Fit a project once; a row of the table."""
    service, told = TeachService(project), []
    with busy(loops):
        load, begin_s = os.getloadavg()[0], time.monotonic()
        service.start_fit({})
        while (now := service.state()["fit"])["state"] == "running":
            told.append((time.monotonic() - begin_s, now["left_s"], now["core"]))
            time.sleep(_LOOK_S)
        seconds = time.monotonic() - begin_s
    service.close()
    half = [(at + left) / seconds for at, left, _ in told if left is not None and at > seconds / 2]
    known = [at for at, left, _ in told if left is not None]
    cores = [core for *_, core in told if core is not None]
    return {
        "busy loops": loops,
        "load before": round(load, 1),
        "end": str(now["state"]),
        "seconds": round(seconds, 1),
        "estimate from, s": round(known[0], 1) if known else "-",
        "estimated / true end, second half": f"{min(half):.2f} to {max(half):.2f}" if half else "-",
        "of one core, lowest": f"{min(cores):.2f}" if cores else "-",
        "median": f"{statistics.median(cores):.2f}" if cores else "-",
    }


@click.command(context_settings={"show_default": True})
@click.option("--graph", type=click.Path(path_type=Path, exists=True), help="Of the backbone.")
@click.option("--backbone", default="efficientnet_lite1")
@click.option("--pictures", default=60)
@click.option("--out", type=click.Path(path_type=Path), default=OUT)
def main(graph: Path | None, backbone: str, pictures: int, out: Path) -> None:
    """Fit without and beside busy loops; fail if a fit does not end."""
    rows, chosen = [], "" if graph is None else str(graph.resolve())
    for loops in (0, LOOPS * (os.cpu_count() or 1)):
        with tempfile.TemporaryDirectory() as folder:
            made = write_plate(Path(folder) / "plate", size_hw=(256, 256), train=pictures, seed=0)
            project = Project.open_or_create(Path(folder) / "line3")
            (made / "train/good").rename(project.pictures("good"))
            project.store(replace(project.settings(), backbone=backbone, graph=chosen))
            rows.append(fitted(project, loops=loops))
            note(str(rows[-1]))
    title = f"A fit of {pictures} pictures with {backbone} beside busy loops, and without them"
    write_rows(out, "report", title=title, rows=rows)
    if any(row["end"] != "done" for row in rows):
        raise SystemExit("FAILED: a fit did not end")


if __name__ == "__main__":
    main()
