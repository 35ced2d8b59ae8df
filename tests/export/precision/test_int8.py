"""int8: which tensors, which ranges, and what a CPU makes of them."""

import logging
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from edgeseg.config import FitConfig
from edgeseg.export.graph import GraphOptions, initializers, quadratic_form
from edgeseg.export.precision import int8
from edgeseg.export.precision.int8 import Quantiser, first_layers, quantise_form, run_exactly
from edgeseg.export.precision.makers import MAKERS, Head, Task, reach
from edgeseg.export.precision.refit import EMBEDDING, cut
from edgeseg.export.precision.tolerances import TOLERANCES
from tests.support.export_models import (
    EDGE,
    SHORT,
    SHOWN,
    artefact,
    frames,
    good_frames,
    reference,
    run,
    traced,
)

SEEN, UNSEEN = good_frames(12)[:8], good_frames(12)[8:]
GLOBAL = SHORT.with_options({"share": 1, "covariance": "global"})


def quantised(config: FitConfig, target: str) -> ModelProto:
    """The backbone in int8, the quadratic form still in fp32."""
    return Quantiser(traced(config), SEEN, target=target).quantise()


def constants(proto: ModelProto) -> dict[str, NDArray[np.generic]]:
    return {name: numpy_helper.to_array(tensor) for name, tensor in initializers(proto).items()}


def made_by(proto: ModelProto) -> dict[str, NodeProto]:
    return {name: node for node in proto.graph.node for name in node.output}


def head(config: FitConfig) -> Head:
    """The mean and the factors of the fit, and its embeddings."""
    model = artefact(config).model()
    return Head(model=model, embed=model.embeddings)


def whole(config: FitConfig, target: str) -> ModelProto:
    """The first choice of the maker, with the factors of the fit."""
    task = Task(graph=traced(config), images=SEEN, target=target)
    return next(MAKERS["int8"](task)).finish(head(config))


@pytest.mark.parametrize("target", ["cpu", "trt"])
def test_every_convolution_reads_int8(target: str) -> None:
    proto = quantised(EDGE, target)
    maker, values = made_by(proto), constants(proto)
    convolutions = [node for node in proto.graph.node if node.op_type == "Conv"]
    assert len(convolutions) == 18
    for node in convolutions:
        assert [maker[name].op_type for name in node.input[:2]] == ["DequantizeLinear"] * 2
        kernel = values[maker[node.input[1]].input[0]]
        assert kernel.dtype == np.int8
        assert values[maker[node.input[1]].input[1]].shape == kernel.shape[:1], "a scale a channel"


def test_weights_for_cpus_have_seven_bits_and_biases_are_int32() -> None:
    values = constants(quantised(EDGE, "cpu"))
    kernels = [value for value in values.values() if value.dtype == np.int8 and value.ndim == 4]
    assert len(kernels) == 18
    assert max(int(np.abs(kernel.astype(int)).max()) for kernel in kernels) == 64
    assert [value.dtype for name, value in values.items() if name.endswith("bias_quantized")]
    assert Counter(value.dtype for value in values.values())[np.dtype(np.int32)] >= 15


def test_the_graph_for_tensorrt_is_symmetric_and_has_nothing_it_refuses() -> None:
    proto = whole(EDGE, "trt")
    values = constants(proto)
    kinds = Counter(node.op_type for node in proto.graph.node)
    assert kinds["MatMulInteger"] == 0
    assert kinds["QuantizeLinear"] >= 15
    assert not [name for name, value in values.items() if value.dtype == np.int32]
    for node in proto.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            zero = values[node.input[2]]
            assert zero.dtype == np.int8
            assert not zero.any()
    kernels = [value for value in values.values() if value.dtype == np.int8 and value.ndim == 4]
    assert max(int(np.abs(kernel.astype(int)).max()) for kernel in kernels) == 127
    assert values["factor"].dtype == np.float16, "15 MB are nothing to a GPU"
    assert values["rows"].dtype == np.float32


def test_the_form_for_cpus_is_an_integer_product() -> None:
    proto = whole(EDGE, "cpu")
    kinds = Counter(node.op_type for node in proto.graph.node)
    assert kinds["MatMulInteger"] == 1
    assert kinds["MatMul"] == 2, "the two of the upsampling"
    values = constants(proto)
    assert "factor" not in values
    assert values["factor_int8"].dtype == np.int8
    assert values["factor_int8"].shape == (16, 16, 10)
    assert [value.type.tensor_type.elem_type for value in proto.graph.output] == [1] * 4


