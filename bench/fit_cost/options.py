"""What `edgeseg bench fit-cost` fits; light, for the command line to take its defaults from."""

from dataclasses import dataclass
from pathlib import Path

from edgeseg.bench.compare.options import Recipe

SIZES = (25, 50, 100, 150, 200, 300, 448)  # k
_PRESETS = ("edge", "paper")


@dataclass(frozen=True, kw_only=True)
class FitCostOptions:
    """The category, and who fits it."""

    data: Path
    python: Path | None  # with anomalib; None leaves it out
    recipes: tuple[Recipe, ...] = tuple(
        Recipe(backbone="resnet18", preset=preset, precisions=()) for preset in _PRESETS
    )
    counts: tuple[int, ...] = (50, 400)  # images: memory must not grow with them
    sizes: tuple[int, ...] = SIZES
    size_hw: tuple[int, int] = (256, 256)
    weights: str | None = None  # "random" rehearses the machinery
    threads: int = 2
