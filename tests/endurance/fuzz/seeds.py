"""Whole files to damage: kept ones, and their like with all that a model may have."""

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.vision.images import IMAGE_SUFFIXES
from tests.support import KEPT


@dataclass(frozen=True, kw_only=True)
class Seed:
    """A whole file; `sealed`: whatever changes in it must be refused."""

    data: bytes
    name: str
    sealed: bool = False
    has_json: bool = True  # where its format has
    beside: tuple[tuple[str, bytes], ...] = ()  # names and bytes of what has to lie beside it


def kept(name: str) -> Seed:
    """A kept file."""
    return Seed(data=(KEPT / name).read_bytes(), name=Path(name).name, sealed=True)


def artefacts(folder: Path) -> Iterator[Seed]:
    """One that looks at whole pictures, and one that looks for its part."""
    from edgeseg.model.artefact import load_artefact, save_artefact
    from tests.endurance.fuzz.located import located_artefact

    yield kept("part.edgeseg")
    save_artefact(located_artefact(load_artefact(KEPT / "part.edgeseg")), folder / "part.edgeseg")
    yield Seed(data=(folder / "part.edgeseg").read_bytes(), name="part.edgeseg", sealed=True)


def shards(folder: Path) -> Iterator[Seed]:
    """The first of two shards."""
    yield kept("part-0-of-2.shard")


def checkpoints(folder: Path) -> Iterator[Seed]:
    """A checkpoint, and the embeddings beside it."""
    moments = kept("part.parts/0-of-1.moments")
    rows = (KEPT / "part.parts/0-of-1.embeddings").read_bytes()
    yield replace(moments, beside=(("0-of-1.embeddings", rows),))
    yield Seed(
        data=rows,
        name="0-of-1.embeddings",
        has_json=False,
        beside=(("0-of-1.moments", moments.data),),
    )


def graphs(folder: Path) -> Iterator[Seed]:
    """Graphs in two precisions that run without their sidecars, and one that looks for its part."""
    from tests.endurance.fuzz.located import located

    for name in ("part-fp32", "part-int8"):
        yield _graph(name, folder, _told(f"{name}.json"))
    looking = _graph("part-fp32", folder, located(_told("part-fp32.json")))
    yield replace(looking, name="located.onnx")


def _graph(name: str, folder: Path, told: ModelMetadata) -> Seed:
    """A kept graph that says this of itself, and needs no sidecar."""
    import onnx

    from edgeseg.export.graph import save_graph, set_metadata

    graph, path = onnx.load(KEPT / f"{name}.onnx"), folder / f"{name}.onnx"
    set_metadata(graph, replace(told, needs_sidecar=False))
    save_graph(graph, path)
    return Seed(data=path.read_bytes(), name=path.name, sealed=True)


def backbones(folder: Path) -> Iterator[Seed]:
    """The graph of a backbone, made of a model's."""
    from edgeseg.fitting.graph.graph_facts import KEY, GraphFacts
    from edgeseg.model.artefact import load_artefact
    from edgeseg.runtime.backends.onnx_message import with_constants, with_property
    from edgeseg.runtime.backends.onnx_properties import graph_sha256

    model = load_artefact(KEPT / "part.edgeseg")
    whole = (KEPT / "part-fp32.onnx").read_bytes()
    plain = with_constants(whole, {}, outputs=model.outputs)
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
    """Sidecars as kept, and of models that look for their part or have tiles."""
    from tests.endurance.fuzz.located import located, tiled

    for name in ("part-fp32.json", "part-int8.json"):
        told, graph = _told(name), Path(name).with_suffix(".onnx").name
        beside = ((graph, (KEPT / graph).read_bytes()),)
        yield replace(kept(name), beside=beside)
        text = (located(told) if "fp32" in name else tiled(told)).to_json(indent=2)
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
