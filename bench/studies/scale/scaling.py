"""What more processes, shards and updates cost and save, on this machine.

python -m edgeseg.bench.studies.scale.scaling mvtec_ad/bottle --out scaling.json
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from edgeseg.bench.harness.machine import busy_warning, describe
from edgeseg.bench.harness.processes import last_line
from edgeseg.bench.harness.tabular import column, table_of
from edgeseg.bench.studies.scale.scaling_worker import FIGURES
from edgeseg.errors import EdgesegError
from edgeseg.files import write_json

SHARDS = 8
HOUR = 3600
MSTC, MANY = 274_515, 10**8  # frames: the campus data set, and a camera for a year


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is fitted, how often, and where it is put."""

    data: Path  # a folder of `images` good images
    folder: Path
    images: int
    repeats: int
    settings: tuple[str, ...]

    def run(self, command: list[str], *, processes: int = 1, threads: int = 1) -> dict[str, Any]:
        """Median seconds of a command and the peak of its largest process."""
        runs = [self._once(command, processes, threads) for _ in range(self.repeats)]
        return {
            "seconds": statistics.median(max(worker["seconds"] for worker in run) for run in runs),
            "peak_mb": max(worker["peak_mb"] for run in runs for worker in run),
            "base_mb": min(worker["base_mb"] for run in runs for worker in run),
            "processes": processes,
            "threads": threads,
            "all_seconds": [max(worker["seconds"] for worker in run) for run in runs],
        }

    def _once(self, command: list[str], processes: int, threads: int) -> list[dict[str, Any]]:
        for old in self.folder.glob("figures-*.json"):
            old.unlink()
        launcher = [sys.executable, "-m", "edgeseg.bench.studies.scale.scaling_worker"]
        if processes > 1:
            launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
            launcher += [
                "--nproc-per-node",
                str(processes),
                "-m",
                "edgeseg.bench.studies.scale.scaling_worker",
            ]
        done = subprocess.run(
            [*launcher, *command],
            env=os.environ
            | {"OMP_NUM_THREADS": str(threads), FIGURES: str(self.folder / "figures-")},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise EdgesegError(f"`edgeseg {command[0]}` failed: {last_line(done.stderr)}")
        return [json.loads(path.read_text()) for path in self.folder.glob("figures-*.json")]

    def path(self, name: str) -> str:
        """A file of this run."""
        return str(self.folder / name)


@dataclass(frozen=True, kw_only=True)
class CommandRow:
    """One command, beside a fit."""

    what: str = field(metadata=column("what"))
    seconds: float = field(metadata=column("seconds", digits=1))
    against: str = field(metadata=column("against"))
    memory: str = field(metadata=column("MB per process (before)"))


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """What is expected of many frames in so many processes."""

    frames: str = field(metadata=column("frames"))
    processes: int = field(metadata=column("processes"))
    sweep_h: str = field(metadata=column("hours of the sweep"))
    rest_s: float = field(metadata=column("seconds after it", digits=0))
    all_h: str = field(metadata=column("hours"))


def measure(plan: Plan) -> dict[str, Any]:
    """All figures, one after the other."""
    measured: dict[str, Any] = {}
    data = str(plan.data)
    for name, processes, threads in (("1 x 1", 1, 1), ("1 x 2", 1, 2), ("2 x 1", 2, 1)):
        out = plan.path(f"m{processes}{threads}.edgeseg")
        fit = ["fit", data, "--out", out, *plan.settings]
        measured[f"fit, {name}"] = plan.run(fit, processes=processes, threads=threads)
    shards = [plan.path(f"s_{index}") for index in range(SHARDS)]
    for index, shard in enumerate(shards):
        part = ["moments", data, "--shard", f"{index}/{SHARDS}", "--out", shard, *plan.settings]
        figures = plan.run(part, threads=2)
        measured.setdefault("one shard of 8", figures)
    measured["merge of 8 shards"] = plan.run(["merge", *shards, "--out", plan.path("m")], threads=2)
    measured["merge of 8 shards"]["bytes"] = sum(Path(shard).stat().st_size for shard in shards)
    single = plan.folder / "one"
    single.mkdir()
    image = sorted(plan.data.iterdir())[0]
    (single / image.name).write_bytes(image.read_bytes())
    model = plan.path("m12.edgeseg")
    measured["update by 1 image"] = plan.run(
        ["update", model, str(single), "--out", plan.path("u")], threads=2
    )
    measured["forget 1 image"] = plan.run(
        ["update", model, "--forget", str(single), "--out", plan.path("f")], threads=2
    )
    return measured


def command_rows(measured: dict[str, Any]) -> Iterator[CommandRow]:
    """Fits beside a fit by one thread, all else beside a fit by two."""
    base, refit = (measured[f"fit, {name}"]["seconds"] for name in ("1 x 1", "1 x 2"))
    for name, figures in measured.items():
        seconds = figures["seconds"]
        if name.startswith("fit"):
            against = f"{base / seconds:.2f} times 1 x 1"
        else:
            against = f"{seconds / refit:.2f} of fit, 1 x 2"
        memory = f"{figures['peak_mb']:.0f} ({figures['base_mb']:.0f})"
        yield CommandRow(what=name, seconds=seconds, against=against, memory=memory)


def on_paper(costs: dict[str, float], *, workers: tuple[int, ...]) -> Iterator[PaperRow]:
    """Expected hours: a sweep shared by workers, then what does not shrink with them."""
    for frames in (MSTC, MANY):
        for count in workers:
            sweep = frames * costs["frame_s"] / count
            rest = costs["finish_s"] + costs["reduced_bytes"] / costs["link_bytes_s"]
            yield PaperRow(
                frames=f"{frames:,}",
                processes=count,
                sweep_h=f"{sweep / HOUR:.3g}",
                rest_s=rest,
                all_h=f"{(sweep + rest) / HOUR:.3g}",
            )


def markdown(measured: dict[str, Any], costs: dict[str, float], *, images: int) -> str:
    """Two tables: measured, and on paper."""
    expected = on_paper(costs, workers=(1, 2, 8, 64, 512))
    lines = [
        f"Fits on {images} images; processes x threads. Seconds of the command without starting "
        "Python, median; memory of the largest process, and before the command began.",
        "",
        *table_of("measured", list(command_rows(measured))).lines(),
        "",
        f"One frame costs {1000 * costs['frame_s']:.1f} ms of one process (decode "
        f"{1000 * costs['decode_s']:.1f}, backbone and W {1000 * costs['embed_s']:.1f}, moments "
        f"{1000 * costs['moments_s']:.1f}); {costs['reduced_bytes'] / 1e6:.0f} MB are reduced "
        f"once; the rest takes {costs['finish_s']:.0f} s. On paper, at "
        f"{costs['link_bytes_s'] / 1e6:.0f} MB/s between hosts:",
        "",
        *table_of("on paper", list(expected)).lines(),
    ]
    return "\n".join(lines)


@click.command()
@click.argument("data", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--out", "-o", type=click.Path(path_type=Path, dir_okay=False), required=True)
@click.option("--images", type=click.IntRange(16), default=200, show_default=True)
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True)
@click.option("--size", type=click.IntRange(32), default=256, show_default=True)
@click.option("--backbone", default="resnet18", show_default=True)
@click.option("--weights", help="A .pth file, or `random`.")
def main(
    data: Path,
    out: Path,
    images: int,
    repeats: int,
    size: int,
    backbone: str,
    weights: str | None,
) -> None:
    """Time fits by 1 and 2 processes, shards, merge and update on the good images of DATA."""
    from edgeseg.bench.harness.staging import stage
    from edgeseg.bench.studies.scale.scaling_worker import frame_costs
    from edgeseg.data.datasets import open_dataset

    warning = busy_warning()
    if warning:
        click.echo(warning, err=True)
    settings = ["--backbone", backbone, "--size", str(size), "--quiet"]
    settings += ["--weights", weights] if weights else []
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="edgeseg-scaling-") as name:
        folder = Path(name)
        staged = stage(open_dataset(data), folder / "data", size_hw=(size, size), train=images)
        plan = Plan(
            data=staged.root / "train" / "good",
            folder=folder,
            images=images,
            repeats=repeats,
            settings=tuple(settings),
        )
        measured = measure(plan)
        costs = frame_costs(plan.data, backbone=backbone, size=size, weights=weights)
    text = markdown(measured, costs, images=images)
    facts = describe(threads=2) | {"busy": warning, "seconds": time.perf_counter() - started}
    dataset = {"name": data.resolve().name, "images": images, "size": size, "backbone": backbone}
    values = {"data": dataset, "measured": measured, "costs": costs, "facts": facts}
    write_json(out, values | {"markdown": text.splitlines()})
    click.echo(text)
    click.echo(f"wrote {out.name}", err=True)


if __name__ == "__main__":
    try:
        main()
    except EdgesegError as error:
        sys.exit(f"Error: {error}")
