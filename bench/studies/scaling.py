"""What more processes, shards and updates cost and save, on this machine.

python -m edgeseg.bench.studies.scaling mvtec_ad/bottle --out scaling.json
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from edgeseg.bench.harness.machine import busy_warning, describe
from edgeseg.bench.harness.processes import last_line
from edgeseg.bench.studies.scaling_worker import FIGURES
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
            "seconds": statistics.median(max(one["seconds"] for one in run) for run in runs),
            "peak_mb": max(one["peak_mb"] for run in runs for one in run),
            "base_mb": min(one["base_mb"] for run in runs for one in run),
            "processes": processes,
            "threads": threads,
            "all_seconds": [max(one["seconds"] for one in run) for run in runs],
        }

    def _once(self, command: list[str], processes: int, threads: int) -> list[dict[str, Any]]:
        for old in self.folder.glob("figures-*.json"):
            old.unlink()
        launcher = [sys.executable, "-m", "edgeseg.bench.studies.scaling_worker"]
        if processes > 1:
            launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
            launcher += [
                "--nproc-per-node",
                str(processes),
                "-m",
                "edgeseg.bench.studies.scaling_worker",
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


def measure(plan: Plan) -> dict[str, Any]:
    """All figures, one after the other."""
    found: dict[str, Any] = {}
    data = str(plan.data)
    for name, processes, threads in (("1 x 1", 1, 1), ("1 x 2", 1, 2), ("2 x 1", 2, 1)):
        out = plan.path(f"m{processes}{threads}.edgeseg")
        fit = ["fit", data, "--out", out, *plan.settings]
        found[f"fit, {name}"] = plan.run(fit, processes=processes, threads=threads)
    shards = [plan.path(f"s_{index}") for index in range(SHARDS)]
    for index, shard in enumerate(shards):
        part = ["moments", data, "--shard", f"{index}/{SHARDS}", "--out", shard, *plan.settings]
        figures = plan.run(part, threads=2)
        found.setdefault("one shard of 8", figures)
    found["merge of 8 shards"] = plan.run(["merge", *shards, "--out", plan.path("m")], threads=2)
    found["merge of 8 shards"]["bytes"] = sum(Path(shard).stat().st_size for shard in shards)
    one = plan.folder / "one"
    one.mkdir()
    image = sorted(plan.data.iterdir())[0]
    (one / image.name).write_bytes(image.read_bytes())
    model = plan.path("m12.edgeseg")
    found["update by 1 image"] = plan.run(
        ["update", model, str(one), "--out", plan.path("u")], threads=2
    )
    found["forget 1 image"] = plan.run(
        ["update", model, "--forget", str(one), "--out", plan.path("f")], threads=2
    )
    return found


def on_paper(costs: dict[str, float], *, workers: tuple[int, ...]) -> list[list[str]]:
    """Rows of expected hours: a sweep shared by workers, then what does not shrink with them."""
    rows = []
    for frames in (MSTC, MANY):
        for count in workers:
            sweep = frames * costs["frame_s"] / count
            rest = costs["finish_s"] + costs["reduced_bytes"] / costs["link_bytes_s"]
            rows.append(
                [
                    f"{frames:,}",
                    str(count),
                    f"{sweep / HOUR:.3g}",
                    f"{rest:.0f}",
                    f"{(sweep + rest) / HOUR:.3g}",
                ]
            )
    return rows


def markdown(found: dict[str, Any], costs: dict[str, float], *, images: int) -> str:
    """Two tables: measured, and on paper."""
    base = found["fit, 1 x 1"]["seconds"]
    refit = found["fit, 1 x 2"]["seconds"]
    lines = [
        f"Fits on {images} images; processes x threads. Seconds of the command without starting "
        "Python, median; memory of the largest process, and before the command began.",
        "",
        "| what | seconds | against | MB per process (before) |",
        "| --- | --- | --- | --- |",
    ]
    for name, figures in found.items():
        seconds = figures["seconds"]
        if name.startswith("fit"):
            against = f"{base / seconds:.2f} times 1 x 1"
        else:
            against = f"{seconds / refit:.2f} of fit, 1 x 2"
        memory = f"{figures['peak_mb']:.0f} ({figures['base_mb']:.0f})"
        lines.append(f"| {name} | {seconds:.1f} | {against} | {memory} |")
    lines += [
        "",
        f"One frame costs {1000 * costs['frame_s']:.1f} ms of one process (decode "
        f"{1000 * costs['decode_s']:.1f}, backbone and W {1000 * costs['embed_s']:.1f}, moments "
        f"{1000 * costs['moments_s']:.1f}); {costs['reduced_bytes'] / 1e6:.0f} MB are reduced "
        f"once; the rest takes {costs['finish_s']:.0f} s. On paper, at "
        f"{costs['link_bytes_s'] / 1e6:.0f} MB/s between hosts:",
        "",
        "| frames | processes | hours of the sweep | seconds after it | hours |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [f"| {' | '.join(row)} |" for row in on_paper(costs, workers=(1, 2, 8, 64, 512))]
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
    from edgeseg.bench.studies.scaling_worker import frame_costs
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
        found = measure(plan)
        costs = frame_costs(plan.data, backbone=backbone, size=size, weights=weights)
    text = markdown(found, costs, images=images)
    facts = describe(threads=2) | {"busy": warning, "seconds": time.perf_counter() - started}
    dataset = {"name": data.resolve().name, "images": images, "size": size, "backbone": backbone}
    values = {"data": dataset, "measured": found, "costs": costs, "facts": facts}
    write_json(out, values | {"markdown": text.splitlines()})
    click.echo(text)
    click.echo(f"wrote {out.name}", err=True)


if __name__ == "__main__":
    try:
        main()
    except EdgesegError as error:
        sys.exit(f"Error: {error}")
