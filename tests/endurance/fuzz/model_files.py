"""Readers of models: artefact, shard, checkpoint, graph, sidecar, plan and weights."""

import contextlib
import hashlib
import io
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from edgeseg.base.errors import EdgesegError
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.backends.model_file import BackendUnavailable
from tests.endurance.fuzz.format import lay, write
from tests.endurance.fuzz.located import camera_picture
from tests.endurance.fuzz.seeds import Seed
from tests.support import KEPT


def told_by_info(path: Path) -> None:
    """`edgeseg info`, which people run on whatever they have."""
    from edgeseg.cli.info_command import info

    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(EdgesegError):
        info.main([str(path)], standalone_mode=False)


def looked(told: ModelMetadata) -> ModelMetadata:
    """After its first frame: what a file says of where parts lie is used, not only read."""
    told.looks.find(camera_picture())
    return told


def read_artefact(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.cli.threshold_evidence import read_evidence
    from edgeseg.model.artefact import load_artefact

    path = write(data, folder, "part.edgeseg")
    told_by_info(path)
    read_evidence(path)
    model = load_artefact(path)
    model.config.geometry.find(camera_picture())
    return model


def read_backbone(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.fitting.graph.backbone_graph import BackboneGraph

    path = write(data, folder, "backbone.onnx")
    told_by_info(path)
    return BackboneGraph(path).embedding


def read_shard(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.fitting.options import FitOptions
    from edgeseg.fitting.parallel.shards import merge_shards

    path = write(data, folder, "part-0-of-2.shard")
    told_by_info(path)
    return merge_shards([path, KEPT / "part-1-of-2.shard"], FitOptions(weights="random"))


def read_checkpoint(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.fitting.checkpoint import Checkpoint, Collected
    from edgeseg.fitting.embedding_store import EmbeddingStore
    from edgeseg.fitting.options import Checkpoints, Shard

    space, identity = _kept_fit()
    parts = folder / "part.parts"
    parts.mkdir(exist_ok=True)
    told_by_info(lay(data, seed, parts))
    where = Checkpoints(folder=parts, resume=True)
    checkpoint = Checkpoint(where, shard=Shard(), identity=identity)
    store = EmbeddingStore(checkpoint.store_path, row_shape=space.row_shape)
    with store, EmbeddingStore() as unseen:
        moments = space.windows.new_moments(space.k)
        collected = Collected(moments=moments, seen=store, unseen=unseen)
        checkpoint.restore(collected)
        rows = seed.data if seed.name.endswith(".embeddings") else b""
        # What is longer is cut: embeddings may be ahead of the moments that count them.
        if data[: len(rows)] != rows:
            raise ValueError("other embeddings than those of the checkpoint were believed")
        return collected.batches


@cache
def _kept_fit() -> tuple[Any, dict[str, Any]]:
    """The features that the kept checkpoint is of, and what it calls itself."""
    from edgeseg.fitting.feature_space import FeatureSpace
    from edgeseg.model.artefact import load_artefact
    from edgeseg.modelfile.container import read_container

    space = FeatureSpace.of(load_artefact(KEPT / "part.edgeseg"))
    header = read_container(KEPT / "part.parts" / "0-of-1.moments", "edgeseg-checkpoint").header
    return space, header["sweep"]


def read_graph(data: bytes, seed: Seed, folder: Path) -> object:
    """Without a sidecar, as `info` and a stream read it; libraries only see what has a hash."""
    from edgeseg.runtime.backends.choose import open_session
    from edgeseg.runtime.backends.inspect_file import describe
    from edgeseg.runtime.backends.session_options import SessionOptions

    path = write(data, folder, "alone.onnx")
    describe(path)
    with open_session(path, SessionOptions(backend="cpu", allow_random_weights=True)) as session:
        return looked(session.metadata)


def read_graph_and_sidecar(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.runtime.backends.inspect_file import describe
    from edgeseg.runtime.backends.model_file import file_metadata

    path = write(data, folder, seed.name)
    path.with_suffix(".json").write_text(_sidecar_of(seed.data, folder), encoding="utf-8")
    told = file_metadata(path)
    describe(path)
    return told


@cache
def _sidecar_of(graph: bytes, folder: Path) -> str:
    """With the hash of a whole graph."""
    from edgeseg.runtime.backends.onnx_properties import property_text

    whole = write(graph, folder, "whole.onnx")
    told = ModelMetadata.from_json(property_text(whole) or "", source="whole.onnx")
    return replace(told, onnx_sha256=hashlib.sha256(graph).hexdigest()).to_json(indent=2)


def read_sidecar(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.runtime.backends.inspect_file import describe
    from edgeseg.runtime.backends.model_file import file_metadata

    path = lay(data, seed, folder).with_suffix(".onnx")
    told = file_metadata(path)
    describe(path)
    looked(ModelMetadata.from_json(data, source=seed.name))  # a graph has places of its own
    return told


def read_plan(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.runtime.backends.inspect_file import describe
    from edgeseg.runtime.backends.model_file import plan_metadata
    from edgeseg.runtime.backends.plan_check import check_gpu, import_builder

    path = lay(data, seed, folder).with_suffix(".plan")
    describe(path)
    told = plan_metadata(path)
    with contextlib.suppress(BackendUnavailable):  # of this computer, and not of this file
        check_gpu(path, told, "sm86")
        import_builder(path, told)
    return told


def read_weights(data: bytes, seed: Seed, folder: Path) -> object:
    from edgeseg.model.weights import read_tensors

    return read_tensors(write(data, folder, "weights.pth"))