def test_the_product_of_a_map_of_its_own_stays_as_it_is_on_cpus() -> None:
    proto = whole(SHOWN, "cpu")
    kinds = Counter(node.op_type for node in proto.graph.node)
    assert (kinds["MatMulInteger"], kinds["MatMul"]) == (1, 3)
    values = constants(proto)
    assert "factor" not in values
    assert {values[name].dtype for name in ("map_factor", "map_weight")} == {np.dtype(np.float32)}
    assert values["map_factor"].shape == artefact(SHOWN).factors.shown.factor.shape
    assert [value.type.tensor_type.elem_type for value in proto.graph.output] == [1] * 5
    half = constants(whole(SHOWN, "trt"))
    assert {half[name].dtype for name in ("factor", "map_factor")} == {np.dtype(np.float16)}
    wanted = reference(SHOWN, UNSEEN)
    for name in ("grid", "map_grid", "map"):
        found = np.concatenate([run(proto, image[None])[name] for image in UNSEEN])
        error = np.abs(wanted[name] - found) / np.ptp(wanted[name])
        assert 1e-4 < error.mean() <= TOLERANCES["int8"].mean_error


@pytest.mark.parametrize("largest", [3.0, 0.0])
def test_factors_are_rounded_to_half_a_step_at_most(largest: float) -> None:
    proto = traced(SHORT)
    factor = constants(proto)["factor"].astype(np.float64)
    values = constants(quantise_form(proto, largest=largest))
    whole = values["factor_int8"].astype(np.float64)
    assert np.abs(whole).max() == 64, "more would saturate where a CPU adds pairs in 16 bits"
    column = np.abs(factor).max(axis=1, keepdims=True) / 64
    assert np.all(np.abs(whole * column - factor) <= column * 0.5001)
    assert np.isfinite(values["factor_scale"]).all()
    assert (values["factor_scale"] > 0).all()


@pytest.mark.parametrize("config", [SHORT, GLOBAL], ids=["shared", "one covariance"])
def test_the_integer_product_is_exact_on_this_computer(config: FitConfig) -> None:
    """Brute force in 64-bit integers: a kernel that saturates in 16 bits would be far off."""
    proto = traced(config)
    form = quadratic_form(proto)
    before, after = form.input[0], form.output[0]
    proto = quantise_form(proto, largest=reach(head(config), SEEN))
    for name in (before, after, "factor_uint8"):
        kind = TensorProto.UINT8 if name == "factor_uint8" else TensorProto.FLOAT
        proto.graph.output.append(helper.make_tensor_value_info(name, kind, None))
    values = constants(proto)
    reached = set()
    for image in frames(7):
        out = run(proto, image[None])
        x = out["factor_uint8"].astype(np.int64) - 128
        scale = values["factor_step"].reshape(-1, 1, 1)
        np.testing.assert_allclose(
            x, np.clip(np.rint(out[before] / scale), -128, 127), atol=1, err_msg="the rounding"
        )
        whole = x @ values["factor_int8"].astype(np.int64)
        np.testing.assert_allclose(out[after], whole * values["factor_scale"], rtol=1e-6)
        reached |= {int(x.min()), int(x.max())}
    assert {-128, 127} <= reached, "frames that reach the ends of the range are among them"


@pytest.mark.parametrize("target", ["cpu", "trt"])
def test_int8_is_within_its_tolerance(target: str) -> None:
    proto = whole(EDGE, target)
    images = np.concatenate([UNSEEN, frames(5)[[0, 1, 3, 4]]])  # good and broken parts
    wanted = reference(EDGE, images)["map"]
    if target == "cpu":  # in the kernels that a user runs, too
        found = np.concatenate([run(proto, image[None])["map"] for image in images])
    else:
        found = run_exactly(proto, "map", images)
    error = np.abs(wanted - found) / (wanted.max() - wanted.min())
    assert 1e-4 < error.mean() <= TOLERANCES["int8"].mean_error
    assert error.max() <= TOLERANCES["int8"].max_error


@pytest.mark.parametrize("options", [GraphOptions(batch=(3, 3, 3)), GraphOptions(batch=(1, 2, 4))])
def test_graphs_of_other_batches_are_calibrated_alike(options: GraphOptions) -> None:
    config = SHORT.with_options({"share": 1, "covariance": "global"})
    if options.batch != (3, 3, 3):
        config = SHORT.with_options({"share": 1})
    images = SEEN[:4]  # not a multiple of three
    proto = traced(config, options)
    quantised = Quantiser(proto, images, target="cpu").quantise()
    wanted = reference(config, images)["map"]
    error = np.abs(run_exactly(quantised, "map", images) - wanted).mean() / np.ptp(wanted)
    assert 0 < error < 2 * TOLERANCES["int8"].mean_error


