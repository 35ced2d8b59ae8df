"""The moments of a part of the images as a file, for jobs without a network between them."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from edgeseg.artefact.artefact import Artefact, under, write_tensors
from edgeseg.artefact.history import Origin
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.errors import ArtefactError, UsageError
from edgeseg.fitting.checkpoint import describe_sweep, difference
from edgeseg.fitting.embedding_store import EmbeddingSpool
from edgeseg.fitting.feature_space import Network
from edgeseg.fitting.fitting import finish, share_facts
from edgeseg.fitting.image_pass import Gathered, gather, split
from edgeseg.fitting.options import FitOptions, Shard
from edgeseg.model.backbones import backbone_spec
from edgeseg.model.feature_extractor import Backbone, weight_tensors
from edgeseg.model.moments import Moments
from edgeseg.model.weights import WeightsOrigin, load_checked

SCHEMA = 1
KEY = "edgeseg-shard"
_SPOOLS = ("seen", "unseen")


def write_shard(
    dataset: Dataset, config: FitConfig, options: FitOptions, *, shard: Shard, path: Path
) -> int:
    """Sweep over a part of the images and write what was gathered; returns how many there were."""
    network = Network.load(config, weights=options.weights, note=options.note)
    train, held_out = split(dataset, config)
    origin = Origin(name=dataset.name, layout=dataset.layout, held_out=len(held_out))
    with gather(network, train, held_out, shard=shard, options=options) as found:
        header = {
            "schema": SCHEMA,
            "shard": [shard.index, shard.count],
            "config": network.config.to_dict(),
            "weights": asdict(network.origin),
            "sweep": describe_sweep(network, train, batch_size=options.batch_size),
            "origin": asdict(origin),
            "bad": sorted(found.bad),
            "newest": found.newest,
            "seen": found.seen.places,
            "unseen": found.unseen.places,
        }
        tensors = {"embedding": network.embedding}
        tensors |= {f"moments.{name}": one for name, one in found.moments.packed().items()}
        tensors |= {f"backbone.{name}": one for name, one in weight_tensors(network.backbone)}
        tensors |= {name: getattr(found, name).as_tensor() for name in _SPOOLS}
        write_tensors(path, tensors, {KEY: json.dumps(header)})
    return found.moments.images


def is_shard(path: Path) -> bool:
    """Whether a file is a shard; other files are for others to judge."""
    try:
        with safe_open(path, framework="pt") as file:
            return KEY in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False


def merge_shards(paths: Sequence[Path], options: FitOptions) -> Artefact:
    """All shards of one data set to the model that one fit would have given."""
    headers = {path: _header(path) for path in paths}
    _check_complete(headers)
    first = next(iter(headers.values()))
    with ExitStack() as stack:
        spools = [stack.enter_context(EmbeddingSpool()) for _ in _SPOOLS]
        network, found = _joined(headers, spools)
        share_facts(found, options)
        options.note(
            f"{found.moments.images} good images of {first['origin']['name']} "
            f"in {len(headers)} shards"
        )
        return finish(network, found, origin=Origin(**first["origin"]), options=options)


def _joined(
    headers: dict[Path, dict[str, Any]], spools: Sequence[EmbeddingSpool]
) -> tuple[Network, Gathered]:
    network: Network | None = None
    found: Gathered | None = None
    for path, header in sorted(headers.items(), key=lambda item: item[1]["shard"]):
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            small = {name: file.get_tensor(name) for name in names if name not in _SPOOLS}
            moments = Moments.unpacked(under("moments.", small))
            if network is None or found is None:
                network = _network(path, header, small)
                found = Gathered(moments=moments, seen=spools[0], unseen=spools[1])
            else:
                found.moments = found.moments.merge(moments)
            for name, spool in zip(_SPOOLS, spools, strict=True):
                rows = file.get_slice(name)
                for row, place in enumerate(header[name]):
                    spool.append(rows[row : row + 1][0], place)
        found.bad |= set(header["bad"])
        found.newest = max(found.newest, header["newest"])
    if network is None or found is None:
        raise UsageError("no shards to merge; expected the files of `edgeseg moments`")
    return network, found


def _network(path: Path, header: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Network:
    config = FitConfig.from_dict(header["config"])
    backbone = Backbone(backbone_spec(config.backbone), layers=config.layers)
    load_checked(backbone, under("backbone.", tensors), source=path)
    return Network(
        config,
        backbone=backbone,
        origin=WeightsOrigin(**header["weights"]),
        embedding=tensors["embedding"],
    )


def _header(path: Path) -> dict[str, Any]:
    try:
        with safe_open(path, framework="pt") as file:
            header: dict[str, Any] = json.loads((file.metadata() or {})[KEY])
    except (SafetensorError, OSError, LookupError, ValueError) as error:
        raise ArtefactError(
            f"{path}: not a shard ({error}); expected a file of `edgeseg moments`"
        ) from None
    if header.get("schema") != SCHEMA:
        raise ArtefactError(
            f"{path}: shard of schema {header.get('schema')!r}, expected {SCHEMA}; make it again"
        )
    return header


def _check_complete(headers: dict[Path, dict[str, Any]]) -> None:
    """Every shard of the same data and settings, each once."""
    (first, expected), *rest = headers.items()
    for path, header in rest:
        mine, theirs = (
            values["sweep"] | {"number of shards": values["shard"][1]}
            for values in (expected, header)
        )
        found = difference(mine, theirs)
        if found is not None:
            raise UsageError(f"{first} and {path} are no parts of one fit ({found})")
    count = expected["shard"][1]
    given: dict[int, Path] = {}
    for path, header in headers.items():
        index = header["shard"][0]
        if index in given:
            raise UsageError(f"{given[index]} and {path} are both shard {index}/{count}; drop one")
        given[index] = path
    missing = [f"{index}/{count}" for index in range(count) if index not in given]
    if missing:
        raise UsageError(
            f"{len(given)} of {count} shards: {', '.join(missing)} missing; "
            f"run `edgeseg moments DATA --shard {missing[0]} --out FILE`"
        )
