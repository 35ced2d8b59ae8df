"""TensorRT-RTX really compiles the graphs of three backbones in three precisions."""

from collections import Counter
from pathlib import Path

import pytest
from onnx import ModelProto

from edgeseg.export.engine.build import build_engine
from edgeseg.export.engine.options import EngineOptions
from edgeseg.export.graph import GraphOptions, save_graph, set_metadata
from edgeseg.export.precision.half import HalfPlan, to_half
from edgeseg.export.precision.int8 import Quantiser
from edgeseg.export.precision.makers import half_form
from edgeseg.model.model_metadata import describe_model
from edgeseg.runtime.backends.inspect_file import describe
from tests.support.export_models import EDGE, artefact, good_frames, traced

pytest.importorskip("tensorrt_rtx", reason="needs TensorRT-RTX: pip install edgeseg[trt-rtx]")

SM86 = EngineOptions(builder="rtx", targets=("sm86",))


def make_graph(name: str, precision: str) -> ModelProto:
    """What `edgeseg export --trt` compiles, whatever int8 makes of weights no one trained."""
    config = EDGE.with_options({"backbone": name})
    if precision == "fp16":
        return to_half(traced(config, GraphOptions(fold_scale=False)), HalfPlan(embedding=True))
    graph = traced(config)
    if precision == "fp32":
        return graph
    images = good_frames(4)
    return half_form(Quantiser(graph, images, target="trt").quantise())


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "efficientnet_lite0"])
def test_a_plan_for_sm86(tmp_path: Path, name: str, precision: str) -> None:
    graph = make_graph(name, precision)
    onnx_path, plan = tmp_path / "part.onnx", tmp_path / "part.plan"
    metadata = describe_model(
        artefact(EDGE.with_options({"backbone": name})),
        artefact_sha256="",
        precision=precision,
        target="trt",
        batch=(1, 1, 1),
        outputs=["map", "score", "grid"],
    )
    set_metadata(graph, metadata)
    save_graph(graph, onnx_path)
    told = build_engine(onnx_path, plan, metadata=metadata, options=SM86)
    assert plan.read_bytes().startswith(b"vtrt")
    assert told.plan is not None
    assert (told.plan.precision, told.plan.targets) == (precision, ("sm86",))
    kinds = Counter(describe(plan)["operators"])
    assert (kinds["QuantizeLinear"] > 10) == (precision == "int8")
    print(  # shown by pytest -s: the figures of the three backbones
        f"{name} {precision}: graph {onnx_path.stat().st_size / 1e6:.2f} MB, plan "
        f"{plan.stat().st_size / 1e6:.2f} MB in {told.plan.build_seconds:.2f} s"
    )
