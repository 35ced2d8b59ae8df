"""Which of the paper's experiments run; light, for the command line to take its options from."""

from dataclasses import dataclass
from pathlib import Path

import click

from edgeseg.base.errors import UsageError
from edgeseg.base.typed_options import same_as, typed
from edgeseg.bench.compare.candidates import CompareOptions

_DATA = click.Path(path_type=Path, exists=True)
PARTS = (
    *("categories", "ablation", "curve", "eigenvalues", "inverse"),
    *("kolektor", "mstc", "pictures"),
)


@dataclass(frozen=True, kw_only=True)
class PaperOptions:
    """Which data there is, and how much of the work to do."""

    mvtec: Path
    kolektor: Path | None = typed(None, "KolektorSDD.", kind=_DATA)
    kolektor2: Path | None = typed(None, "KolektorSDD2.", kind=_DATA)
    mstc: Path | None = typed(None, "ShanghaiTech campus.", kind=_DATA)
    parts: tuple[str, ...] = typed(PARTS, "Experiment to run. May be repeated.", flags=("--only",))
    backbones: tuple[str, ...] = typed(
        ("resnet18", "wide_resnet50_2", "mobilenet_v3_small", "mobilenet_v3_large"),
        "Backbone to measure. May be repeated.",
        flags=("--backbone",),
    )
    curve_sizes: tuple[int, ...] = (10, 25, 50, 75, 100, 150, 200, 300, 448)
    curve_seeds: int = typed(3, "Seeds of the curve over k.", kind=click.IntRange(1))
    keep_features: bool = typed(False, "Keep the features on disk (1 GB a category).")
    seeds: int = typed(
        5,
        "Random embeddings per setting; mean and standard deviation are over them.",
        kind=click.IntRange(1),
    )
    limit: int | None = same_as(CompareOptions, "limit")
    size_hw: tuple[int, int] = (256, 256)
    weights: str | None = None  # "random" rehearses the machinery
    threads: int = 2

    def __post_init__(self) -> None:
        unknown = set(self.parts) - set(PARTS)
        if unknown:
            raise UsageError(f"parts {sorted(unknown)}: expected some of {PARTS}")
