"""What `edgeseg bench compare` compares; light, for the command line to take its defaults from."""

from dataclasses import dataclass, field
from pathlib import Path

from edgeseg.bench.latency.turns import Schedule
from edgeseg.config import FitConfig
from edgeseg.errors import UsageError

BACKBONES = (FitConfig().backbone, "resnet18", "mobilenet_v3_small", "efficientnet_lite0")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A backbone with a preset, and the precisions it is exported in."""

    backbone: str
    preset: str
    precisions: tuple[str, ...]

    @property
    def name(self) -> str:
        """As it stands in tables."""
        return f"{self.backbone} {self.preset}"

    def config(self, *, seed: int, size_hw: tuple[int, int]) -> FitConfig:
        """The settings of the fit."""
        options = {"backbone": self.backbone, "seed": seed, "size_hw": size_hw}
        return FitConfig.preset(self.preset).with_options(options)


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What is compared, and on how much data."""

    data: Path
    recipes: tuple[Recipe, ...]
    backends: tuple[str, ...] = ("cpu",)
    size_hw: tuple[int, int] = (256, 256)
    seeds: int = 1
    limit: int | None = None
    weights: str | None = None  # "random" times backbones whose weights are not here
    schedule: Schedule = field(default_factory=Schedule)
    threads: int = 2

    def __post_init__(self) -> None:
        names = [recipe.name for recipe in self.recipes]
        if not names or len(set(names)) != len(names):
            raise UsageError(f"recipes {names}: expected one or more, each once")


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