def test_the_same_images_give_the_same_bytes_and_logs_stay_as_they_were() -> None:
    root = logging.getLogger()
    before = root.level
    first, second = (whole(SHORT, "cpu").SerializeToString(deterministic=True) for _ in range(2))
    assert first == second
    assert root.level == before


@pytest.mark.parametrize(("target", "factors"), [("cpu", "int8"), ("trt", "fp16")])
def test_a_backbone_that_cannot_be_int8_stays_fp32_as_a_whole(target: str, factors: str) -> None:
    task = Task(graph=traced(SHORT), images=SEEN, target=target)
    first, second, *last = MAKERS["int8"](task)
    assert first.text == f"backbone int8, factors {factors}"
    assert second.text == f"backbone fp32, factors {factors}"
    assert [each.text for each in last] == ["backbone int8, factors fp32"] * (target == "cpu")
    proto = second.finish(head(SHORT))
    kinds = Counter(node.op_type for node in proto.graph.node)
    assert kinds["DequantizeLinear"] == 0
    assert kinds["MatMulInteger"] == (target == "cpu")
    wanted = reference(SHORT, UNSEEN)["map"]
    error = np.abs(run_exactly(proto, "map", UNSEEN) - wanted).mean() / np.ptp(wanted)
    assert error < 0.05


def test_a_head_that_cannot_be_int8_stays_fp32_behind_a_backbone_in_int8() -> None:
    *_, last = MAKERS["int8"](Task(graph=traced(SHORT), images=SEEN, target="cpu"))
    behind = head(SHORT)
    proto = last.finish(behind)
    kinds = Counter(node.op_type for node in proto.graph.node)
    assert kinds["MatMulInteger"] == 0 < kinds["DequantizeLinear"]
    embedded = run_exactly(cut(last.rounded), EMBEDDING, UNSEEN)
    model = behind.model
    grid = torch.from_numpy(embedded).mT.reshape(len(UNSEEN), -1, *model.windows.grid_hw)
    wanted, _ = model.to_image(model.mask_ignored(model.distances(grid)))
    assert np.abs(run_exactly(proto, "map", UNSEEN) - wanted.numpy()).max() < 1e-4


@pytest.mark.parametrize("target", ["cpu", "trt"])
def test_first_layers_that_reach_too_far_stay_fp32(target: str) -> None:
    proto = traced(SHORT)
    convolutions = [node for node in proto.graph.node if node.op_type == "Conv"]
    spared = first_layers(proto, 2)
    assert convolutions[1].name in spared
    assert convolutions[2].name not in spared
    assert first_layers(proto, 0) == first_layers(proto, 1)[: len(first_layers(proto, 0))]
    task = Task(graph=proto, images=SEEN, target=target, exact_layers=2)
    candidate = next(iter(MAKERS["int8"](task)))
    assert candidate.text.startswith("backbone int8 but its first 2 layers, factors ")
    weights = {node.name: node.input[1] for node in candidate.rounded.graph.node
               if node.op_type == "Conv"}  # fmt: skip
    exact = [name for name, weight in weights.items() if "Dequantize" not in weight]
    assert exact == [node.name for node in convolutions[:2]]


def test_a_backbone_that_gains_nothing_is_not_even_rounded() -> None:
    task = Task(graph=traced(SHORT), images=SEEN, target="cpu", rounds_backbone=False)
    (only,) = MAKERS["int8"](task)
    assert only.text == "backbone fp32, factors int8"
    assert only.rounded is task.graph


def test_seven_bits_do_not_saturate_in_the_kernels_of_this_computer() -> None:
    """With 127 they do, where a CPU has no VNNI: the result is half of what the graph says."""
    weight = np.full((1, 16, 8), 64, np.int8)
    x = np.full((1, 4, 16), 255, np.uint8)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(weight, "w")],
    )
    opset = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(found, np.full((1, 4, 8), 255 * 64 * 16))


def test_temporary_files_of_the_library_are_ours(monkeypatch, tmp_path):
    """After a kill the next run finds them by their names."""
    seen = []
    real = int8.save_and_reload_model_with_shape_infer
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(
        int8,
        "save_and_reload_model_with_shape_infer",
        lambda proto: (seen.append(Path(tempfile.gettempdir())), real(proto))[1],
    )
    quantised(SHORT, "cpu")
    assert [path.parent for path in seen] == [tmp_path]
    assert seen[0].name.startswith(".edgeseg~")
    assert list(tmp_path.iterdir()) == []
    assert tempfile.gettempdir() == str(tmp_path)
