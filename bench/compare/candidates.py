"""What `edgeseg bench compare`, `bench peers`, `bench small` and `edgeseg tune` compare.

Light, for the command line to take its defaults from.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.bench.latency.turns import Schedule
from edgeseg.config import FitConfig
from edgeseg.runtime.backends.session_options import DEFAULTS, SessionOptions

BACKBONES = (FitConfig().backbone, "resnet18", "mobilenet_v3_small", "efficientnet_lite0")
# Names of anomalib's models here, and in tables.
PEERS = {
    "padim": "anomalib PaDiM",
    "patchcore": "anomalib PatchCore",
    "efficientad": "anomalib EfficientAD-S",
}
GLANCE = Schedule(rounds=5, turn=5, warmup=5, streamed=2)


@dataclass(frozen=True, kw_only=True)
class OurModel:
    """Settings of a fit under the name they have in tables, and the precisions of its files."""

    name: str
    preset: str
    config: FitConfig
    precisions: tuple[str, ...]

    @classmethod
    def of(
        cls,
        backbone: str,
        preset: str,
        precisions: tuple[str, ...],
        *,
        size_hw: tuple[int, int] = (256, 256),
        prefix: str = "",
    ) -> "OurModel":
        """A preset with a backbone."""
        config = FitConfig.preset(preset).with_options({"backbone": backbone, "size_hw": size_hw})
        name = f"{prefix}{backbone} {preset}"
        return cls(name=name, preset=preset, config=config, precisions=precisions)

    def seeded(self, seed: int) -> FitConfig:
        """The settings with another random embedding."""
        return replace(self.config, seed=seed)


@dataclass(frozen=True, kw_only=True)
class PeerOptions:
    """Which of anomalib's models are measured, and with what."""

    python: Path  # an interpreter that can import anomalib
    names: tuple[str, ...] = tuple(PEERS)
    backbone: str = "resnet18"
    coreset: float = 0.01  # of PatchCore
    timeout_s: int = 7200  # for one peer on one category

    def __post_init__(self) -> None:
        unknown = set(self.names) - set(PEERS)
        if unknown:
            raise UsageError(f"peers {sorted(unknown)}: expected some of {tuple(PEERS)}")


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What is compared, and on how much data."""

    data: Path
    models: tuple[OurModel, ...]
    peers: PeerOptions | None = None
    backends: tuple[str, ...] = ("cpu",)
    size_hw: tuple[int, int] = (256, 256)
    seeds: int = 1
    limit: int | None = None
    weights: str | None = None  # "random" times backbones whose weights are not here
    schedule: Schedule = field(default_factory=Schedule)
    threads: int = 2
    name: str = "compare"
    title: str = "Accuracy against milliseconds"

    def __post_init__(self) -> None:
        names = [model.name for model in self.models]
        if len(set(names)) != len(names) or not (names or self.peers):
            raise UsageError(f"models {names}: expected one or more, each once")


@dataclass(frozen=True, kw_only=True)
class SmallOptions:
    """How small `edgeseg bench small` is."""

    size_hw: tuple[int, int] = (256, 256)
    backbone: str = "efficientnet_lite0"  # its weights come with a package
    presets: tuple[str, ...] = ("edge", "paper")
    precisions: tuple[str, ...] = ("fp32", "int8")
    train: int = 30
    rounds: int = 10
    weights: str | None = None
    threads: int = 2


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """The budget, and what may be tried; an empty list is all that this computer has."""

    data: Path
    budget_ms: float
    backbones: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ()
    backends: tuple[str, ...] = ("auto",)
    preset: str = "edge"
    config: FitConfig = field(default_factory=FitConfig)
    planted: int = 96  # defects on copies of good images, to judge by; each is a percent of recall
    weights: str | None = None
    session: SessionOptions = DEFAULTS
    schedule: Schedule = field(default_factory=Schedule)
    glance: Schedule = GLANCE

    def __post_init__(self) -> None:
        if not self.budget_ms > 0:
            raise UsageError(
                Setting("budget_ms", f"{self.budget_ms:g}"), ": expected milliseconds above 0"
            )
        if self.planted < 1:
            raise UsageError(
                Setting("planted", self.planted),
                ": expected at least 1; models are judged by what they find",
            )

    def models(self, backbones: Iterable[str], precisions: tuple[str, ...]) -> tuple[OurModel, ...]:
        """The same settings with every backbone."""
        return tuple(
            OurModel(
                name=backbone,
                preset=self.preset,
                config=replace(self.config, backbone=backbone),
                precisions=precisions,
            )
            for backbone in backbones
        )
