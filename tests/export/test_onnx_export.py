"""From an artefact to files: what is written, what is refused, and what a failure leaves behind."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgeseg.api import Model
from edgeseg.base.errors import ExportError, UsageError, VerificationError
from edgeseg.base.files import file_sha256
from edgeseg.data.datasets import open_dataset
from edgeseg.export import candidates as api
from edgeseg.export import sessions
from edgeseg.export.candidates import Trial, TriedGraph
from edgeseg.export.exported import Exported
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.export.precision.makers import GraphCandidate
from edgeseg.model.artefact import save_artefact
from edgeseg.modelfile.metadata import KEY, NUMERICS, ModelMetadata
from edgeseg.modelfile.precisions import PRECISIONS
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.session_options import SessionOptions
from tests.support.export_models import (
    COARSE,
    IMPOSSIBLE,
    SHORT,
    SHOWN,
    artefact,
    data,
    good_frames,
    names,
    reference,
    remember_traces,
    traced,
)

IMAGES = good_frames(6)
GOOD = open_dataset(data())


@pytest.fixture(autouse=True)
def traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_traces(monkeypatch, SHORT)
    # Twelve convolutions that no one trained are coarser in int8 than real ones; how coarse is
    # tested with the quantiser.
    monkeypatch.setitem(api.TOLERANCES, "int8", COARSE)


def export(
    out: Path, *, options: ExportOptions | None = None, notes: list[str] | None = None
) -> Exported:
    told = [] if notes is None else notes
    settings = options or ExportOptions()
    good = None if settings.precision == "fp32" else GOOD
    return export_onnx(artefact(SHORT), out, options=settings, good=good, note=told.append)


def embedded(path: Path) -> ModelMetadata:
    (entry,) = onnx.load(path).metadata_props
    assert entry.key == KEY
    return ModelMetadata.from_json(entry.value, source=str(path))


def test_a_file_and_its_sidecar(tmp_path: Path) -> None:
    out, notes = tmp_path / "new" / "short.onnx", []
    exported = export(out, notes=notes)
    assert names(out.parent) == ["short.json", "short.onnx"]
    assert exported.path == out
    assert exported.report == {"precision": "all fp32"}
    assert [row.backend for row in exported.agreements] == ["ONNX Runtime", "OpenVINO"]
    assert all(row.passed and row.source == "synthetic images" for row in exported.agreements)
    assert exported.metadata.outputs == ("map", "score", "grid", "apart")
    assert notes[0].startswith("backend")
    assert notes[0].count("  agrees") == 2


def test_no_sum_goes_over_two_axes() -> None:
    """OpenVINO on ARM splits such a sum and may lose an axis: the model loads, or does not.

    Two sums in a row are one of two axes to it.
    """
    graph = traced(SHOWN).graph
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    sums = [node for node in graph.node if node.op_type == "ReduceSum"]
    assert [constants[node.input[1]].size for node in sums] == [1] * 4
    made = {node.output[0] for node in sums}
    assert not any(node.input[0] in made for node in sums)


def test_the_metadata_is_in_the_file_and_beside_it(tmp_path: Path) -> None:
    out = tmp_path / "short.onnx"
    exported = export(out)
    text = out.with_suffix(".json").read_text(encoding="utf-8")
    sidecar = ModelMetadata.from_json(text, source="sidecar")
    assert sidecar == exported.metadata
    assert sidecar.onnx_sha256 == file_sha256(out)
    assert embedded(out) == replace(sidecar, onnx_sha256=None)
    assert json.loads(text)["schema"] == 2
    assert "plan" not in json.loads(text)


def test_the_metadata_says_what_the_artefact_knows(tmp_path: Path) -> None:
    source = tmp_path / "short.edgeseg"
    fitted = artefact(SHORT)
    save_artefact(fitted, source)
    told = export_onnx(
        fitted,
        tmp_path / "short.onnx",
        options=ExportOptions(batch=(2, 3, 4), grid_output=False, verify=False),
        artefact_path=source,
    ).metadata
    calibration, good = fitted.calibration, fitted.calibration.good
    assert told.name == "plate64x64"
    assert asdict(told.input) == {
        "name": "frames",
        "layout": "NHWC",
        "channels": "RGB",
        "size_hw": (64, 64),
        "batch": (2, 3, 4),
    }
    assert told.outputs == ("map", "score")
    assert told.threshold.score == calibration.score_threshold
    assert told.threshold.pixel == calibration.pixel_threshold
    assert told.threshold.false_alarm_rate == calibration.answered_rate
    assert told.threshold.method == calibration.method
    assert told.good_scores.count == 8
    assert told.good_scores.mean == pytest.approx(float(good.scores.mean()))
    assert told.good_scores.quantiles["0.5"] == pytest.approx(float(np.median(good.scores)))
    np.testing.assert_allclose(told.drift.d2_mean, good.d2_mean, rtol=1e-3)
    assert told.drift.frame_mean == pytest.approx(float(good.frame_d2.mean()))
    assert (told.grid_hw, told.k, told.rank) == ((16, 16), 16, 10)
    assert asdict(told.backbone) == {
        "name": "resnet18",
        "weights_sha256": fitted.origin.sha256,
        "random_weights": False,
        "licence": "unknown",
    }
    assert told.artefact_sha256 == file_sha256(source)
    assert (told.precision, told.target) == ("fp32", "cpu")
    assert {"edgeseg", "torch", "onnx"} <= set(told.versions)
    assert np.allclose(told.preprocess.mean, (0.485, 0.456, 0.406))


def test_no_path_of_this_computer_is_in_the_metadata(tmp_path: Path) -> None:
    export(tmp_path / "short.onnx")
    text = (tmp_path / "short.json").read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    assert "/" not in text


def test_the_same_options_give_the_same_bytes(tmp_path: Path) -> None:
    files = []
    for folder in ("once", "again"):
        for options in (ExportOptions(), ExportOptions(precision="int8")):
            export(tmp_path / folder / f"{options.precision}.onnx", options=options)
        files.append({path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()})
    assert files[0] == files[1]
    assert len(files[0]) == 4


def test_the_runtime_needs_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "short.onnx"
    export(out)
    wanted = reference(SHORT, IMAGES[:1])
    with open_session(out) as session:
        (found,) = session.infer(IMAGES[:1])
        assert session.metadata.threshold.score == artefact(SHORT).calibration.score_threshold
    np.testing.assert_allclose(found.map_hw, wanted["map"][0], rtol=1e-3, atol=1e-4)
    assert found.grid_hw is not None
    np.testing.assert_allclose(found.grid_hw, wanted["grid"][0], rtol=1e-3, atol=1e-4)
    assert found.score == pytest.approx(float(wanted["score"][0]), rel=1e-4)


@pytest.mark.parametrize(
    ("precision", "target", "backends"),
    [
        ("fp16", "cpu", ["ONNX Runtime, as written", "OpenVINO"]),
        ("int8", "cpu", ["ONNX Runtime", "OpenVINO"]),
        ("int8", "trt", ["ONNX Runtime, as written"]),
    ],
)
def test_lower_precisions_are_verified_on_the_calibration_images(
    tmp_path: Path, precision: str, target: str, backends: list[str]
) -> None:
    out = tmp_path / "short.onnx"
    exported = export(out, options=ExportOptions(precision=precision, target=target))
    assert [row.backend for row in exported.agreements] == backends
    for row in exported.agreements:
        assert row.passed, row
        assert row.images - row.planted == 8
        assert row.planted >= 4
        assert row.head_error is not None
        assert row.source == "good images, and copies of them with a planted defect"
    assert (embedded(out).precision, embedded(out).target) == (precision, target)
    assert "precision" in exported.report
    json.dumps(exported.report, allow_nan=False)


def test_a_fixed_batch_is_calibrated_and_verified_as_one(tmp_path: Path) -> None:
    options = ExportOptions(precision="int8", batch=(4, 4, 4))
    exported = export(tmp_path / "short.onnx", options=options)
    assert all(row.passed and row.planted for row in exported.agreements)
    (entry,) = onnx.load(exported.path).graph.input
    assert entry.type.tensor_type.shape.dim[0].dim_value == 4


@pytest.mark.parametrize(("target", "factors"), [("cpu", "int8"), ("trt", "fp16")])
def test_an_int8_backbone_that_is_refused_stays_fp32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, factors: str
) -> None:
    real, graphs, notes = Trial.run, [], []

    def refuse_the_first(trial: Trial, candidate: GraphCandidate) -> TriedGraph:
        made = real(trial, candidate)
        graphs.append(made.graph)
        failures = ("head error 1, expected less",) if len(graphs) == 1 else ()
        return replace(made, rows=tuple(replace(row, failures=failures) for row in made.rows))

    monkeypatch.setattr(Trial, "run", refuse_the_first)
    out, options = tmp_path / "short.onnx", ExportOptions(precision="int8", target=target)
    exported = export(out, options=options, notes=notes)
    assert all(row.passed for row in exported.agreements)
    assert exported.report["precision"] == f"backbone fp32, factors {factors}"
    (refused,) = exported.report["refused"]
    assert refused == f"backbone int8, factors {factors}"
    assert f"{refused}: does not decide as fp32 does" in notes
    first, second = ({node.op_type for node in graph.graph.node} for graph in graphs)
    assert "DequantizeLinear" in first
    assert "DequantizeLinear" not in second
    assert embedded(out).precision == "int8"
    assert names(tmp_path) == ["short.json", "short.onnx"]


def test_threshold_and_baseline_are_those_of_the_rounded_graph(tmp_path: Path) -> None:
    notes: list[str] = []
    exported = export(tmp_path / "b8.onnx", options=ExportOptions(precision="int8"), notes=notes)
    fitted, told = artefact(SHORT).calibration, exported.metadata
    assert told.threshold.score != fitted.score_threshold
    assert told.threshold.method == f"{fitted.method}, through the int8 graph in ONNX Runtime"
    assert told.good_scores.count == fitted.good.count
    assert told.drift.frame_mean != pytest.approx(float(fitted.good.frame_d2.mean()), rel=1e-6)
    (lines,) = [note.splitlines() for note in notes if "held out" in note]
    assert [line.split()[0] for line in lines] == ["threshold", "fp32", "int8"]
    # What the file says of good images is what the file itself scores them, held out or not.
    with open_session(tmp_path / "b8.onnx", SessionOptions(backend="cpu")) as session:
        scores = [session.infer(image[None])[0].score for image in IMAGES]
    assert 0.4 * told.good_scores.mean < np.mean(scores) < 1.2 * told.good_scores.mean


def test_images_in_memory_are_fitted_on_as_well(tmp_path: Path) -> None:
    out = Model(artefact(SHORT)).export(
        tmp_path / "b8.onnx", precision="int8", calibrate=list(good_frames(8))
    )
    told = embedded(out)
    assert told.threshold.method.endswith("8 good images, through the int8 graph in ONNX Runtime")
    assert told.good_scores.count == 8


def test_fewer_images_than_the_fit_had_are_mentioned(tmp_path: Path) -> None:
    notes: list[str] = []
    export_onnx(
        artefact(SHORT),
        tmp_path / "b8.onnx",
        options=ExportOptions(precision="int8", verify=False),
        good=replace(GOOD, train=GOOD.train[:4]),
        note=notes.append,
    )
    assert any(
        note.startswith("the model was fitted on 8 images, and there are 4 of them now")
        for note in notes
    )


def test_fp16_without_good_images_keeps_the_factors_of_the_fit(tmp_path: Path) -> None:
    told = export_onnx(
        artefact(SHORT), tmp_path / "b16.onnx", options=ExportOptions(precision="fp16")
    )
    assert all(row.passed and row.head_error is None for row in told.agreements)
    assert told.metadata.threshold == artefact(SHORT).calibration.thresholds


def test_figures_of_the_artefact_are_marked_as_those_of_fp32(tmp_path: Path) -> None:
    measured = replace(artefact(SHORT), accuracy=[{"dataset": "plate", "pro": 0.9}])
    told = export_onnx(
        measured,
        tmp_path / "b8.onnx",
        options=ExportOptions(precision="int8", verify=False),
        good=GOOD,
    ).metadata
    assert told.accuracy == ({"dataset": "plate", "pro": 0.9, NUMERICS: "fp32"},)


def test_bf16_is_refused_at_once_where_the_processor_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "processor_computes_in", lambda core, spec: False)
    with pytest.raises(ExportError) as caught:
        export(tmp_path / "b.onnx", options=ExportOptions(precision="bf16"))
    assert str(caught.value) == (
        "precision=bf16: this processor has no bfloat16; export on the computer that will run "
        "the file, or with precision=fp32"
    )
    assert names(tmp_path) == []


def test_bf16_is_fitted_and_verified_in_openvino(tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino", reason="needs OpenVINO")
    if not sessions.processor_computes_in(openvino.Core(), PRECISIONS["bf16"]):
        pytest.skip("this processor has no bfloat16")
    exported = export(tmp_path / "b.onnx", options=ExportOptions(precision="bf16"))
    (row,) = exported.agreements
    assert (row.backend, row.passed) == ("OpenVINO", True)
    assert exported.metadata.precision == "bf16"
    with open_session(tmp_path / "b.onnx", SessionOptions(backend="openvino")) as session:
        assert session.infer(IMAGES[:1])[0].score > 0


class TestFailedVerification:
    @pytest.fixture(autouse=True)
    def nothing_is_good_enough(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(api.TOLERANCES, "fp32", IMPOSSIBLE)

    def test_the_graph_is_set_aside(self, tmp_path: Path) -> None:
        out, notes = tmp_path / "short.onnx", []
        with pytest.raises(VerificationError) as caught:
            export(out, notes=notes)
        assert names(tmp_path) == ["short.onnx.failed"]
        assert str(caught.value).startswith(
            f"{out}: disagrees with the reference in ONNX Runtime, OpenVINO (max error "
        )
        assert str(caught.value).endswith(
            "rank correlation 1, expected >= 1.1); it is kept as "
            f"{out}.failed, try a higher precision="
        )
        assert notes[0].count("expected <= 0") == 6
        onnx.checker.check_model(
            onnx.load_from_string(out.with_name("short.onnx.failed").read_bytes())
        )

    def test_an_earlier_export_and_its_sidecar_stay(self, tmp_path: Path) -> None:
        out = tmp_path / "short.onnx"
        export(out, options=ExportOptions(verify=False, grid_output=True))
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        with pytest.raises(VerificationError, match="disagrees with the reference"):
            export(out, options=ExportOptions(batch=(4, 4, 4)))
        failed = out.with_name("short.onnx.failed")
        assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p != failed} == before
        told = ModelMetadata.from_json(out.with_suffix(".json").read_text(), source="sidecar")
        assert told.onnx_sha256 == file_sha256(out)
        assert told.onnx_sha256 != file_sha256(failed)

    def test_without_verification_it_is_written(self, tmp_path: Path) -> None:
        exported = export(tmp_path / "short.onnx", options=ExportOptions(verify=False))
        assert exported.agreements == ()
        assert names(tmp_path) == ["short.json", "short.onnx"]


def test_random_weights_are_refused_unless_allowed(tmp_path: Path) -> None:
    fitted = artefact(SHORT)
    random = replace(fitted, origin=replace(fitted.origin, random=True))
    with pytest.raises(ExportError) as caught:
        export_onnx(random, tmp_path / "short.onnx", options=ExportOptions())
    assert str(caught.value) == (
        "the backbone has random weights, so its maps mean nothing; fit with real weights, "
        "or pass allow_random_weights=True to export it for timing"
    )
    assert names(tmp_path) == []
    allowed = ExportOptions(allow_random_weights=True, verify=False)
    told = export_onnx(random, tmp_path / "short.onnx", options=allowed).metadata
    assert told.backbone.random_weights is True


def test_int8_needs_images(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        export_onnx(
            artefact(SHORT), tmp_path / "short.onnx", options=ExportOptions(precision="int8")
        )
    assert str(caught.value) == (
        "precision=int8 needs good images to calibrate on; pass calibrate=FOLDER, "
        "the images the model was fitted on will do"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"precision": "fp8"},
            r"precision='fp8': expected one of .*'bf16', 'int8'",
        ),
        ({"target": "gpu"}, r"target='gpu': expected one of \('cpu', 'trt'\)"),
    ],
)
def test_options_that_do_not_exist(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ExportOptions(**options)  # type: ignore[arg-type]
