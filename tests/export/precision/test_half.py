"""fp16: the types that were promised, where they were promised, and what is too large for it."""

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from edgeseg.base.errors import ExportError
from edgeseg.export.graph import GraphOptions, initializers, quadratic_form, quadratic_forms
from edgeseg.export.precision.half import HalfPlan, emulate_half, to_half
from edgeseg.export.precision.int8 import run_exactly
from edgeseg.export.precision.makers import MAKERS, Head, Task
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

APART = GraphOptions(fold_scale=False)
ALL, FACTORS = HalfPlan(embedding=True), HalfPlan(embedding=False, backbone=False)
BACKBONE = HalfPlan(embedding=False)
HALF, FLOAT = TensorProto.FLOAT16, TensorProto.FLOAT


def types(proto: ModelProto) -> dict[str, int]:
    """The element type of every tensor; shape inference has left them in the graph."""
    found = {tensor.name: tensor.data_type for tensor in proto.graph.initializer}
    for value in [*proto.graph.input, *proto.graph.output, *proto.graph.value_info]:
        found[value.name] = value.type.tensor_type.elem_type
    return found


def mean_of(proto: ModelProto) -> str:
    """The name of the constant that is subtracted from the embedding."""
    return [node.input[1] for node in proto.graph.node if node.op_type == "Sub"][-1]


def weights_of(proto: ModelProto) -> dict[str, str]:
    """The kernel of every convolution, by the name of the node."""
    return {node.name: node.input[1] for node in proto.graph.node if node.op_type == "Conv"}


@pytest.mark.parametrize("plan", [ALL, BACKBONE, FACTORS], ids=["all", "backbone", "factors"])
def test_every_tensor_has_the_type_that_the_plan_says(plan: HalfPlan) -> None:
    proto = to_half(traced(EDGE, APART), plan)
    found = types(proto)
    form = quadratic_form(proto)
    assert found["factor"] == HALF
    assert [found[name] for name in (*form.input, *form.output)] == [HALF] * 3
    for name in weights_of(proto).values():
        projection = name.startswith("embedding.kernel_")
        assert found[name] == (HALF if (plan.embedding if projection else plan.backbone) else FLOAT)
    assert found[mean_of(proto)] == (HALF if plan.embedding else FLOAT)
    assert [found[value.name] for value in proto.graph.output] == [FLOAT] * 4
    assert found["frames"] == TensorProto.UINT8
    kinds = [{node.op_type for node in graph.graph.node} for graph in (proto, traced(EDGE, APART))]
    assert kinds[0] == kinds[1], "no operator that fp32 does not have"


@pytest.mark.parametrize("plan", [ALL, BACKBONE, FACTORS], ids=["all", "backbone", "factors"])
def test_squares_are_added_in_fp32_and_everything_behind_them_is(plan: HalfPlan) -> None:
    proto = to_half(traced(EDGE, APART), plan)
    found = types(proto)
    places = [node.op_type for node in proto.graph.node]
    behind = list(proto.graph.node)[places.index("ReduceSum") - 1 :]
    assert [node.op_type for node in behind[:3]] == ["Mul", "ReduceSum", "Sqrt"]
    for node in behind:
        if node.output[0] == "apart":  # of the embedding: cast back for whoever tells kinds
            continue
        floats = {found[name] for name in (*node.input, *node.output)} & {FLOAT, HALF}
        assert floats <= {FLOAT}, node.name
    assert found["rows"] == found["columns"] == FLOAT


def test_the_input_is_normalised_in_fp32_and_scales_of_resize_stay_fp32() -> None:
    proto = to_half(traced(EDGE, APART), ALL)
    found = types(proto)
    for node in proto.graph.node:
        if node.op_type == "Sub" and "preprocess.offset" in node.input:
            assert found[node.output[0]] == FLOAT
        if node.op_type == "Resize":
            assert found[node.input[0]] == HALF
            assert found[node.input[2]] == FLOAT
    casts = [node for node in proto.graph.node if node.op_type == "Cast"]
    assert len(casts) == 4, "uint8 to fp32, to fp16 in front of the first layer, and back twice"


def test_the_original_is_left_alone() -> None:
    proto = traced(SHORT)
    before = proto.SerializeToString(deterministic=True)
    to_half(proto, ALL)
    assert proto.SerializeToString(deterministic=True) == before


