"""Every kind of file or message that comes from outside, and the code that reads it.

    FORMATS[name]: seeds(folder) -> whole files; load(data, seed, folder) -> what it makes of one

A load raises an EdgesegError, or returns. For sealed seeds it must raise if anything changed.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from edgeseg.bench.studies.fuzz import seeds
from edgeseg.bench.studies.fuzz.seeds import KEPT, Seed

Load = Callable[[bytes, Seed, Path], object]


@dataclass(frozen=True, kw_only=True)
class Format:
    """One kind of input."""

    seeds: Callable[[Path], Iterator[Seed]]
    load: Load
    json: Literal["text", "safetensors", "onnx"] | None = None  # where its JSON is, if it has any
    # What a refusal may be beside an EdgesegError: that of a message, whose caller answers it.
    refusals: tuple[type[Exception], ...] = field(default=())


def _write(data: bytes, folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def _artefact(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.artefact.artefact import load_artefact
    from edgeseg.cli.model_commands import artefact_facts
    from edgeseg.cli.threshold_command import read_stored

    path = _write(data, folder, "part.edgeseg")
    artefact_facts(path)
    read_stored(path)
    return load_artefact(path)


def _shard(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.fitting.options import FitOptions
    from edgeseg.fitting.parallel.shards import merge_shards

    path = _write(data, folder, "part-0-of-2.shard")
    return merge_shards([path, KEPT / "part-1-of-2.shard"], FitOptions(weights="random"))


def _checkpoint(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.fitting.checkpoint import Checkpoint, Collected
    from edgeseg.fitting.embedding_store import EmbeddingStore
    from edgeseg.fitting.options import Checkpoints, Shard

    space, identity = _kept_fit()
    parts = folder / "part.parts"
    if not parts.exists():
        shutil.copytree(KEPT / "part.parts", parts)
    _write(data, parts, "0-of-1.moments")
    where = Checkpoints(folder=parts, resume=True)
    checkpoint = Checkpoint(where, shard=Shard(), identity=identity)
    store = EmbeddingStore(checkpoint.store_path, row_shape=space.row_shape)
    with store, EmbeddingStore() as unseen:
        moments = space.windows.new_moments(space.k)
        collected = Collected(moments=moments, seen=store, unseen=unseen)
        checkpoint.restore(collected)
        return collected.batches


@cache
def _kept_fit() -> tuple[Any, dict[str, Any]]:
    """The features that the kept checkpoint is of, and what it calls itself."""
    from edgeseg.artefact.artefact import load_artefact
    from edgeseg.artefact.container import read_container
    from edgeseg.fitting.feature_space import FeatureSpace

    space = FeatureSpace.of(load_artefact(KEPT / "part.edgeseg"))
    header = read_container(KEPT / "part.parts" / "0-of-1.moments", "edgeseg-checkpoint").header
    return space, header["sweep"]


def _graph(data: bytes, seed: Seed, folder: Path) -> object:
    """Without a sidecar, as `info` and a stream read it; libraries only see what has a hash."""
    from edgeseg.export.inspect_file import describe
    from edgeseg.runtime.backends.choose import open_session

    path = _write(data, folder, "alone.onnx")
    describe(path)
    with open_session(path, backend="cpu", allow_random_weights=True) as session:
        return session.metadata


def _graph_and_sidecar(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.export.inspect_file import describe
    from edgeseg.runtime.backends.model_file import file_metadata

    path = _write(data, folder, seed.name)
    path.with_suffix(".json").write_text(_sidecar_of(seed.data, folder), encoding="utf-8")
    told = file_metadata(path)
    describe(path)
    return told


@cache
def _sidecar_of(graph: bytes, folder: Path) -> str:
    """With the hash of a whole graph."""
    from edgeseg.contract.metadata import ModelMetadata
    from edgeseg.runtime.backends.onnx_properties import embedded_text

    whole = _write(graph, folder, "whole.onnx")
    told = ModelMetadata.from_json(embedded_text(whole) or "", source="whole.onnx")
    return replace(told, onnx_sha256=hashlib.sha256(graph).hexdigest()).to_json(indent=2)


def _sidecar(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.export.inspect_file import describe
    from edgeseg.runtime.backends.model_file import file_metadata

    path = _write(data, folder, seed.name).with_suffix(".onnx")
    if not path.exists():
        shutil.copyfile(KEPT / path.name, path)
    told = file_metadata(path)
    describe(path)
    return told


def _plan(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.export.inspect_file import describe
    from edgeseg.runtime.backends.plan_check import check_gpu, import_builder

    path = _write(b"plan", folder, "part.plan")
    _write(data, folder, "part.json")
    describe(path)
    from edgeseg.runtime.backends.model_file import plan_metadata

    told = plan_metadata(path)
    check_gpu(path, told, "sm86")
    return import_builder(path, told)


def _weights(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.model.weights import read_tensors

    return read_tensors(_write(data, folder, "weights.pth"))


def _image(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.contract.images import decode_image

    return decode_image(data, name=seed.name, max_pixels=4_000_000)


def _mask(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.contract.images import read_mask, read_mask_stack

    path = _write(data, folder, seed.name)
    return read_mask_stack(path, 1) if path.suffix == ".npy" else read_mask(path)


def _video(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.contract.images import read_video_frame
    from edgeseg.runtime.capture.sources import open_capture, parse_source

    path = _write(data, folder, seed.name)
    spec = parse_source(str(path), max_pixels=4_000_000)
    capture = open_capture(spec, wait=lambda seconds: False, timeout_s=5.0)
    try:
        for _ in range(8):
            if capture.read() is None:
                break
    finally:
        capture.close()
    return read_video_frame(path, 2, max_pixels=4_000_000)


def _recipe(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.runtime.recipes.recipe import read_recipe

    recipe = folder / "bottle"
    recipe.mkdir(exist_ok=True)
    _write(b"", recipe, "model.onnx")
    _write(data, recipe, "recipe.toml")
    return read_recipe(recipe).scorer_config()


def _registers(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.runtime.adapters.modbus import answer

    reply = answer(_face(), data[:253] or b"\0")
    if not 1 < len(reply) < 254:
        raise ValueError(f"a reply of {len(reply)} bytes")
    return reply


@cache
def _face() -> Any:
    from edgeseg.runtime.adapters.modbus_face import ModbusFace
    from edgeseg.runtime.station.station import Station

    station = Station()
    station.start()
    return ModbusFace(station, may_trigger=True, capacity=2, on_error=lambda name, text: None)


def _body(data: bytes, seed: Seed, folder: Path) -> object:
    """Over a real socket: the answer is JSON and no failure of the server."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", _port(), timeout=10)
    try:
        path = "/job" if b"job" in seed.data else "/trigger"
        connection.request("POST", path, data[:100_000], {"X-Edgeseg": "1"})
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    if answer.status >= 500 or not isinstance(json.loads(text), dict):
        raise ValueError(f"status {answer.status}: {text[:80]!r}")
    return answer.status


