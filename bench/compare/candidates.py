"""Options of `edgeseg bench compare`, `bench peers`, `bench small` and `edgeseg tune`.

Light, for the command line to take its options from.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.options import SIZE, RegistryName
from edgeseg.base.typed_options import REQUIRED, same_as, typed
from edgeseg.bench.latency.turns import Schedule
from edgeseg.config import DEFAULT_PRESET, PRESETS, FitConfig
from edgeseg.model.backbones import BACKBONES as ALL_BACKBONES
from edgeseg.modelfile.precisions import PRECISIONS
from edgeseg.runtime.backends.choose import backend_names
from edgeseg.runtime.backends.session_options import DEFAULTS, SessionOptions

BACKBONES = (FitConfig().backbone, "resnet18", "mobilenet_v3_small", "efficientnet_lite0")
# Names of anomalib's models here, and in tables.
PEERS = {
    "padim": "anomalib PaDiM",
    "patchcore": "anomalib PatchCore",
    "efficientad": "anomalib EfficientAD-S",
}
_BACKEND = click.Choice(backend_names())
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
        """Make the model of a preset with another backbone."""
        config = FitConfig.preset(preset).with_options({"backbone": backbone, "size_hw": size_hw})
        name = f"{prefix}{backbone} {preset}"
        return cls(name=name, preset=preset, config=config, precisions=precisions)

    def config_for(self, seed: int) -> FitConfig:
        """Return the settings with another seed: another random embedding."""
        return replace(self.config, seed=seed)


@dataclass(frozen=True, kw_only=True)
class PeerOptions:
    """The models of anomalib that are measured, and their settings."""

    python: Path  # an interpreter that can import anomalib
    names: tuple[str, ...] = typed(
        tuple(PEERS),
        "Model of anomalib to measure. May be repeated.",
        kind=RegistryName(PEERS),
        flags=("--peer",),
    )
    backbone: str = "resnet18"
    coreset: float = typed(0.01, "Share of the features that PatchCore keeps.")
    timeout_s: int = 7200  # for one peer on one category

    def __post_init__(self) -> None:
        unknown = set(self.names) - set(PEERS)
        if unknown:
            raise UsageError(f"peers {sorted(unknown)}: expected some of {tuple(PEERS)}")


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Options of a comparison: models, backends and data."""

    data: Path
    models: tuple[OurModel, ...]
    peers: PeerOptions | None = None
    backends: tuple[str, ...] = typed(
        ("cpu",),
        "What runs the models that are timed. May be repeated.",
        kind=_BACKEND,
        flags=("--backend",),
    )
    size_hw: tuple[int, int] = (256, 256)
    seeds: int = typed(1, "Random embeddings per setting.", kind=click.IntRange(1))
    limit: int | None = typed(
        None,
        "At most N images to fit on and N of each test kind: a rehearsal, not a result.",
        kind=click.IntRange(2),
    )
    weights: str | None = typed(
        None, "Measure times alone, with random weights.", kind=click.Choice(("random",))
    )
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
    """Options of `edgeseg bench small`."""

    size_hw: tuple[int, int] = typed((256, 256), "Image size.", kind=SIZE, flags=("--size",))
    backbone: str = FitConfig.backbone  # its weights come with a package
    train: int = typed(30, "Good images to make and fit on.", kind=click.IntRange(2))
    presets: tuple[str, ...] = typed(
        ("edge", "paper"),
        "Preset to compare. May be repeated.",
        kind=RegistryName(PRESETS),
        flags=("--preset",),
    )
    precisions: tuple[str, ...] = typed(
        ("fp32", "int8"),
        "Precision to compare. May be repeated.",
        kind=RegistryName(PRECISIONS),
        flags=("--precision",),
    )
    rounds: int = 10
    weights: str | None = None
    threads: int = 2


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """Options of `edgeseg tune`; an empty list stands for all that this computer has."""

    data: Path
    budget_ms: float = typed(
        REQUIRED, "Milliseconds that 95 of 100 camera frames may take at most."
    )
    backbones: tuple[str, ...] = typed(
        (),
        "Backbone to try. May be repeated.  [default: all whose weights are here]",
        kind=RegistryName(ALL_BACKBONES),
        flags=("--backbone",),
    )
    precisions: tuple[str, ...] = typed(
        (),
        "Precision to try. May be repeated.  [default: all that this computer runs]",
        kind=RegistryName(PRECISIONS),
        flags=("--precision",),
    )
    backends: tuple[str, ...] = typed(
        ("auto",),
        "Backend to try; auto is all that is installed. May be repeated.",
        kind=_BACKEND,
        flags=("--backend",),
    )
    preset: str = typed(DEFAULT_PRESET, "Preset of the fits.", kind=RegistryName(PRESETS))
    config: FitConfig = field(default_factory=FitConfig)
    # On copies of good images; each is a percent of recall.
    planted: int = typed(96, "Planted defects to judge by, at most.", kind=click.IntRange(1))
    weights: str | None = same_as(CompareOptions, "weights")
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
        """Make a model of each backbone, all with the same settings."""
        return tuple(
            OurModel(
                name=backbone,
                preset=self.preset,
                config=replace(self.config, backbone=backbone),
                precisions=precisions,
            )
            for backbone in backbones
        )
