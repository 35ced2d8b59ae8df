"""Pretrained CNNs cut at their last tap: frames in, one feature map per tap out."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torchvision
from torch import Tensor, nn

from edgeseg.errors import UsageError
from edgeseg.model.efficientnet_lite import EfficientNetLite0

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, kw_only=True)
class Tap:
    """A place to read features: the module whose output is taken."""

    module: str
    channels: int
    stride: int


@dataclass(frozen=True, kw_only=True)
class BackboneSpec:
    """One pretrained network: how to build it, where to tap it, what its weights expect."""

    name: str
    steps: Callable[[], list[tuple[str, nn.Module]]]  # in order of execution
    taps: tuple[Tap, ...]
    checkpoint: str  # file name in the torch cache, and of the official download
    url: str | None  # None: the weights come with a package
    mean: tuple[float, float, float] = IMAGENET_MEAN  # of RGB in 0..1
    std: tuple[float, float, float] = IMAGENET_STD

    def chosen_taps(self, layers: tuple[int, ...]) -> tuple[Tap, ...]:
        """The taps with these numbers, counted from 1."""
        if max(layers) > len(self.taps):
            raise UsageError(
                f"layers={layers}: {self.name} has layers 1 to {len(self.taps)}; choose among them"
            )
        return tuple(self.taps[number - 1] for number in layers)


def _resnet_steps(build: Callable[..., nn.Module]) -> Callable[[], list[tuple[str, nn.Module]]]:
    names = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3")

    def steps() -> list[tuple[str, nn.Module]]:
        network = build(weights=None)
        return [(name, network.get_submodule(name)) for name in names]

    return steps


def _mobilenet_steps(build: Callable[..., nn.Module]) -> Callable[[], list[tuple[str, nn.Module]]]:
    def steps() -> list[tuple[str, nn.Module]]:
        features = build(weights=None).get_submodule("features")
        return [(f"features.{name}", block) for name, block in features.named_children()]

    return steps


def _efficientnet_lite_steps() -> list[tuple[str, nn.Module]]:
    network = EfficientNetLite0()
    stem = [("_conv_stem", network._conv_stem), ("_bn0", network._bn0), ("act", network.act)]
    return stem + [(f"_blocks.{i}", block) for i, block in enumerate(network._blocks)]


def _taps(*rows: tuple[str, int, int]) -> tuple[Tap, ...]:
    return tuple(Tap(module=name, channels=c, stride=s) for name, c, s in rows)


_HUB = "https://download.pytorch.org/models/"
_models = torchvision.models
BACKBONES = {
    spec.name: spec
    for spec in (
        BackboneSpec(
            name="resnet18",
            steps=_resnet_steps(_models.resnet18),
            taps=_taps(("layer1", 64, 4), ("layer2", 128, 8), ("layer3", 256, 16)),
            checkpoint="resnet18-f37072fd.pth",
            url=_HUB + "resnet18-f37072fd.pth",
        ),
        BackboneSpec(
            name="wide_resnet50_2",
            steps=_resnet_steps(_models.wide_resnet50_2),
            taps=_taps(("layer1", 256, 4), ("layer2", 512, 8), ("layer3", 1024, 16)),
            checkpoint="wide_resnet50_2-95faca4d.pth",
            url=_HUB + "wide_resnet50_2-95faca4d.pth",
        ),
        BackboneSpec(
            name="mobilenet_v3_small",
            steps=_mobilenet_steps(_models.mobilenet_v3_small),
            taps=_taps(("features.1", 16, 4), ("features.3", 24, 8), ("features.8", 48, 16)),
            checkpoint="mobilenet_v3_small-047dcff4.pth",
            url=_HUB + "mobilenet_v3_small-047dcff4.pth",
        ),
        BackboneSpec(
            name="mobilenet_v3_large",
            steps=_mobilenet_steps(_models.mobilenet_v3_large),
            taps=_taps(("features.3", 24, 4), ("features.6", 40, 8), ("features.12", 112, 16)),
            checkpoint="mobilenet_v3_large-8738ca79.pth",
            url=_HUB + "mobilenet_v3_large-8738ca79.pth",
        ),
        BackboneSpec(
            name="efficientnet_lite0",
            steps=_efficientnet_lite_steps,
            taps=_taps(("_blocks.2", 24, 4), ("_blocks.4", 40, 8), ("_blocks.10", 112, 16)),
            checkpoint="efficientnet-lite0-57934424.pth",
            url=None,
            # TensorFlow trained the Lite networks on (pixel - 127) / 128. The statistics of the
            # first BatchNorm agree with that and not with ImageNet's mean: see the tests.
            mean=(127 / 255,) * 3,
            std=(128 / 255,) * 3,
        ),
    )
}


def backbone_spec(name: str) -> BackboneSpec:
    """The registry entry of a backbone."""
    if name not in BACKBONES:
        raise UsageError(f"backbone {name!r} is unknown; expected one of {tuple(BACKBONES)}")
    return BACKBONES[name]


class Backbone(nn.Module):
    """A network cut behind its last chosen tap, returning the chosen feature maps."""

    def __init__(self, spec: BackboneSpec, *, layers: tuple[int, ...]):
        super().__init__()
        self.spec = spec
        self.taps = spec.chosen_taps(layers)
        tapped = {tap.module for tap in self.taps}
        self.steps: list[tuple[str, bool]] = []  # name, whether its output is a feature map
        for name, module in spec.steps():
            self._add_nested(name, module)
            self.steps.append((name, name in tapped))
            if name == self.taps[-1].module:
                break
        self.eval().requires_grad_(False)

    def _add_nested(self, name: str, module: nn.Module) -> None:
        # "features.3" becomes a child of a container, so that keys equal the published ones.
        parent: nn.Module = self
        *folders, leaf = name.split(".")
        for folder in folders:
            if folder not in parent._modules:
                parent.add_module(folder, nn.Module())
            parent = parent.get_submodule(folder)
        parent.add_module(leaf, module)

    def train(self, mode: bool = True) -> "Backbone":
        """Stay in evaluation mode: nothing here is ever trained."""
        super().train(False)
        return self

    def forward(self, x: Tensor) -> list[Tensor]:
        """Normalised float images (N, 3, H, W) to one map (N, C, H / stride, W / stride) a tap."""
        maps = []
        for name, tapped in self.steps:
            x = self.get_submodule(name)(x)
            if tapped:
                maps.append(x)
        return maps

    @property
    def channels(self) -> tuple[int, ...]:
        """Channels of every tap; their sum is the paper's F."""
        return tuple(tap.channels for tap in self.taps)


def weight_tensors(backbone: Backbone) -> Iterator[tuple[str, Tensor]]:
    """Parameters and running statistics by name; counters of training steps are left out."""
    for name, tensor in sorted(backbone.state_dict().items()):
        if not name.endswith("num_batches_tracked"):
            yield name, tensor


def weights_sha256(backbone: Backbone) -> str:
    """A hash of the tensors themselves, whatever file they came from."""
    digest = hashlib.sha256()
    for name, tensor in weight_tensors(backbone):
        digest.update(f"{name} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.detach().cpu().contiguous().to(torch.float32).numpy().tobytes())
    return digest.hexdigest()
