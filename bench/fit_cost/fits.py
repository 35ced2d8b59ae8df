"""What `edgeseg bench fit-cost` fits; light, for the command line to take its options from."""

from dataclasses import dataclass
from pathlib import Path

import click

from edgeseg.base.typed_options import same_as, typed
from edgeseg.bench.compare.candidates import CompareOptions, OurModel, SmallOptions

SIZES = (25, 50, 100, 150, 200, 300, 448)  # k
_PRESETS = ("edge", "paper")


@dataclass(frozen=True, kw_only=True)
class FitCostOptions:
    """The category, and who fits it."""

    data: Path
    python: Path | None  # with anomalib; None leaves it out
    models: tuple[OurModel, ...] = tuple(OurModel.of("resnet18", name, ()) for name in _PRESETS)
    counts: tuple[int, ...] = typed(  # memory must not grow with them
        (50, 400),
        "Images to fit on; may be repeated.",
        kind=click.IntRange(2),
        flags=("--images",),
    )
    sizes: tuple[int, ...] = typed(
        SIZES,
        "Sizes of the embedding whose factors are timed; may be repeated.",
        kind=click.IntRange(2),
        flags=("-k", "--k"),
    )
    size_hw: tuple[int, int] = same_as(SmallOptions, "size_hw")
    weights: str | None = same_as(CompareOptions, "weights")
    threads: int = 2
