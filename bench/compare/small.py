"""`edgeseg bench small`: every step of the comparison on a synthetic part, in minutes."""

from pathlib import Path

from edgeseg.bench.compare.compare import run_compare
from edgeseg.bench.compare.recipes import CompareOptions
from edgeseg.bench.compare.trial import Recipe
from edgeseg.bench.harness.report import Report
from edgeseg.bench.harness.units import Say
from edgeseg.bench.latency.turns import Schedule
from edgeseg.data.synthetic.scene import write_dataset
from edgeseg.progress import Progress, silent

BACKBONE = "efficientnet_lite0"  # its weights come with a package
PRESETS = ("edge", "paper")
PRECISIONS = ("fp32", "int8")


def run_small(
    out: Path,
    *,
    threads: int,
    size_hw: tuple[int, int] = (256, 256),
    weights: str | None = None,
    backbone: str = BACKBONE,
    train: int = 30,
    rounds: int = 10,
    fresh: bool,
    say: Say,
    progress: Progress = silent,
) -> Report:
    """Make the data, then compare presets and precisions on it."""
    data = out / "staged" / "plate"
    if not (data / "train" / "good").is_dir():
        write_dataset(data, size_hw=size_hw, train=train, test_good=8, test_defective=2)
    options = CompareOptions(
        data=data,
        recipes=tuple(
            Recipe(backbone=backbone, preset=preset, precisions=PRECISIONS) for preset in PRESETS
        ),
        size_hw=size_hw,
        weights=weights,
        schedule=Schedule(rounds=rounds),
        threads=threads,
    )
    return run_compare(
        options,
        out,
        fresh=fresh,
        say=say,
        progress=progress,
        name="small",
        title="A small benchmark on a synthetic part",
    )
