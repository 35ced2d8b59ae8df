"""Exported models of variants: every backend and precision names the variant of the reference."""

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

import edgeseg.runtime
from edgeseg.api import Model
from edgeseg.base.errors import ExportError, UsageError, VerificationError
from edgeseg.data.datasets import open_dataset
from edgeseg.decision.judgement import JudgedPrediction
from edgeseg.export.calibration_frames import calibration_frames
from edgeseg.export.exported import Exported
from edgeseg.export.graph import GraphOptions, build_graph, check_graph
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.export.precision.half import HalfPlan, to_half
from edgeseg.export.precision.tolerances import TOLERANCES
from edgeseg.export.triton_repository import triton_config
from edgeseg.export.verify import VerificationFrames, agreement
from edgeseg.fitting.graph.model_writing import write_model
from edgeseg.model.predictor import VariantScores, variant_predictor
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.backends.inspect_file import describe
from tests.support.export_models import COARSE, SHORT
from tests.support.variants import COLOURS, WITH_MAP, coloured, colours, two_colours

CONFIG = SHORT.with_options({"map_layers": (1,)})
RANDOM_WEIGHTS = {"allow_random_weights": True}


def exported(
    path: Path, *, precision: str = "fp32", batch: tuple[int, int, int] = (1, 1, 1)
) -> Exported:
    good = None if precision == "fp32" else open_dataset(colours(), variants=True)
    options = ExportOptions(precision=precision, batch=batch, allow_random_weights=True)
    return export_onnx(two_colours(CONFIG), path, options=options, good=good)


def by_detector(path: Path, backend: str) -> dict[str, JudgedPrediction]:
    with edgeseg.runtime.open(path, backend=backend, threads=1, **RANDOM_WEIGHTS) as detector:
        return {colour: detector.predict(coloured(colour, 70)) for colour in COLOURS}


def test_fp32_is_the_reference_in_every_backend(tmp_path: Path) -> None:
    done = exported(tmp_path / "m.onnx", batch=(1, 2, 4))
    assert done.metadata.variants == ("blue", "red")
    assert done.metadata.outputs == ("map", "score", "grid", "map_grid", "variant", "apart")
    assert [row.other_variants for row in done.agreements] == [0] * len(done.agreements)
    model = Model(two_colours(CONFIG))
    for backend in ("cpu", "openvino"):
        for colour, found in by_detector(tmp_path / "m.onnx", backend).items():
            wanted = model.predict(coloured(colour, 70))
            assert found.variant == wanted.variant == colour
            assert found.score == pytest.approx(wanted.score, rel=1e-3)
            np.testing.assert_allclose(found.map_hw, wanted.map_hw, rtol=1e-2, atol=1e-2)


def test_frames_of_a_batch_are_of_different_variants(tmp_path: Path) -> None:
    exported(tmp_path / "m.onnx", batch=(4, 4, 4))
    with edgeseg.runtime.open(tmp_path / "m.onnx", backend="cpu", **RANDOM_WEIGHTS) as detector:
        frames = np.stack([coloured(colour, 70) for colour in ("red", "blue", "blue", "red")])
        named = [prediction.variant for prediction in detector._session.infer(frames)]
    assert named == ["red", "blue", "blue", "red"]


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_rounded_files_are_fitted_again_with_their_variants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    monkeypatch.setitem(TOLERANCES, precision, COARSE)
    done = exported(tmp_path / "m.onnx", precision=precision)
    assert [row.other_variants for row in done.agreements] == [0] * len(done.agreements)
    assert {colour: each.variant for colour, each in by_detector(done.path, "cpu").items()} == {
        colour: colour for colour in COLOURS
    }


def types_of(graph: ModelProto) -> dict[str, int]:
    values = [*check_graph(graph).graph.value_info, *graph.graph.output]
    return {value.name: value.type.tensor_type.elem_type for value in values}


def test_the_choice_stays_in_fp32_where_all_else_is_half() -> None:
    fitted = two_colours(CONFIG)
    graph = build_graph(fitted.model(), GraphOptions(), size_hw=CONFIG.size_hw)
    half = to_half(graph, HalfPlan(embedding=True))
    (product,) = (node for node in half.graph.node if "variant_weight" in node.input)
    (taken,) = (node for node in half.graph.node if "variant_means" in node.input)
    types = types_of(half)
    assert types[product.output[0]] == TensorProto.FLOAT
    assert types[taken.output[0]] == TensorProto.FLOAT16
    assert types["variant"] == TensorProto.INT64


def test_a_file_that_names_another_variant_is_refused() -> None:
    fitted = two_colours(CONFIG)
    reference = variant_predictor(fitted.model())
    frames = np.stack([coloured(colour, index) for colour in COLOURS for index in range(4)])

    def confused(images: np.ndarray) -> VariantScores:
        right = reference(images)
        return right._replace(variants=1 - right.variants)

    rows = [
        agreement(
            reference,
            candidate,
            VerificationFrames(images=frames, source="test"),
            backend="test",
            thresholds=(1.0, 1.0),
            tolerance=TOLERANCES["fp32"],
        )
        for candidate in (reference, confused)
    ]
    assert [(row.passed, row.other_variants) for row in rows] == [(True, 0), (False, 8)]
    assert rows[1].failures == ("frames taken for another variant 8, expected <= 0",)


def test_images_to_calibrate_on_are_of_all_variants(tmp_path: Path) -> None:
    good = open_dataset(colours(), variants=True)
    first, second = calibration_frames(good, two_colours(CONFIG).config)[:2]
    assert first[..., 2].mean() > first[..., 0].mean(), "blue"
    assert second[..., 0].mean() > second[..., 2].mean(), "red"
    options = ExportOptions(precision="int8", allow_random_weights=True)
    with pytest.raises(UsageError, match="a folder of each, as in the fit"):
        export_onnx(
            two_colours(CONFIG), tmp_path / "m.onnx", options=options, good=open_dataset(colours())
        )


def test_what_a_file_says_of_its_variants(tmp_path: Path) -> None:
    exported(tmp_path / "m.onnx")
    facts = describe(tmp_path / "m.onnx")
    assert facts["outputs"]["variant"] == "int64 [1]"
    assert facts["metadata"]["variants"] == ["blue", "red"]
    text = (tmp_path / "m.json").read_text()
    metadata = ModelMetadata.from_json(text, source="m.json")
    served = triton_config(metadata, name="m")
    assert '{ name: "variant" data_type: TYPE_INT64 dims: [1] }' in served


def test_the_graph_of_a_backbone_has_room_for_one_product(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="several variants"):
        write_model(
            two_colours(WITH_MAP),
            graph=None,  # type: ignore[arg-type]  # it is not looked at
            out=tmp_path / "m.onnx",
            artefact_sha256="",
            allow_random_weights=True,
        )


def test_a_wrong_file_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "edgeseg.export.verify._other_variants", lambda wanted, found: [1] * len(wanted)
    )
    with pytest.raises(VerificationError, match="frames taken for another variant"):
        exported(tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()
