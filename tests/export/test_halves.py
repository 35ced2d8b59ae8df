"""A graph cut behind the backbone's taps: both halves together are the whole."""

import io
from functools import cache

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from edgeseg.base.errors import ExportError
from edgeseg.export.graph import GraphOptions, ancestors, build_graph
from edgeseg.export.halves import GraphHalves, halve_graph, plain_pooling
from edgeseg.runtime.accelerators.cuts import cut_for
from edgeseg.runtime.accelerators.sections import SECTIONS, sections
from edgeseg.runtime.accelerators.tables import accelerators
from edgeseg.runtime.backends.onnx_outline import parse_outline
from edgeseg.runtime.backends.split_facts import KEY, split_sha256
from tests.support.export_models import EDGE, SHORT, frames, run, traced
from tests.support.variants import WITH_MAP, two_colours

PAPER = SHORT.with_options(
    {"interpolation": "nearest", "share": 1, "rank": 0, "top": 1, "pool": 1, "context": 3}
)
LITE = EDGE.with_options({"backbone": "efficientnet_lite0", "map_layers": (1, 2)})
# ResNet, EfficientNet-Lite and MobileNet: one of each family, and all that a head can have.
MODELS = {"paper": PAPER, "lite": LITE, "variants": WITH_MAP}
PLAIN = {
    *("Conv", "Relu", "Clip", "Add", "MaxPool", "Mul"),
    *("HardSwish", "HardSigmoid", "GlobalAveragePool"),
}


@cache
def _whole(name: str) -> ModelProto:
    if name == "variants":
        model = two_colours(WITH_MAP).model()
        return build_graph(model, GraphOptions(), size_hw=WITH_MAP.size_hw)
    return traced(MODELS[name])


@cache
def halves(name: str) -> GraphHalves:
    return halve_graph(_whole(name))


def places(name: str) -> list[str]:
    found = sections(parse_outline(io.BytesIO(_whole(name).SerializeToString())))
    assert found is not None
    return found


