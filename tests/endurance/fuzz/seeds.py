"""Whole files to damage: those of version 0.1.0, which have no hash, and their like of today."""

import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.vision.images import IMAGE_SUFFIXES

REPO = Path(__file__).resolve().parents[3]
KEPT = REPO / "tests" / "kept" / "0.1.0"


@dataclass(frozen=True, kw_only=True)
class Seed:
    """A whole file; `sealed`: whatever changes in it must be refused."""

    data: bytes
    name: str
    sealed: bool = False
    has_json: bool = True  # where its format has
    beside: tuple[tuple[str, bytes], ...] = ()  # names and bytes of what has to lie beside it


def kept(name: str) -> Seed:
    """A file of version 0.1.0."""
    return Seed(data=(KEPT / name).read_bytes(), name=Path(name).name)


def artefacts(folder: Path) -> Iterator[Seed]:
    """One without a hash, one with, and one that looks for its part."""
    from edgeseg.model.artefact import load_artefact, save_artefact
    from tests.endurance.fuzz.located import located_artefact

    yield kept("part.edgeseg")
    plain = load_artefact(KEPT / "part.edgeseg")
    for model in (plain, located_artefact(plain)):
        save_artefact(model, folder / "part.edgeseg")
        yield Seed(data=(folder / "part.edgeseg").read_bytes(), name="part.edgeseg", sealed=True)


def _rewritten(kept: Path, key: str, folder: Path, **more: object) -> Seed:
    from safetensors.numpy import load_file

    from edgeseg.model.artefact import write_tensors
    from edgeseg.modelfile.container import read_container

    header = read_container(kept, key).header | {"schema": 2, **more}
    write_tensors(folder / kept.name, load_file(kept), key=key, header=header)
    return Seed(data=(folder / kept.name).read_bytes(), name=kept.name, sealed=True)


def shards(folder: Path) -> Iterator[Seed]:
    """The same of a shard."""
    yield kept("part-0-of-2.shard")
    yield _rewritten(KEPT / "part-0-of-2.shard", "edgeseg-shard", folder)


def checkpoints(folder: Path) -> Iterator[Seed]:
    """The same of a checkpoint, and the embeddings beside one."""
    moments = KEPT / "part.parts" / "0-of-1.moments"
    rows = moments.with_suffix(".embeddings").read_bytes()
    digest = hashlib.sha256(rows).hexdigest()
    today = _rewritten(moments, "edgeseg-checkpoint", folder, seen_sha256=digest)
    beside = (("0-of-1.embeddings", rows),)
    yield replace(kept("part.parts/0-of-1.moments"), beside=beside)
    yield replace(today, beside=beside)
    yield Seed(
        data=rows,
        name="0-of-1.embeddings",
        has_json=False,
        beside=(("0-of-1.moments", today.data),),
    )


def graphs(folder: Path) -> Iterator[Seed]:
    """Graphs in two precisions, and one that looks for its part."""
    import onnx

    from edgeseg.export.graph import save_graph, set_metadata
    from tests.endurance.fuzz.located import located

    for name in ("part-fp32.onnx", "part-int8.onnx"):
        yield kept(name)
        save_graph(onnx.load(KEPT / name), folder / name)
        yield Seed(data=(folder / name).read_bytes(), name=name, sealed=True)
    looking = onnx.load(KEPT / "part-fp32.onnx")
    set_metadata(looking, located(_told("part-fp32.json")))
    save_graph(looking, folder / "located.onnx")
    yield Seed(data=(folder / "located.onnx").read_bytes(), name="located.onnx", sealed=True)


def backbones(folder: Path) -> Iterator[Seed]:
    """The graph of a backbone, made of a model's."""
    from edgeseg.fitting.graph.graph_facts import KEY, GraphFacts
    from edgeseg.model.artefact import load_artefact
    from edgeseg.runtime.backends.onnx_message import with_constants, with_property
    from edgeseg.runtime.backends.onnx_properties import graph_sha256

    model = load_artefact(KEPT / "part.edgeseg")
    whole = (KEPT / "part-fp32.onnx").read_bytes()
    plain = with_constants(whole, {}, without_output="")
    facts = GraphFacts(
        config=model.config.to_dict(),
        weights=model.origin,
        embedding="embedding",
        mean="mean",
        factor="factor",
        kept="kept",
        gain="gain",
        versions={},
        graph_sha256=graph_sha256(io.BytesIO(plain)),
    )
    data = with_property(plain, KEY, facts.to_json())
    yield Seed(data=data, name="backbone.onnx", sealed=True)


