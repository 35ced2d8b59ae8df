"""The fp32 graph: it says what the reference says, and holds nothing that it should not."""

import copy
import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import ModelProto, TensorProto

import edgeseg.runtime
from edgeseg.base.errors import ExportError
from edgeseg.config import FitConfig
from edgeseg.export.graph import (
    GraphOptions,
    ancestors,
    build_graph,
    clean,
    fold_scale,
    initializers,
    quadratic_form,
    quadratic_forms,
    quiet_logs,
    save_graph,
)
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.export.precision.tolerances import TOLERANCES
from edgeseg.export.sessions import backend_predictors
from edgeseg.export.verify import Agreement, VerificationFrames, agreement
from edgeseg.model.backbones import BACKBONES
from edgeseg.model.predictor import torch_predictor
from tests.support import REPO
from tests.support.export_models import (
    EDGE,
    SHORT,
    SHOWN,
    SIZE_HW,
    artefact,
    frames,
    reference,
    run,
    traced,
)

# Operators that TensorRT 10, TensorRT 11, TensorRT-RTX, ONNX Runtime and OpenVINO all take.
KNOWN = {
    "Add", "AveragePool", "Cast", "Clip", "Conv", "Gather", "HardSigmoid", "HardSwish", "MatMul",
    "MaxPool", "Mul", "ReduceMax", "ReduceMean", "ReduceSum", "Relu", "Reshape", "Resize", "Sqrt",
    "Sub", "TopK", "Transpose",
    "Concat", "Div", "Pow", "Slice", "Split",  # of a map of its own
}  # fmt: skip
BATCH3 = GraphOptions(batch=(3, 3, 3))
DYNAMIC = GraphOptions(batch=(1, 2, 4))
WIDE = {"size_hw": (64, 96)}
PAPER = FitConfig.preset("paper").with_options({"size_hw": SIZE_HW, "k": 16})
VARIANTS = {
    "one Gaussian a cell, wide": (SHORT.with_options({"share": 1, **WIDE}), GraphOptions()),
    "nearest, batch of 3": (SHORT.with_options({"interpolation": "nearest"}), BATCH3),
    "any batch, shared": (SHORT.with_options(WIDE), DYNAMIC),
    "any batch, one a cell": (SHORT.with_options({"share": 1}), DYNAMIC),
    "any batch, own map": (SHOWN.with_options(WIDE), DYNAMIC),
    "batches from 2, no grid": (SHORT, GraphOptions(batch=(2, 3, 4), grid_output=False)),
    "one covariance, batch of 3": (
        SHORT.with_options({"share": 1, "covariance": "global"}),
        BATCH3,
    ),
    "paper": (PAPER, GraphOptions()),
}


def compare(
    tmp_path: Path, config: FitConfig, options: GraphOptions = DYNAMIC, *, proto: ModelProto
) -> list[Agreement]:
    """The graph in every backend against the reference, on frames of every kind."""
    path = tmp_path / "graph.onnx"
    save_graph(proto, path)
    images = frames(7, size_hw=config.size_hw)
    predict = torch_predictor(artefact(config).model())
    scores = np.sort([predict(image[None])[1][0] for image in images])
    limit = float(scores[2:4].mean())  # some frames on either side
    backends = backend_predictors(path, precision="fp32", target="cpu", batch=options.batch)
    assert set(backends) == {"ONNX Runtime", "OpenVINO"}
    return [
        agreement(
            predict,
            open_predictor(),
            VerificationFrames(images=images, source="test"),
            backend=name,
            thresholds=(limit, limit),
            tolerance=TOLERANCES["fp32"],
        )
        for name, open_predictor in backends.items()
    ]


def operators(proto: ModelProto) -> set[str]:
    return {node.op_type for node in proto.graph.node}


@pytest.mark.parametrize("name", list(BACKBONES))
def test_every_backbone_agrees_with_the_reference(tmp_path: Path, name: str) -> None:
    # The widest one is cut behind its second layer: tracing it takes as long as all the others.
    config = (SHORT if name == "wide_resnet50_2" else EDGE).with_options({"backbone": name})
    proto = traced(config)
    for row in compare(tmp_path, config, GraphOptions(), proto=proto):
        assert row.passed, row
        assert row.max_error <= 1e-3
        assert row.flips == 0
    assert operators(proto) <= KNOWN
    convolutions = sum(
        isinstance(module, torch.nn.Conv2d) for module in artefact(config).backbone.modules()
    )
    found = [node for node in proto.graph.node if node.op_type == "Conv"]
    assert len(found) == convolutions + len(config.layers), "and one projection a layer"
    one = frames(3)[1:2]
    found, wanted = run(proto, one), reference(config, one)
    assert list(found) == list(wanted)
    assert ("map_grid" in found) == name.startswith("efficientnet_lite")
    for output in set(found) & {"grid", "map_grid"}:
        np.testing.assert_allclose(found[output], wanted[output], rtol=1e-3)


