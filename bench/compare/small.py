"""`edgeseg bench small`: every step of the comparison on a synthetic part, in minutes."""

from pathlib import Path

from edgeseg.bench.compare.compare import run_compare
from edgeseg.bench.compare.options import CompareOptions, Recipe, SmallOptions
from edgeseg.bench.harness.report import Report
from edgeseg.bench.latency.turns import Schedule
from edgeseg.data.synthetic.scene import write_dataset
from edgeseg.progress import Note, Progress, silent


def run_small(
    small: SmallOptions, out: Path, *, fresh: bool, note: Note, progress: Progress = silent
) -> Report:
    """Make the data, then compare presets and precisions on it."""
    data = out / "staged" / "plate"
    if not (data / "train" / "good").is_dir():
        write_dataset(data, size_hw=small.size_hw, train=small.train, test_good=8, test_defective=2)
    options = CompareOptions(
        data=data,
        recipes=tuple(
            Recipe(backbone=small.backbone, preset=preset, precisions=small.precisions)
            for preset in small.presets
        ),
        size_hw=small.size_hw,
        weights=small.weights,
        schedule=Schedule(rounds=small.rounds),
        threads=small.threads,
    )
    return run_compare(
        options,
        out,
        fresh=fresh,
        note=note,
        progress=progress,
        name="small",
        title="A small benchmark on a synthetic part",
    )