def sidecars(folder: Path) -> Iterator[Seed]:
    """Sidecars of 0.1.0 and of today, of models that look for their part or have tiles."""
    from tests.endurance.fuzz.located import located, tiled

    for name in ("part-fp32.json", "part-int8.json"):
        told, graph = _told(name), Path(name).with_suffix(".onnx").name
        beside = ((graph, (KEPT / graph).read_bytes()),)
        yield replace(kept(name), beside=beside)
        for one in (told, located(told) if "fp32" in name else tiled(told)):
            text = one.to_json(indent=2)
            yield Seed(data=text.encode(), name=name, sealed=True, beside=beside)


def _told(name: str) -> ModelMetadata:
    return ModelMetadata.from_json((KEPT / name).read_bytes(), source=name)


def plans(folder: Path) -> Iterator[Seed]:
    """Sidecars that describe a plan, and a plan that one describes."""
    from edgeseg.modelfile.metadata import PlanFacts

    plan = bytes(range(256)) * 4  # nobody here can look into one
    facts = PlanFacts(
        builder="rtx",
        builder_version="1.2.0",
        targets=("sm86",),
        version_compatible=False,
        hardware_compatible=True,
        precision="fp32",
        plan_sha256=hashlib.sha256(plan).hexdigest(),
        build_seconds=1.0,
    )
    text = replace(_told("part-fp32.json"), plan=facts).to_json(indent=2)
    beside = (("part.plan", plan),)
    yield Seed(data=text.encode(), name="part.json", sealed=True, beside=beside)
    values = json.loads(text) | {"schema": 1}
    del values["seal"]
    yield Seed(data=json.dumps(values).encode(), name="part.json", beside=beside)
    described = (("part.json", text.encode()),)
    yield Seed(data=plan, name="part.plan", sealed=True, has_json=False, beside=described)


def weights(folder: Path) -> Iterator[Seed]:
    """A .pth file of a small network's tensors."""
    import torch

    tensors = {"features.0.weight": torch.ones(8, 3, 3, 3), "features.0.bias": torch.zeros(8)}
    for name, zipped in (("new.pth", True), ("old.pth", False)):
        torch.save(tensors, folder / name, _use_new_zipfile_serialization=zipped)
        yield Seed(data=(folder / name).read_bytes(), name=name)


def _picture() -> np.ndarray:
    noise = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)
    return cv2.GaussianBlur(noise, (5, 5), 2.0)


def images(folder: Path) -> Iterator[Seed]:
    """A small picture in every format."""
    for suffix in sorted(IMAGE_SUFFIXES):
        pixels = _picture()[:, :, 0] if suffix == ".pgm" else _picture()
        yield Seed(data=cv2.imencode(suffix, pixels)[1].tobytes(), name=f"picture{suffix}")
    deep = cv2.imencode(".png", _picture().astype(np.uint16) * 257)[1].tobytes()
    yield Seed(data=deep, name="deep.png")


def masks(folder: Path) -> Iterator[Seed]:
    """Masks of a video, and a picture of one."""
    stack = np.random.default_rng(0).random((3, 8, 10)) < 0.5
    for name, array in (("truth.npy", stack), ("bytes.npy", stack.astype(np.uint8))):
        np.save(folder / name, array)
        yield Seed(data=(folder / name).read_bytes(), name=name)
    yield Seed(data=cv2.imencode(".png", _picture())[1].tobytes(), name="mask.png")


def videos(folder: Path) -> Iterator[Seed]:
    """Six frames, in two containers."""
    for name, code in (("clip.avi", "MJPG"), ("clip.mp4", "mp4v")):
        writer = cv2.VideoWriter(str(folder / name), cv2.VideoWriter.fourcc(*code), 10.0, (64, 48))
        for shift in range(6):
            writer.write(np.roll(_picture(), shift, axis=1))
        writer.release()
        yield Seed(data=(folder / name).read_bytes(), name=name)
