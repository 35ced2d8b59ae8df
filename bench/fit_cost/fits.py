"""Options of `edgeseg bench fit-cost`; light, for the command line to take defaults from."""

from dataclasses import dataclass
from pathlib import Path

from edgeseg.bench.compare.candidates import OurModel

SIZES = (25, 50, 100, 150, 200, 300, 448)  # k
_PRESETS = ("edge", "paper")


@dataclass(frozen=True, kw_only=True)
class FitCostOptions:
    """The category, and the models that are fitted on it."""

    data: Path
    python: Path | None  # with anomalib; None leaves it out
    models: tuple[OurModel, ...] = tuple(OurModel.of("resnet18", name, ()) for name in _PRESETS)
    counts: tuple[int, ...] = (50, 400)  # images: memory must not grow with them
    sizes: tuple[int, ...] = SIZES
    size_hw: tuple[int, int] = (256, 256)
    weights: str | None = None  # "random" rehearses the machinery
    threads: int = 2