def test_fp16_agrees_within_its_tolerance() -> None:
    proto = to_half(traced(EDGE, APART), ALL)
    images = frames(7)
    wanted = reference(EDGE, images)
    found = {
        name: np.concatenate([run(proto, image[None])[name] for image in images])
        for name in ("map", "score")
    }
    span = wanted["map"].max() - wanted["map"].min()
    error = np.abs(wanted["map"] - found["map"]) / span
    assert 1e-5 < error.max() <= TOLERANCES["fp16"].max_error, "rounded, and not by much"
    assert error.mean() <= TOLERANCES["fp16"].mean_error
    np.testing.assert_allclose(found["score"], wanted["score"], rtol=0.02)


@pytest.mark.parametrize("plan", [ALL, BACKBONE, FACTORS], ids=["all", "backbone", "factors"])
def test_both_products_of_a_map_of_its_own_are_fp16_and_what_follows_is_fp32(
    plan: HalfPlan,
) -> None:
    proto = to_half(traced(SHOWN), plan)
    found = types(proto)
    for form in quadratic_forms(proto):
        assert [found[name] for name in (*form.input, *form.output)] == [HALF] * 3
    assert found["map_weight"] == found["counted"] == FLOAT
    for node in proto.graph.node:
        if node.op_type in ("ReduceSum", "Sqrt", "Pow", "Div"):
            assert {found[name] for name in node.output} == {FLOAT}, node.name
    images = frames(7)
    wanted = reference(SHOWN, images)
    for name in ("map", "grid", "map_grid"):
        values = run_exactly(proto, name, images)
        span = float(np.ptp(wanted[name]))
        assert float(np.abs(values - wanted[name]).mean()) <= TOLERANCES["fp16"].mean_error * span


@pytest.mark.parametrize("name", ["factor", "the mean", "embedding.kernel_1"])
def test_a_constant_beyond_fp16_is_refused_by_name(name: str) -> None:
    proto = traced(SHORT)
    name = mean_of(proto) if name == "the mean" else name
    tensor = initializers(proto)[name]
    values = numpy_helper.to_array(tensor).copy()
    values.flat[3] = -70000.0
    tensor.CopyFrom(numpy_helper.from_array(values, name))
    with pytest.raises(ExportError) as caught:
        to_half(proto, ALL)
    assert str(caught.value) == f"{name} reaches 7e+04, beyond fp16; export with precision=fp32"


def test_a_graph_without_projections_is_refused() -> None:
    proto = traced(SHORT)
    for node in proto.graph.node:
        if node.op_type == "Conv" and node.input[1].startswith("embedding."):
            node.input[1] = node.input[1].replace("embedding.", "other.")
    for tensor in proto.graph.initializer:
        tensor.name = tensor.name.replace("embedding.", "other.")
    with pytest.raises(ExportError, match="no projection; it is not one that edgeseg traced"):
        to_half(proto, BACKBONE)


def test_an_output_in_front_of_the_form_stays_fp32() -> None:
    """What kinds and reasons are told by is made in fp16, and given in fp32."""
    images = good_frames(2)
    exact, half = run(traced(SHORT), images[:1]), run(to_half(traced(SHORT), ALL), images[:1])
    assert half["apart"].dtype == np.float32
    np.testing.assert_allclose(half["apart"], exact["apart"], atol=0.01 * np.ptp(exact["apart"]))


def test_more_and_more_returns_to_fp32() -> None:
    task = Task(graph=traced(EDGE, APART), images=good_frames(4), target="cpu")
    model = artefact().model()
    head = Head(model=model, embed=model.embeddings)
    candidates = list(MAKERS["fp16"](task))
    assert [candidate.text for candidate in candidates] == [ALL.text, BACKBONE.text, FACTORS.text]
    wanted = reference(EDGE, task.images)["map"]
    errors = []
    for candidate, mean in zip(candidates, (HALF, FLOAT, FLOAT), strict=True):
        proto = candidate.finish(head)
        assert (types(proto)["factor"], types(proto)[mean_of(proto)]) == (HALF, mean)
        errors.append(float(np.abs(run_exactly(proto, "map", task.images) - wanted).mean()))
    assert errors[2] < 0.3 * errors[1]


def test_results_are_rounded_as_a_gpu_would_round_them() -> None:
    half = to_half(traced(SHORT), ALL)
    wide = emulate_half(half)
    form = quadratic_form(half)
    name = form.output[0]
    wide.graph.output.append(helper.make_tensor_value_info(name, FLOAT, None))
    found = run_exactly(wide, name, frames(2))
    np.testing.assert_array_equal(found, found.astype(np.float16).astype(np.float32))
    assert all(kind != HALF for kind in (tensor.data_type for tensor in wide.graph.initializer))
    untouched = traced(SHORT)
    assert emulate_half(untouched) is untouched, "nothing to round"