@cache
def _port() -> int:
    from edgeseg.bench.studies.line.loop_overhead import InstantSession
    from edgeseg.bench.studies.line.rig import Rig

    rig = Rig(InstantSession(), {"trigger": "http", "http": "0"})
    rig.__enter__()
    _RIGS.append(rig)
    return int(rig.adapter("http").port)


_RIGS: list[Any] = []  # for as long as the process lives


def _trigger(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.runtime.adapters.mqtt import read_trigger

    return read_trigger(data)


FORMATS: dict[str, Format] = {
    "artefact": Format(seeds=seeds.artefacts, load=_artefact, json="safetensors"),
    "shard": Format(seeds=seeds.shards, load=_shard, json="safetensors"),
    "checkpoint": Format(seeds=seeds.checkpoints, load=_checkpoint, json="safetensors"),
    "graph": Format(seeds=seeds.graphs, load=_graph, json="onnx"),
    "graph+sidecar": Format(seeds=seeds.graphs, load=_graph_and_sidecar, json="onnx"),
    "sidecar": Format(seeds=seeds.sidecars, load=_sidecar, json="text"),
    "plan": Format(seeds=seeds.plans, load=_plan, json="text"),
    "weights": Format(seeds=seeds.weights, load=_weights),
    "image": Format(seeds=seeds.images, load=_image),
    "mask": Format(seeds=seeds.masks, load=_mask),
    "video": Format(seeds=seeds.videos, load=_video),
    "recipe": Format(seeds=seeds.recipes, load=_recipe),
    "registers": Format(seeds=seeds.registers, load=_registers),
    "body": Format(seeds=seeds.bodies, load=_body, json="text"),
    "trigger": Format(seeds=seeds.triggers, load=_trigger, json="text", refusals=(ValueError,)),
}
