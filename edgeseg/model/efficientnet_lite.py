"""EfficientNet-Lite as TensorFlow trained it: ReLU6, no squeeze-excite, "same" padding.

The names of the modules follow the published state dict, so that its keys load as they are.
"""

import math
from collections import OrderedDict

from torch import Tensor, nn
from torch.nn import functional

# repeats, kernel, stride of the first, expansion, channels out: the B0 layout, without its head
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_STEM = 32  # channels, in every size of the network
_BATCH_NORM_EPSILON = 1e-3  # TensorFlow's default in this network; PyTorch's is 1e-5


class SameConv(nn.Conv2d):
    """A convolution padded like TensorFlow's: with stride 2 the odd pixel goes to the far side."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (the name of the parent's argument)
        # For sizes divisible by the stride the total padding is kernel - stride.
        total = self.kernel_size[0] - self.stride[0]
        near, far = total // 2, total - total // 2
        if near == far:
            return functional.conv2d(
                input, self.weight, self.bias, self.stride, near, 1, self.groups
            )
        padded = functional.pad(input, (near, far, near, far))
        return functional.conv2d(padded, self.weight, self.bias, self.stride, 0, 1, self.groups)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=_BATCH_NORM_EPSILON)


class Block(nn.Module):
    """An inverted residual: expand, depthwise, project."""

    def __init__(self, *, inside: int, outside: int, kernel: int, stride: int, expand: int):
        super().__init__()
        wide = inside * expand
        self.residual = stride == 1 and inside == outside
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        if expand != 1:
            layers["_expand_conv"] = nn.Conv2d(inside, wide, 1, bias=False)
            layers["_bn0"] = _norm(wide)
            layers["act0"] = nn.ReLU6()
        layers["_depthwise_conv"] = SameConv(
            wide, wide, kernel, stride=stride, groups=wide, bias=False
        )
        layers["_bn1"] = _norm(wide)
        layers["act1"] = nn.ReLU6()
        layers["_project_conv"] = nn.Conv2d(wide, outside, 1, bias=False)
        layers["_bn2"] = _norm(outside)
        self.order = tuple(layers)
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x: Tensor) -> Tensor:
        """Keep the size, or halve it."""
        y = x
        for name in self.order:
            y = self.get_submodule(name)(y)
        return x + y if self.residual else y


def scaled_channels(channels: int, width: float) -> int:
    """Return a stage's channels in a wider network: the nearest multiple of 8, halves upwards."""
    return max(8, int(channels * width + 4) // 8 * 8)


def scaled_repeats(stage: int, depth: float) -> int:
    """Return a stage's blocks in a deeper network; Lite keeps those of the first and the last."""
    repeats = _STAGES[stage][0]
    return repeats if stage in (0, len(_STAGES) - 1) else math.ceil(repeats * depth)


class EfficientNetLite(nn.Module):
    """Stem and blocks; `_blocks[i]` are the places to tap."""

    def __init__(self, *, width: float = 1.0, depth: float = 1.0) -> None:
        super().__init__()
        self._conv_stem = SameConv(3, _STEM, 3, stride=2, bias=False)
        self._bn0 = _norm(_STEM)
        self.act = nn.ReLU6()
        blocks: list[nn.Module] = []
        inside = _STEM
        for stage, (_, kernel, stride, expand, channels) in enumerate(_STAGES):
            outside = scaled_channels(channels, width)
            for repeat in range(scaled_repeats(stage, depth)):
                blocks.append(
                    Block(
                        inside=inside,
                        outside=outside,
                        kernel=kernel,
                        stride=stride if repeat == 0 else 1,
                        expand=expand,
                    )
                )
                inside = outside
        self._blocks = nn.ModuleList(blocks)