@pytest.mark.parametrize("name", list(VARIANTS))
def test_every_kind_of_model_and_batch_agrees(tmp_path: Path, name: str) -> None:
    config, options = VARIANTS[name]
    proto = traced(config, options)
    for row in compare(tmp_path, config, options, proto=proto):
        assert row.passed, row
        assert row.flips == 0
    assert operators(proto) <= KNOWN
    low, _, high = options.batch
    side = proto.graph.input[0].type.tensor_type.shape.dim[0]
    assert (side.dim_value, bool(side.dim_param)) == ((low, False) if low == high else (0, True))
    height, width = (cells // config.share for cells in config.grid_hw)
    blocks = 1 if config.covariance == "global" else height * width
    rank = 16 if config == PAPER else 10
    assert initializers(proto)["factor"].dims == [blocks, 16, rank]


@pytest.mark.parametrize(
    "name", ["any batch, shared", "any batch, one a cell", "any batch, own map"]
)
def test_a_batch_gives_the_maps_of_its_frames(name: str) -> None:
    config, options = VARIANTS[name]
    proto = traced(config, options)
    images = frames(4, size_hw=config.size_hw)
    single = [run(proto, image[None]) for image in images]
    for count in range(1, 5):
        together = run(proto, images[:count])
        assert set(together) >= {"map", "score", "grid"}
        for key in together:
            wanted = np.concatenate([outputs[key] for outputs in single[:count]])
            assert together[key].shape == wanted.shape
            np.testing.assert_allclose(together[key], wanted, rtol=1e-4, atol=1e-5)


def test_the_signature_is_the_contract() -> None:
    proto = traced(*VARIANTS["any batch, one a cell"])
    (entry,) = proto.graph.input
    assert entry.name == "frames"
    assert entry.type.tensor_type.elem_type == TensorProto.UINT8
    assert [side.dim_value for side in entry.type.tensor_type.shape.dim][1:] == [64, 64, 3]
    assert [value.name for value in proto.graph.output] == ["map", "score", "grid", "apart"]
    assert {value.type.tensor_type.elem_type for value in proto.graph.output} == {TensorProto.FLOAT}
    shapes = [len(value.type.tensor_type.shape.dim) for value in proto.graph.output]
    assert shapes == [3, 1, 3, 3]
    assert [(entry.domain, entry.version) for entry in proto.opset_import] == [("", 18)]


def test_the_maps_own_cells_are_an_output_beside_the_scores() -> None:
    proto = traced(*VARIANTS["any batch, own map"])
    names = ["map", "score", "grid", "map_grid", "apart"]
    assert [value.name for value in proto.graph.output] == names
    sides = [len(value.type.tensor_type.shape.dim) for value in proto.graph.output]
    assert sides == [3, 1, 3, 3, 3]
    assert [form.input[1] for form in quadratic_forms(proto)] == ["factor", "map_factor"]
    assert quadratic_form(proto).input[1] == "factor"
    both = traced(SHOWN, GraphOptions(grid_output=False))
    assert [value.name for value in both.graph.output] == ["map", "score"]


@pytest.mark.parametrize("backend", ["cpu", "openvino"])
def test_every_backend_gives_the_maps_own_cells(tmp_path: Path, backend: str) -> None:
    path, images = tmp_path / "part.onnx", frames(8)
    export_onnx(artefact(SHOWN), path, options=ExportOptions(verify=False))
    wanted = reference(SHOWN, images)
    with edgeseg.runtime.open(path, backend=backend) as detector:
        found = [detector.score(image) for image in images]
    for name, values in (
        ("map", [each.map_hw for each in found]),
        ("grid", [each.grid_hw for each in found]),
        ("map_grid", [each.map_grid_hw for each in found]),
    ):
        close = {"rtol": 1e-3, "atol": 1e-4 * float(wanted[name].max())}
        np.testing.assert_allclose(np.stack(values), wanted[name], **close)
    np.testing.assert_allclose([each.score for each in found], wanted["score"], rtol=1e-3)


def test_the_grid_may_be_left_out() -> None:
    config, options = VARIANTS["batches from 2, no grid"]
    proto = traced(config, options)
    assert [value.name for value in proto.graph.output] == ["map", "score"]
    two = frames(2)
    wanted = reference(config, two)["map"]
    np.testing.assert_allclose(run(proto, two)["map"], wanted, rtol=1e-3, atol=1e-4)


def test_batches_that_make_no_sense() -> None:
    for batch in [(0, 1, 1), (2, 1, 3), (1, 3, 2)]:
        with pytest.raises(ExportError, match=r"batch \(.*expected min <= opt <= max, from 1"):
            GraphOptions(batch=batch)


@pytest.mark.parametrize("name", ["resnet18", "efficientnet_lite0", "efficientnet_lite2"])
def test_the_scale_moves_into_the_first_convolution_exactly(name: str) -> None:
    model = artefact(EDGE.with_options({"backbone": name})).model()
    folded = copy.deepcopy(model)
    fold_scale(folded)
    assert folded.preprocess.scale is None
    first = next(iter(conv for conv in folded.backbone.modules() if hasattr(conv, "stride")))
    own = next(iter(conv for conv in model.backbone.modules() if hasattr(conv, "stride")))
    images = torch.from_numpy(frames(7))
    apart, together = own(model.preprocess(images)), first(folded.preprocess(images))
    # Rounding alone, in every pixel: a border where padding were not the mean colour would show.
    torch.testing.assert_close(together, apart, rtol=1e-5, atol=1e-5)
    edges = torch.cat([(together - apart)[..., 0, :], (together - apart)[..., :, -1]], dim=-1)
    assert float(edges.abs().max()) < 1e-5
    fold_scale(folded)
    torch.testing.assert_close(folded(images)[0], model(images)[0], rtol=1e-3, atol=1e-4)


def test_with_and_without_folding_the_graph_is_the_same() -> None:
    images = frames(3)
    folded, apart = traced(), traced(EDGE, GraphOptions(fold_scale=False))
    kinds = [[node.op_type for node in proto.graph.node] for proto in (folded, apart)]
    assert kinds[1].count("Mul") == kinds[0].count("Mul") + 1
    for image in images:
        found, wanted = run(folded, image[None])["map"], run(apart, image[None])["map"]
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(found[..., :4], wanted[..., :4], rtol=1e-3, atol=1e-4)


def test_nothing_of_this_computer_is_in_the_file() -> None:
    proto = traced()
    for tensor in proto.graph.initializer:
        tensor.ClearField("raw_data")  # any three letters are somewhere among the weights
    data = proto.SerializeToString(deterministic=True)
    assert b"node_" in data
    home = str(Path.home() / "x").encode()[:-1]
    for word in (b".py", b"site-packages", b"Traceback", b'File "', b"pkg.torch", b"/tmp/", home):
        assert word not in data, word
    assert str(REPO).encode() not in data
    for node in traced().graph.node:
        assert node.doc_string == ""
        assert not node.metadata_props


def test_the_same_model_gives_the_same_bytes_again() -> None:
    again = build_graph(artefact(SHORT).model(), GraphOptions(), size_hw=SIZE_HW)
    first = traced(SHORT).SerializeToString(deterministic=True)
    assert again.SerializeToString(deterministic=True) == first


def test_passes_find_the_quadratic_form_and_what_is_in_front_of_it() -> None:
    proto = traced(SHORT)
    form = quadratic_form(proto)
    assert form.op_type == "MatMul"
    assert "factor" in form.input
    before = ancestors(proto, form.output[0])
    assert before[-1].output[0] == form.output[0]
    assert sum(node.op_type == "Conv" for node in before) == 12
    assert {node.op_type for node in proto.graph.node} - {node.op_type for node in before} == {
        "ReduceSum", "Sqrt", "TopK", "ReduceMean", "Mul"
    }  # fmt: skip
    del proto.graph.node[:]
    with pytest.raises(ExportError, match="no quadratic form; it is not one that edgeseg traced"):
        quadratic_form(proto)


def test_an_invalid_graph_is_refused() -> None:
    proto = traced(SHORT)
    proto.graph.node[3].op_type = "Nonsense"
    with pytest.raises(ExportError, match=r"the graph is not valid ONNX: .*Nonsense"):
        clean(proto)
    proto = traced(SHORT)
    proto.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 63
    with pytest.raises(ExportError, match="the graph is not valid ONNX"):
        clean(proto)


def test_logs_are_as_loud_afterwards_as_before() -> None:
    logger = logging.getLogger("onnxscript")
    before = logger.level
    inside = []

    def fails() -> None:
        with quiet_logs("onnxscript"):
            inside.append(logger.level)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert inside == [logging.ERROR]
    assert logger.level == before
