"""A pretrained CNN cut at its last tap: frames in, one feature map per tap out."""

from collections.abc import Iterator

from torch import Tensor, nn

from edgeseg.model.backbones import BackboneSpec
from edgeseg.model.weights_origin import arrays_sha256


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
        """Map normalised images (N, 3, H, W) to one map (N, C, H / stride, W / stride) per tap."""
        maps = []
        for name, tapped in self.steps:
            x = self.get_submodule(name)(x)
            if tapped:
                maps.append(x)
        return maps

    @property
    def channels(self) -> tuple[int, ...]:
        """The channels of every tap; their sum is the paper's F."""
        return tuple(tap.channels for tap in self.taps)


def weight_tensors(backbone: Backbone) -> Iterator[tuple[str, Tensor]]:
    """Yield parameters and running statistics by name, without counters of training steps."""
    for name, tensor in sorted(backbone.state_dict().items()):
        if not name.endswith("num_batches_tracked"):
            yield name, tensor


def weights_sha256(backbone: Backbone) -> str:
    """Hash the tensors themselves, whatever file they came from."""
    tensors = weight_tensors(backbone)
    return arrays_sha256({name: tensor.detach().cpu().numpy() for name, tensor in tensors})
