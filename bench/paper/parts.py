"""Options of the paper's experiments; light, for the command line to take defaults from."""

from dataclasses import dataclass
from pathlib import Path

from edgeseg.base.errors import UsageError

PARTS = (
    *("categories", "ablation", "curve", "eigenvalues", "inverse"),
    *("kolektor", "mstc", "pictures"),
)


@dataclass(frozen=True, kw_only=True)
class PaperOptions:
    """Data sets, and the experiments to run on them."""

    mvtec: Path
    kolektor: Path | None = None
    kolektor2: Path | None = None
    mstc: Path | None = None
    seeds: int = 5
    curve_seeds: int = 3
    curve_sizes: tuple[int, ...] = (10, 25, 50, 75, 100, 150, 200, 300, 448)
    parts: tuple[str, ...] = PARTS
    backbones: tuple[str, ...] = (
        *("resnet18", "wide_resnet50_2"),
        *("mobilenet_v3_small", "mobilenet_v3_large"),
    )
    size_hw: tuple[int, int] = (256, 256)
    weights: str | None = None  # "random" rehearses the machinery
    limit: int | None = None
    keep_features: bool = False
    threads: int = 2

    def __post_init__(self) -> None:
        unknown = set(self.parts) - set(PARTS)
        if unknown:
            raise UsageError(f"parts {sorted(unknown)}: expected some of {PARTS}")
