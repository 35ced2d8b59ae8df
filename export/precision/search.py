"""Which layers stay in higher precision: decided by the error they cause, and reported."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto

from edgeseg.export.precision.half import HalfPlan, to_half
from edgeseg.export.precision.int8 import (
    Int8Plan,
    Quantiser,
    correct_mean,
    mean_embedding,
    quantisable,
    run_exactly,
)
from edgeseg.export.precision.tolerances import TOLERANCES
from edgeseg.model.reference import ReferenceModel
from edgeseg.progress import Progress

# A layer whose return to fp32 removes less of the error than this is not worth its milliseconds.
WORTH = 0.25
MOST_KEPT = 3
# Below this share of the tolerance a graph is taken as it is: PRO does not see the error any more.
ENOUGH = 0.8
HOPELESS = 2.0
_PROBES = 4  # frames the error is measured on while choosing
_HALF_PLANS = (
    HalfPlan(embedding=True),
    HalfPlan(embedding=False),
    HalfPlan(embedding=False, backbone=False),
)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A graph, and what was decided on the way to it."""

    graph: ModelProto
    report: dict[str, object]
    next_best: "Callable[[], Choice] | None" = None  # if this one turns out to be too far off


def choose_half(
    proto: ModelProto, model: ReferenceModel, frames: NDArray[np.uint8], *, good: bool
) -> Choice:
    """All fp16 if the map allows it, else the embedding in fp32, or all but the factors.

    Where the frames are good images of the part, they also take out what rounded weights add to
    every frame, which is most of the error of MobileNetV3 and EfficientNet-Lite.
    """
    errors: dict[str, float | str] = {}
    probes = frames[:_PROBES]
    maps, mean = exact_maps(model, probes), mean_embedding(proto, frames) if good else None
    for plan in _HALF_PLANS:
        graph = to_half(proto, plan)
        if mean is not None:
            graph = correct_mean(graph, mean, frames)
        error = mean_error(graph, maps, probes)
        errors[plan.text] = _plain(error)
        if error <= ENOUGH * TOLERANCES["fp16"].mean_error:
            break
    return Choice(graph=graph, report={"precision": plan.text, "mean_error": errors})


def choose_int8(
    proto: ModelProto,
    model: ReferenceModel,
    frames: NDArray[np.uint8],
    *,
    target: str,
    finish: Callable[[ModelProto], ModelProto],
    progress: Progress,
) -> Choice:
    """Quantise everything, then give back to fp32 the layers that cause most of the error.

    If that is not enough the backbone stays fp32 as a whole, and only the factors are int8.
    """
    quantiser = Quantiser(proto, frames, target=target)
    probes = frames[:: max(1, len(frames) // _PROBES)][:_PROBES]
    maps, mean = exact_maps(model, probes), mean_embedding(proto, probes)

    def error_with(keep: tuple[str, ...]) -> float:
        graph = correct_mean(quantiser.quantise(Int8Plan(keep=keep)), mean, probes)
        return mean_error(graph, maps, probes)

    allowed = TOLERANCES["int8"].mean_error
    error = error_with(())
    kept: tuple[str, ...] = ()
    steps: list[dict[str, object]] = [{"kept": [], "mean_error": _plain(error)}]
    candidates = [node.name for node in quantisable(proto) if node.op_type == "Conv"]
    # Giving back single layers mends an error near the limit, not one that is everywhere.
    while ENOUGH * allowed < error < HOPELESS * allowed and len(kept) < MOST_KEPT:
        names = [name for name in candidates if name not in kept]
        listed = progress(iter(names), length=len(names), label="Looking for sensitive layers")
        errors = {name: error_with((*kept, name)) for name in listed}
        best = min(errors, key=lambda name: errors[name])
        if errors[best] > (1 - WORTH) * error:
            break
        kept, error = (*kept, best), errors[best]
        steps.append({"kept": list(kept), "mean_error": _plain(error)})
    factors = "int8" if target == "cpu" else "fp16"

    def exact_backbone() -> Choice:
        text = f"{factors} factors; the whole backbone stays fp32, its int8 form is too far off"
        return Choice(graph=finish(proto), report={"precision": text, "steps": steps})

    if error > allowed:
        return exact_backbone()
    graph = quantiser.quantise(Int8Plan(keep=kept))
    graph = finish(correct_mean(graph, mean_embedding(proto, frames), frames))
    text = f"int8 backbone, {factors} factors; {len(kept)} layers kept in fp32"
    report: dict[str, object] = {"precision": text, "kept": list(kept), "steps": steps}
    return Choice(graph=graph, report=report, next_best=exact_backbone)


def exact_maps(model: ReferenceModel, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Maps of the reference, frame by frame, as a camera gives them."""
    with torch.no_grad():
        return np.stack([model(torch.from_numpy(frame[None]))[0][0].numpy() for frame in frames])


def mean_error(proto: ModelProto, exact: NDArray[np.float32], frames: NDArray[np.uint8]) -> float:
    """Mean difference of the map from the reference's, as a share of the reference's range."""
    maps = run_exactly(proto, "map", frames)
    span = max(float(exact.max() - exact.min()), 1e-6)
    error = float(np.abs(exact - maps).mean()) / span
    return error if math.isfinite(error) else math.inf


def _plain(error: float) -> float | str:
    """For the report, which is JSON: there is no infinity in it."""
    return error if math.isfinite(error) else "not finite"
