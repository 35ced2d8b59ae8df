"""Who `edgeseg bench peers` measures; light, for the command line to take its defaults from."""

from dataclasses import dataclass, field
from pathlib import Path

from edgeseg.bench.compare.options import Recipe
from edgeseg.bench.latency.turns import Schedule
from edgeseg.errors import UsageError

# Names of anomalib's models here, and in tables.
PEERS = {
    "padim": "anomalib PaDiM",
    "patchcore": "anomalib PatchCore",
    "efficientad": "anomalib EfficientAD-S",
}


@dataclass(frozen=True, kw_only=True)
class PeerOptions:
    """Who is measured, and with what."""

    data: Path
    python: Path  # an interpreter that can import anomalib
    peers: tuple[str, ...] = tuple(PEERS)
    recipes: tuple[Recipe, ...] = ()
    backbone: str = "resnet18"  # of the peers
    coreset: float = 0.01  # of PatchCore
    size_hw: tuple[int, int] = (256, 256)
    seed: int = 0
    limit: int | None = None
    threads: int = 2
    timeout_s: int = 7200  # for one peer on one category
    schedule: Schedule = field(default_factory=Schedule)

    def __post_init__(self) -> None:
        unknown = set(self.peers) - set(PEERS)
        if unknown:
            raise UsageError(f"peers {sorted(unknown)}: expected some of {tuple(PEERS)}")
