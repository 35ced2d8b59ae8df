"""A graph in each precision, made of the one that was traced: one maker for each of PRECISIONS."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto

from edgeseg.contract.precisions import EXACT
from edgeseg.export.precision.half import HalfPlan, to_half
from edgeseg.export.precision.int8 import quantise_form
from edgeseg.export.precision.search import Choice, choose_half, choose_int8
from edgeseg.model.reference import ReferenceModel
from edgeseg.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Frames:
    """Images (N, H, W, 3) to calibrate and to verify on, and where they are from."""

    images: NDArray[np.uint8]
    source: str = "calibration images"
    good: bool = True  # of the part that the model knows


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a maker has to work with."""

    graph: ModelProto  # as traced, in fp32
    model: ReferenceModel
    frames: Frames
    target: str
    progress: Progress


def _exact(task: Task) -> Choice:
    return Choice(graph=task.graph, report={"precision": f"all {EXACT}"})


def _half(task: Task) -> Choice:
    return choose_half(task.graph, task.model, task.frames.images, good=task.frames.good)


def _int8(task: Task) -> Choice:
    images = task.frames.images
    return choose_int8(
        task.graph,
        task.model,
        images,
        target=task.target,
        finish=int8_form(task.model, images) if task.target == "cpu" else half_form,
        progress=task.progress,
    )


MAKERS: dict[str, Callable[[Task], Choice]] = {EXACT: _exact, "fp16": _half, "int8": _int8}


def int8_form(
    model: ReferenceModel, frames: NDArray[np.uint8]
) -> Callable[[ModelProto], ModelProto]:
    """The quadratic form in int8, scaled by what the frames reach in each block."""
    cells = torch.zeros(model.windows.cells)
    with torch.no_grad():
        for frame in frames:
            centred = model.embed(torch.from_numpy(frame[None])).flatten(2).mT - model.mean
            cells = torch.maximum(cells, centred[0].abs().amax(dim=1))
    blocks = model.windows.by_block(cells[None, :, None]).amax(dim=(1, 2))
    largest = blocks if model.factor.shape[0] > 1 else blocks.max()
    return lambda graph: quantise_form(graph, largest=largest.numpy())


def half_form(graph: ModelProto) -> ModelProto:
    """The quadratic form in fp16, where fifteen megabytes are nothing to a GPU."""
    return to_half(graph, HalfPlan(embedding=False, backbone=False))
