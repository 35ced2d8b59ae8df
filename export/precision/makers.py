"""Make a graph in each precision from the traced one: one maker for each of PRECISIONS."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto

from edgeseg.export.graph import quadratic_forms
from edgeseg.export.precision.half import HalfPlan, to_half
from edgeseg.export.precision.int8 import Quantiser, Rounding, first_layers, quantise_form
from edgeseg.export.precision.refit import with_factors
from edgeseg.model.predictor import Embedder
from edgeseg.model.reference import ReferenceModel
from edgeseg.modelfile.precisions import EXACT


@dataclass(frozen=True, kw_only=True)
class Task:
    """The input of a maker."""

    graph: ModelProto  # as traced, in fp32
    images: NDArray[np.uint8]  # (N, H, W, 3), of the part where a precision asks for images
    target: str
    exact_layers: int = 0  # of the backbone's first ones: see BackboneSpec
    rounds_backbone: bool = True  # in int8


@dataclass(frozen=True, kw_only=True)
class Head:
    """The model behind a graph's embedding, and the function that computes the embedding."""

    model: ReferenceModel  # with the mean and the factors that the file will have
    embed: Embedder  # as the rounded graph gives them


@dataclass(frozen=True, kw_only=True)
class GraphCandidate:
    """A graph up to its embedding as it will run, and the function that adds the rest."""

    text: str  # what is in which precision, for the report
    rounded: ModelProto
    finish: Callable[[Head], ModelProto]


# The smallest first. The first that decides as the reference does is taken, and the others are
# not even made.
Maker = Callable[[Task], Iterator[GraphCandidate]]


def _as_traced(text: str) -> Maker:
    def candidates(task: Task) -> Iterator[GraphCandidate]:
        yield GraphCandidate(
            text=text,
            rounded=task.graph,
            finish=lambda head: with_factors(task.graph, head.model),
        )

    return candidates


def _half(task: Task) -> Iterator[GraphCandidate]:
    plans = (
        HalfPlan(embedding=True),
        HalfPlan(embedding=False),
        HalfPlan(embedding=False, backbone=False),
    )
    for plan in plans:
        yield GraphCandidate(
            text=plan.text,
            rounded=to_half(task.graph, plan),
            finish=lambda head, plan=plan: to_half(  # type: ignore[misc]
                with_factors(task.graph, head.model), plan
            ),
        )


def _int8(task: Task) -> Iterator[GraphCandidate]:
    factors = "int8" if task.target == "cpu" else "fp16"
    if task.target == "cpu" and len(quadratic_forms(task.graph)) > 1:
        factors += f", the map's own {EXACT}"
    backbones = []
    for text, graph in _int8_backbones(task):
        backbones.append((text, graph))
        yield GraphCandidate(
            text=f"{text}, factors {factors}",
            rounded=graph,
            finish=lambda head, graph=graph: _with_form(  # type: ignore[misc]
                with_factors(graph, head.model), head, task
            ),
        )
    # Where good parts are so alike that eight bits of the embedding hide how they differ.
    for text, graph in backbones[:-1] if task.target == "cpu" else ():
        yield GraphCandidate(
            text=f"{text}, factors {EXACT}",
            rounded=graph,
            finish=lambda head, graph=graph: with_factors(graph, head.model),  # type: ignore[misc]
        )


def _int8_backbones(task: Task) -> Iterator[tuple[str, ModelProto]]:
    count = task.exact_layers
    if task.rounds_backbone:
        rounding = Rounding(spared=lambda proto: first_layers(proto, count))
        quantiser = Quantiser(task.graph, task.images, target=task.target, rounding=rounding)
        but = f" but its first {count} layers" if count else ""
        yield f"backbone int8{but}", quantiser.quantise()
    yield "backbone fp32", task.graph


MAKERS: dict[str, Maker] = {
    EXACT: _as_traced(f"all {EXACT}"),
    "fp16": _half,
    "bf16": _as_traced("stored in fp32, computed in bf16"),
    "int8": _int8,
}


def _with_form(graph: ModelProto, head: Head, task: Task) -> ModelProto:
    if task.target == "cpu":
        return quantise_form(graph, largest=reach(head, task.images))
    return half_form(graph)


def reach(head: Head, images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Find the highest absolute value of the centred embedding in each block, or in all."""
    model = head.model
    cells = np.zeros(model.windows.cells, np.float32)
    for image in images:
        embedded = torch.from_numpy(head.embed(image[None]).swapaxes(1, 2))
        centred = model.centre(embedded)[0][0].numpy()  # (P, k)
        cells = np.maximum(cells, np.abs(centred).max(axis=1))
    blocks = model.windows.by_block(cells[None, :, None]).max(axis=(1, 2))
    return np.asarray(blocks if model.factor.shape[0] > 1 else blocks.max())


def half_form(graph: ModelProto) -> ModelProto:
    """Copy the graph with the quadratic form in fp16."""
    return to_half(graph, HalfPlan(embedding=False, backbone=False))
