"""A graph with the shape of an exported one, small enough to compile in a fraction of a second.

uint8 NHWC frames, a convolution, a sum of squares in fp32, a separable upsampling by two matrix
products; `frames` in, `map`, `score` and `grid` out. Made with onnx.helper, without torch.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from edgeseg.modelfile.metadata import KEY, ModelMetadata
from tests.support.brightness_model import brightness_metadata, hashed

SIZE_HW, GRID_HW = (32, 48), (4, 6)
_RANDOM = np.random.default_rng(7)
_WEIGHT = _RANDOM.normal(size=(8, 3, 8, 8)).astype(np.float32) / 1000
_FACTOR = _RANDOM.normal(size=(24, 8, 5)).astype(np.float32)  # cell, channel, direction


def write_graph(
    path: Path, *, precision: str = "fp32", batch: tuple[int, int, int] = (1, 1, 1)
) -> ModelMetadata:
    """Write the graph; `integer` has the products that only CPUs take. Returns its metadata."""
    told = brightness_metadata(size_hw=SIZE_HW, grid_hw=GRID_HW, batch=batch)
    target = "cpu" if precision == "integer" else "trt"
    told = replace(told, name="small", precision=precision, target=target)
    low, _, high = batch
    model = _model(precision, low if low == high else "N")
    told = hashed(model, told)
    helper.set_model_props(model, {KEY: told.to_json()})
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())
    return told


def _model(precision: str, count: int | str) -> onnx.ModelProto:
    constants: dict[str, np.ndarray] = {
        "cells": np.array([0, 8, 24]),
        "channel": np.array([2]),
        "pixels": np.array([1, 2]),
        "grid_shape": np.array([0, *GRID_HW]),
        "up": np.kron(np.eye(4), np.full((8, 1), 1 / 8)).astype(np.float32),  # [H, h]
        "across": np.kron(np.eye(6), np.full((1, 8), 1 / 8)).astype(np.float32),  # [w, W]
    }
    nodes = [
        helper.make_node("Cast", ["frames"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["float"], ["nchw"], perm=[0, 3, 1, 2]),
        *_convolution(precision, constants),
        helper.make_node("Reshape", ["features", "cells"], ["embedded"]),
        helper.make_node("Transpose", ["embedded"], ["by_cell"], perm=[2, 0, 1]),
        *_form(precision, constants),
        helper.make_node("Mul", ["whitened", "whitened"], ["squares"]),
        helper.make_node("ReduceSum", ["squares", "channel"], ["d2_cell"], keepdims=0),
        helper.make_node("Transpose", ["d2_cell"], ["d2"], perm=[1, 0]),
        helper.make_node("Sqrt", ["d2"], ["d"]),
        helper.make_node("Reshape", ["d", "grid_shape"], ["grid"]),
        helper.make_node("MatMul", ["up", "grid"], ["tall"]),
        helper.make_node("MatMul", ["tall", "across"], ["map"]),
        helper.make_node("ReduceMax", ["map", "pixels"], ["score"], keepdims=0),
    ]
    shapes = {"map": [count, *SIZE_HW], "score": [count], "grid": [count, *GRID_HW]}
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("frames", TensorProto.UINT8, [count, *SIZE_HW, 3])],
        [helper.make_tensor_value_info(key, TensorProto.FLOAT, shapes[key]) for key in shapes],
        [numpy_helper.from_array(value, key) for key, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _convolution(precision: str, constants: dict[str, np.ndarray]) -> list[NodeProto]:
    data, weight, before, after = "nchw", "weight", [], []
    result = "features"
    constants["weight"] = _WEIGHT
    if precision == "fp16":
        constants["weight"] = _WEIGHT.astype(np.float16)
        before = [helper.make_node("Cast", ["nchw"], ["half"], to=TensorProto.FLOAT16)]
        after = [helper.make_node("Cast", ["features_half"], ["features"], to=TensorProto.FLOAT)]
        data, result = "half", "features_half"
    elif precision == "int8":  # symmetric, as TensorRT wants it
        constants["weight"] = np.clip(np.round(_WEIGHT * 20000), -127, 127).astype(np.int8)
        constants |= {"step": np.float32(2.0), "zero": np.int8(0), "fine": np.float32(1 / 20000)}
        before = [
            helper.make_node("QuantizeLinear", ["nchw", "step", "zero"], ["small"]),
            helper.make_node("DequantizeLinear", ["small", "step", "zero"], ["coarse"]),
            helper.make_node("DequantizeLinear", ["weight", "fine", "zero"], ["weight_float"]),
        ]
        data, weight = "coarse", "weight_float"
    return [
        *before,
        helper.make_node("Conv", [data, weight], [result], strides=[8, 8], name="/conv"),
        *after,
    ]


def _form(precision: str, constants: dict[str, np.ndarray]) -> list[NodeProto]:
    """The quadratic form's product, [cell, N, channel] x [cell, channel, direction]."""
    constants["factor"] = _FACTOR
    if precision != "integer":
        return [helper.make_node("MatMul", ["by_cell", "factor"], ["whitened"], name="/form")]
    constants["factor"] = np.clip(np.round(_FACTOR * 30), -127, 127).astype(np.int8)
    return [
        helper.make_node("Cast", ["by_cell"], ["by_cell_int8"], to=TensorProto.INT8),
        helper.make_node(
            "MatMulInteger", ["by_cell_int8", "factor"], ["one"], name="/form/MatMulInteger"
        ),
        helper.make_node("MatMulInteger", ["by_cell_int8", "factor"], ["two"], name="/form/again"),
        helper.make_node("Add", ["one", "two"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["whitened"], to=TensorProto.FLOAT),
    ]