def session(graph: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def in_sequence(cut: GraphHalves, images: NDArray[np.uint8]) -> dict[str, NDArray[np.float32]]:
    first, second = session(cut.backbone), session(cut.head.SerializeToString())
    taps = [tap.name for tap in cut.facts.taps]
    pixels = {cut.facts.pixels.name: cut.facts.normalise(images)}
    values = dict(zip(taps, first.run(taps, pixels), strict=True))
    names = [output.name for output in second.get_outputs()]
    return dict(zip(names, second.run(names, values), strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_the_halves_together_are_the_whole(name: str) -> None:
    cut, whole = halves(name), _whole(name)
    for frame in frames(5):
        wanted, found = run(whole, frame[None]), in_sequence(cut, frame[None])
        assert list(found) == list(wanted)
        for output, values in wanted.items():
            span = max(float(np.abs(values).max()), 1.0)
            np.testing.assert_allclose(found[output], values, atol=2e-5 * span, err_msg=output)


@pytest.mark.parametrize("name", MODELS)
def test_the_backbone_is_a_plain_network_of_fixed_shapes(name: str) -> None:
    cut = halves(name)
    graph = onnx.load_from_string(cut.backbone).graph
    assert {node.op_type for node in graph.node} <= PLAIN
    (pixels,) = graph.input
    assert (pixels.name, shape(pixels)) == ("pixels", (1, 3, 64, 64))
    assert pixels.type.tensor_type.elem_type == TensorProto.FLOAT
    assert [(tap.name, tap.shape) for tap in cut.facts.taps] == [
        (output.name, shape(output)) for output in graph.output
    ]
    assert (
        [tap.name for tap in cut.facts.taps]
        == [value.name for value in cut.head.graph.input]
        == [f"tap_{number}" for number in range(1, len(cut.facts.taps) + 1)]
    )
    made = {name for node in graph.node for name in node.output}
    assert not made & {initial.name for initial in cut.head.graph.initializer}


def shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)


@pytest.mark.parametrize("name", MODELS)
def test_every_constant_is_in_one_half(name: str) -> None:
    cut = halves(name)
    backbone = {each.name for each in onnx.load_from_string(cut.backbone).graph.initializer}
    head = {each.name for each in cut.head.graph.initializer}
    weights = {each.name for each in _whole(name).graph.initializer if "backbone." in each.name}
    assert weights <= backbone, "all of the network's weights"
    assert not weights & head
    assert "factor" in head - backbone


@pytest.mark.parametrize("name", MODELS)
def test_sections_follow_the_data(name: str) -> None:
    """Against the names of the exporter's constants and onnx's own order."""
    proto, found = _whole(name), places(name)
    nodes = list(zip(proto.graph.node, found, strict=True))
    assert [node.op_type for node, place in nodes if place == SECTIONS[0]] == [
        "Cast",
        "Sub",
        "Transpose",
    ]
    for prefix, place in (("backbone.", "backbone"), ("embedding.", "embedding")):
        readers = {at for node, at in nodes if any(i.startswith(prefix) for i in node.input)}
        assert readers == {place}
    assert {at for node, at in nodes if "factor" in node.input} == {"head"}
    assert {at for node, at in nodes if "rows" in node.input} == {"map"}
    order = [SECTIONS.index(place) for place in found]
    makers = {
        out: at for node, at in zip(proto.graph.node, order, strict=True) for out in node.output
    }
    for (node, _), at in zip(nodes, order, strict=True):
        assert all(makers[name] <= at for name in node.input if name in makers), node.name
    needed = {node.name for node in ancestors(proto, "grid")}
    assert not needed & {node.name for node, place in nodes if place == "map"}


def test_a_fit_of_other_images_has_the_same_backbone() -> None:
    """Heads of several products may share one file on the accelerator."""
    one, two = halves("paper"), halve_graph(traced(PAPER.with_options({"k": 12, "seed": 5})))
    assert one.facts.backbone_sha256 == two.facts.backbone_sha256
    assert one.backbone == two.backbone
    assert one.head.SerializeToString() != two.head.SerializeToString()
    assert halves("lite").facts.backbone_sha256 != one.facts.backbone_sha256


def test_the_same_graph_gives_the_same_bytes() -> None:
    again = halve_graph(traced(PAPER))
    assert again.backbone == halves("paper").backbone
    assert again.head.SerializeToString(deterministic=True) == halves(
        "paper"
    ).head.SerializeToString(deterministic=True)


def test_the_hash_is_that_of_the_file_without_the_facts() -> None:
    cut = halves("paper")
    model = onnx.load_from_string(cut.backbone)
    (entry,) = model.metadata_props
    assert entry.key == KEY
    del model.metadata_props[:]
    bare = model.SerializeToString(deterministic=True)
    assert split_sha256(io.BytesIO(bare)) == cut.facts.backbone_sha256
    assert split_sha256(io.BytesIO(cut.backbone)) == cut.facts.backbone_sha256


def test_a_fixed_batch_is_the_batch_of_both() -> None:
    whole = traced(PAPER, GraphOptions(batch=(3, 3, 3)))
    cut = halve_graph(whole)
    assert cut.facts.pixels.shape == (3, 3, 64, 64)
    images = frames(3)
    for name, values in run(whole, images).items():
        np.testing.assert_allclose(in_sequence(cut, images)[name], values, rtol=1e-4, atol=1e-4)


def pooled(order: NDArray[np.int64], *, axes: tuple[int, ...] = (2, 3)) -> ModelProto:
    """A mean over the sides, as the exporter of torch writes it, or something near it."""
    constants = {"axes": np.array(axes), "flat": np.array([-1]), "order": order}
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["mean"], keepdims=0),
        helper.make_node("Reshape", ["mean", "flat"], ["row"]),
        helper.make_node("Gather", ["row", "order"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 6, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, list(order.shape))],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize(
    ("order", "axes", "plain"),
    [
        (np.arange(12).reshape(2, 6, 1, 1), (2, 3), True),
        (np.arange(12).reshape(2, 6, 1, 1), (-1, -2), True),
        (np.arange(12)[::-1].reshape(2, 6, 1, 1).copy(), (2, 3), False),
        (np.arange(12).reshape(2, 6, 1, 1), (1, 3), False),
        (np.arange(12).reshape(2, 1, 6, 1), (2, 3), False),
    ],
)
def test_a_pooling_is_written_as_one(
    order: NDArray[np.int64], axes: tuple[int, ...], plain: bool
) -> None:
    x = np.random.default_rng(0).normal(size=(2, 6, 6, 6)).astype(np.float32)
    before = pooled(order, axes=axes)
    wanted = session(before.SerializeToString()).run(None, {"x": x})[0]
    after = plain_pooling(before)
    assert [node.op_type for node in after.graph.node] == (
        ["GlobalAveragePool"] if plain else ["ReduceMean", "Reshape", "Gather"]
    )
    found = session(after.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_who_takes_the_backbone_is_as_the_document_says(name: str) -> None:
    outline = parse_outline(io.BytesIO(_whole(name).SerializeToString()))
    cuts = {each.key: cut_for(each, outline, places(name)) for each in accelerators()}
    whole = {key for key, cut in cuts.items() if cut.at_taps}
    assert whole == ({"rknn", "qnn"} if name == "variants" else {"hailo", "rknn", "coral", "qnn"})
    assert cuts["tensorrt"].whole
    for key in whole:
        assert [each.sides for each in cuts[key].tensors] == [
            tap.shape for tap in halves(name).facts.taps
        ]


def test_a_graph_that_scales_its_input_is_not_cut() -> None:
    """The file says one offset and no scale."""
    with pytest.raises(ExportError, match="no backbone in fp32 that could be cut off"):
        halve_graph(traced(PAPER, GraphOptions(fold_scale=False)))
