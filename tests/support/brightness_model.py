"""A tiny model whose answers are known: its map is the brightness of the frame.

`map` is the mean of the three channels (0..255), `score` its maximum, `grid` its mean over cells.
Made with onnx.helper, so that the runtime's tests need no torch.
"""

import hashlib
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from edgeseg import __version__
from edgeseg.decision.score_statistics import ScoreStatistics
from edgeseg.modelfile.metadata import (
    KEY,
    UNKNOWN_LICENCE,
    BackboneFacts,
    DriftBaseline,
    InputFormat,
    ModelMetadata,
    Normalisation,
    PlanFacts,
    ScoreRule,
)
from edgeseg.runtime.backends.onnx_properties import graph_sha256, property_text
from tests.support.thresholds import made_up_thresholds


def brightness_metadata(
    *,
    size_hw: tuple[int, int] = (32, 48),
    batch: tuple[int, int, int] = (1, 1, 1),
    grid_hw: tuple[int, int] = (4, 6),
    threshold: float = 200.0,
    random_weights: bool = False,
    outputs: tuple[str, ...] = ("map", "score", "grid"),
) -> ModelMetadata:
    """Metadata as an export would write it, with made-up statistics of good images."""
    rows, columns = grid_hw
    return ModelMetadata(
        name="brightness",
        input=InputFormat(
            name="frames", layout="NHWC", channels="RGB", size_hw=size_hw, batch=batch
        ),
        outputs=outputs,
        preprocess=Normalisation(mean=(0.0,) * 3, std=(1.0,) * 3, inside_graph=True),
        threshold=made_up_thresholds(threshold),
        good_scores=ScoreStatistics(
            count=100,
            mean=120.0,
            std=10.0,
            min=90.0,
            max=150.0,
            quantiles={"0.5": 120.0, "0.9": 133.0, "0.99": 143.0},
        ),
        drift=DriftBaseline(
            d2_mean=((100.0**2,) * columns,) * rows,
            d2_std=((500.0,) * columns,) * rows,
            frame_mean=100.0**2,
            frame_std=200.0,
        ),
        grid_hw=grid_hw,
        k=3,
        rank=3,
        rule=ScoreRule(top=1, sigma=0.0),
        backbone=BackboneFacts(
            name="none",
            weights_sha256="0" * 64,
            random_weights=random_weights,
            licence=UNKNOWN_LICENCE,
        ),
        artefact_sha256="0" * 64,
        precision="fp32",
        target="cpu",
        accuracy=(
            {
                "dataset": "made up",
                "numerics": "fp32",
                "pro": 0.95,
                "pro_05": 0.85,
                "pixel_auroc": 0.98,
                "image_auroc": 0.99,
                "f1": 0.9,
                "recall": 0.8,
                "false_alarm_rate": 0.05,
                "images": 83,
                "anomalies": 63,
            },
        ),
        versions={"edgeseg": __version__},
    )


PLAN = PlanFacts(
    builder="tensorrt",
    builder_version="10.3.0",
    targets=("sm86",),
    version_compatible=False,
    hardware_compatible=False,
    precision="fp32",
    plan_sha256="0" * 64,
    build_seconds=1.0,
)


def brightness_graph(
    metadata: ModelMetadata | None, *, repeats: int = 0, kept_hw: NDArray[np.bool_] | None = None
) -> onnx.ModelProto:
    """The graph; `repeats` adds matrix products that change nothing and take time.

    What is not kept is dark.
    """
    meta = metadata or brightness_metadata()
    (height, width), (rows, columns) = meta.size_hw, meta.grid_hw
    low, _, high = meta.input.batch
    count: int | str = low if low == high else "N"
    floats = TensorProto.FLOAT
    nodes = [
        helper.make_node("Cast", ["frames"], ["float"], to=floats),
        helper.make_node("ReduceMean", ["float", "channel_axis"], ["grey"], keepdims=0),
    ]
    nodes += [
        helper.make_node("MatMul", [_step("grey", index), "eye"], [_step("grey", index + 1)])
        for index in range(repeats)
    ]
    nodes += [
        helper.make_node("Identity", [_step("grey", repeats)], ["map"])
        if kept_hw is None
        else helper.make_node("Mul", [_step("grey", repeats), "kept"], ["map"]),
        helper.make_node("ReduceMax", ["map", "pixel_axes"], ["score"], keepdims=0),
        helper.make_node("Unsqueeze", ["map", "one"], ["nchw"]),
        helper.make_node(
            "AveragePool",
            ["nchw"],
            ["pooled"],
            kernel_shape=[height // rows, width // columns],
            strides=[height // rows, width // columns],
        ),
        helper.make_node("Squeeze", ["pooled", "one"], ["grid"]),
    ]
    constants = [
        helper.make_tensor("channel_axis", TensorProto.INT64, [1], [3]),
        helper.make_tensor("pixel_axes", TensorProto.INT64, [2], [1, 2]),
        helper.make_tensor("one", TensorProto.INT64, [1], [1]),
    ]
    if kept_hw is not None:
        kept = kept_hw.astype(np.float32).ravel()
        constants.append(helper.make_tensor("kept", floats, [height, width], kept))
    if repeats:
        eye = [float(row == column) for row in range(width) for column in range(width)]
        constants.append(helper.make_tensor("eye", floats, [width, width], eye))
    outputs = {
        "map": [count, height, width],
        "score": [count],
        "grid": [count, rows, columns],
    }
    graph = helper.make_graph(
        nodes,
        "brightness",
        [helper.make_tensor_value_info("frames", TensorProto.UINT8, [count, height, width, 3])],
        [helper.make_tensor_value_info(name, floats, outputs[name]) for name in meta.outputs],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    if metadata is not None:
        helper.set_model_props(model, {KEY: hashed(model, metadata).to_json()})
    onnx.checker.check_model(model)
    return model


def hashed(model: onnx.ModelProto, metadata: ModelMetadata) -> ModelMetadata:
    """The metadata with the hash of a graph that does not hold them yet, as an export has it."""
    return replace(metadata, graph_sha256=graph_sha256(io.BytesIO(model.SerializeToString())))


def _step(name: str, index: int) -> str:
    return f"{name}{index}" if index else name


def write_brightness_model(
    path: Path,
    *,
    metadata: ModelMetadata | None = None,
    repeats: int = 0,
    sidecar: bool = True,
    kept_hw: NDArray[np.bool_] | None = None,
) -> ModelMetadata:
    """Write NAME.onnx and its sidecar; return what the sidecar says."""
    metadata = metadata or brightness_metadata()
    graph = brightness_graph(metadata, repeats=repeats, kept_hw=kept_hw)
    path.write_bytes(graph.SerializeToString())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    inside = ModelMetadata.from_json(property_text(path) or "", source=path.name)
    told = replace(inside, onnx_sha256=digest)
    if sidecar:
        path.with_suffix(".json").write_text(told.to_json(indent=2), encoding="utf-8")
    return told
