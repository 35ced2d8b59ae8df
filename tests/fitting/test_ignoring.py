"""What is ignored changes nothing: at the fit, afterwards, on the device, in every backend."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

import edgeseg
from edgeseg.api import Model
from edgeseg.base.errors import ArtefactError, UsageError
from edgeseg.cli.group import cli
from edgeseg.data.datasets import open_dataset
from edgeseg.decision.prediction import Prediction
from edgeseg.export.onnx_export import export_onnx
from edgeseg.export.options import ExportOptions
from edgeseg.export.sessions import backend_predictors
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.ignoring import ignore_in_model
from edgeseg.model.artefact import Artefact, load_artefact, save_artefact
from edgeseg.runtime.scoring.model_input import InputMaker
from edgeseg.vision.geometry import PLAIN, Geometry, Roi
from edgeseg.vision.ignored import hidden_of
from tests.support.small_models import RANDOM, SMALL, fit_small, frames

SERIAL = ((16.0, 24.0), (56.0, 24.0), (56.0, 40.0), (16.0, 40.0))
WITH_SERIAL = replace(SMALL, geometry=Geometry(ignore=(SERIAL,)))
BACKENDS = ("cpu", "openvino")


@pytest.fixture(scope="module", params=[(), (1, 2)], ids=["", "own map"])
def fitted(plate: Path, request: pytest.FixtureRequest) -> Artefact:
    return fit_small(plate, config=replace(WITH_SERIAL, map_layers=request.param))


@pytest.fixture(scope="module")
def exported(fitted: Artefact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graphs") / "part.onnx"
    return Model(fitted).export(path, allow_random_weights=True)


@pytest.fixture(scope="module")
def plain_graph(small_artefact: Artefact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graphs") / "plain.onnx"
    return Model(small_artefact).export(path, allow_random_weights=True)


def pair() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A good part, and the same with a glaring defect inside the ignored region."""
    good = frames(1, first=50)[0]
    bad = good.copy()
    bad[26:38, 20:52] = np.random.default_rng(0).integers(0, 256, (12, 32, 3))
    return good, bad


def same(first: Prediction, second: Prediction) -> None:
    assert first.score == second.score
    assert np.array_equal(first.map_hw, second.map_hw)
    assert np.isfinite(first.score)


def test_a_masked_defect_changes_nothing_in_the_reference(fitted: Artefact) -> None:
    good, bad = pair()
    first, second = (Model(fitted).predict(frame) for frame in (good, bad))
    same(first, second)
    assert first.verdict == second.verdict
    plain = replace(fitted, config=replace(fitted.config, geometry=PLAIN))
    assert Model(plain).predict(good).score != Model(plain).predict(bad).score


@pytest.mark.parametrize("backend", BACKENDS)
def test_nor_in_a_graph(fitted: Artefact, exported: Path, backend: str) -> None:
    pytest.importorskip("openvino" if backend == "openvino" else "onnxruntime")
    good, bad = pair()
    with edgeseg.runtime.open(exported, backend=backend, allow_random_weights=True) as detector:
        first, second = (detector.predict(frame) for frame in (good, bad))
    same(first, second)
    assert first.verdict == second.verdict
    wanted = Model(fitted).predict(good)
    assert first.score == pytest.approx(wanted.score, rel=1e-4)
    assert first.map_hw == pytest.approx(wanted.map_hw, abs=1e-3 * float(wanted.map_hw.max()))


@pytest.fixture(scope="module")
def residual(plate: Path) -> Artefact:
    """A backbone that int8 can hold."""
    config = replace(WITH_SERIAL, backbone="resnet18", map_layers=(1,))
    return fit_small(plate, config=config)


@pytest.mark.parametrize("precision", ["int8", "fp16"])
def test_nor_in_fewer_bits(residual: Artefact, plate: Path, tmp_path: Path, precision: str) -> None:
    graph = Model(residual).export(
        tmp_path / "part.onnx", precision=precision, calibrate=plate, allow_random_weights=True
    )
    wanted = Model(residual).predict(pair()[0])
    for backend in BACKENDS:
        pytest.importorskip("openvino" if backend == "openvino" else "onnxruntime")
        with edgeseg.runtime.open(graph, backend=backend, allow_random_weights=True) as detector:
            first, second = (detector.predict(frame) for frame in pair())
        same(first, second)
        assert first.verdict == second.verdict
        assert first.score == pytest.approx(wanted.score, rel=0.1)
        assert not first.map_hw[26:38, 20:52].any()


@pytest.mark.parametrize("precision", ["int8", "fp16"])
def test_nor_in_what_a_plan_is_built_from(
    residual: Artefact, plate: Path, tmp_path: Path, precision: str
) -> None:
    # A plan is built from this graph and described by the same metadata; only the build is missing.
    path = tmp_path / "part.onnx"
    options = ExportOptions(precision=precision, target="trt", allow_random_weights=True)
    made = export_onnx(residual, path, options=options, good=open_dataset(plate))
    inputs, size_hw = InputMaker(made.metadata), made.metadata.size_hw
    slots = np.empty((2, *size_hw, 3), np.uint8)
    for frame, slot in zip(pair(), slots, strict=True):
        inputs.into(frame, slot, view=inputs.view(size_hw), swap=False)
    assert np.array_equal(slots[0], slots[1])
    backends = backend_predictors(path, precision=precision, target="trt", batch=(1, 1, 1))
    maps, scores = backends["ONNX Runtime, as written"]()(slots)
    assert scores[0] == scores[1]
    assert maps[0].any()
    assert not maps[:, 26:38, 20:52].any()


def test_ignored_cells_enter_nothing(fitted: Artefact) -> None:
    hidden = hidden_of(fitted.config.geometry, (96, 96))
    assert hidden is not None
    ignored = ~hidden.kept_cells(fitted.config.grid_hw)
    assert ignored.any()
    good = fitted.calibration.good
    assert not good.d2_mean[ignored].any()
    assert good.d2_mean[~ignored].all()
    assert np.array_equal(fitted.head().counted > 0, ~ignored), "nor the mean of a frame"
    result = Model(fitted).predict(pair()[1])
    assert not result.map_hw[26:38, 20:52].any()
    assert fitted.planted is not None


def test_afterwards_the_threshold_is_of_what_is_left(small_artefact: Artefact) -> None:
    whole = ignore_in_model(small_artefact, (), camera_hw=None, options=RANDOM)
    before = small_artefact.calibration
    assert whole.calibration.score_threshold == pytest.approx(before.score_threshold, rel=2e-3)
    assert whole.calibration.pixel_threshold == pytest.approx(before.pixel_threshold, rel=2e-3)
    changed = ignore_in_model(small_artefact, (SERIAL,), options=RANDOM)
    grids = small_artefact.calibration.good.grids
    assert grids is not None
    kept = changed.model().kept
    assert kept is not None
    cells = grids.astype(np.float32)[:, kept.numpy() != 0]
    by_hand = np.sort(cells, axis=1)[:, -small_artefact.config.top :].mean(axis=1)
    assert changed.calibration.good.scores == pytest.approx(by_hand, rel=1e-5)
    assert changed.calibration.method == before.method
    assert changed.planted is None
    assert changed.history[-1]["action"] == "ignore"


def test_good_images_give_the_threshold_where_a_file_keeps_no_grids(
    small_artefact: Artefact, plate: Path
) -> None:
    good = replace(small_artefact.calibration.good, grids=None)
    bare = replace(small_artefact, calibration=replace(small_artefact.calibration, good=good))
    with pytest.raises(ArtefactError, match="the file keeps no distances of its good images"):
        ignore_in_model(bare, (SERIAL,), options=RANDOM)
    changed = ignore_in_model(bare, (SERIAL,), good=open_dataset(plate), options=RANDOM)
    assert changed.calibration.method == "split-conformal, 10 good images, by their tail"
    named = [(each["image"], each["score"]) for each in changed.data["highest"]]
    assert [score for _, score in named] == sorted(
        changed.calibration.good.scores.tolist(), reverse=True
    ), "of these scores, not of the fit's"
    assert len({image for image, _ in named}) == 10


def test_the_command_changes_a_model_and_takes_it_back(artefact_copy: Path, tmp_path: Path) -> None:
    before = load_artefact(artefact_copy)
    region = ["--region", "16,24,40,16"]
    done = CliRunner().invoke(cli, ["ignore", str(artefact_copy), *region])
    assert done.exit_code == 0, done.output
    changed = load_artefact(artefact_copy)
    assert changed.config.geometry == Geometry(camera_hw=(96, 96), uncounted=(SERIAL,))
    assert "1 ignored region" in done.output
    done = CliRunner().invoke(cli, ["ignore", str(artefact_copy), "--clear"])
    assert done.exit_code == 0, done.output
    again = load_artefact(artefact_copy).calibration
    assert again.score_threshold == pytest.approx(before.calibration.score_threshold, rel=2e-3)
    done = CliRunner().invoke(cli, ["ignore", str(artefact_copy)])
    assert "nothing to ignore: give --region X,Y,W,H, --mask FILE or --clear" in done.output


@pytest.mark.parametrize("backend", BACKENDS)
def test_on_the_device_the_sidecar_says_what_is_ignored(
    plain_graph: Path, tmp_path: Path, small_artefact: Artefact, backend: str
) -> None:
    pytest.importorskip("openvino" if backend == "openvino" else "onnxruntime")
    graph = tmp_path / "part.onnx"
    for suffix in (".onnx", ".json"):
        shutil.copy(plain_graph.with_suffix(suffix), graph.with_suffix(suffix))
    done = CliRunner().invoke(cli, ["ignore", str(graph), "--region", "16,24,40,16"])
    assert done.exit_code == 0, done.output
    with edgeseg.runtime.open(graph, backend=backend, allow_random_weights=True) as detector:
        first, second = (detector.predict(frame) for frame in pair())
    assert first.verdict == second.verdict
    assert not second.map_hw[26:38, 20:52].any()
    wanted = Model(ignore_in_model(small_artefact, (SERIAL,), options=RANDOM)).predict(pair()[0])
    assert first.score == pytest.approx(wanted.score, rel=1e-4)
    assert first.map_hw == pytest.approx(wanted.map_hw, abs=1e-3 * float(wanted.map_hw.max()))
    sidecar = json.loads(graph.with_suffix(".json").read_text())
    assert sidecar["history"][-1]["rule"] == "1 regions ignored since the export"


def test_a_region_is_the_same_in_fit_predict_and_graph(plate: Path, tmp_path: Path) -> None:
    config = replace(SMALL, size_hw=(64, 64), geometry=Geometry(roi=Roi(x=16, y=8, w=72, h=80)))
    artefact = fit(open_dataset(plate), config, RANDOM)
    assert artefact.config.geometry.camera_hw == (96, 96)
    save_artefact(artefact, tmp_path / "part.edgeseg")
    model = edgeseg.load(tmp_path / "part.edgeseg")
    assert model.artefact.config == artefact.config
    frame = frames(1, first=50)[0]
    outside = frame.copy()
    outside[:, :16] = 0
    first, second = model.predict(frame), model.predict(outside)
    same(first, second)
    assert not first.map_hw[:, :12].any()
    graph = model.export(tmp_path / "part.onnx", allow_random_weights=True)
    with edgeseg.runtime.open(graph, allow_random_weights=True) as detector:
        result = detector.predict(frame[:, :, ::-1], channels="bgr")
        assert result.score == pytest.approx(first.score, rel=1e-4)
        assert result.map_hw.shape == first.map_hw.shape
        boxes = [region.box_xywh for region in result.regions]
        assert boxes == [region.box_xywh for region in first.regions]
        with pytest.raises(UsageError, match="frame: 100x96, expected 96x96"):
            detector.predict(np.zeros((96, 100, 3), np.uint8))


def test_images_in_memory_keep_their_own_pixels_where_a_region_is_named() -> None:
    images = frames(10)
    model = edgeseg.fit(images, preset=SMALL, roi=(16, 8, 64, 64), options=RANDOM)
    assert model.artefact.config.geometry == Geometry(
        camera_hw=(96, 96), roi=Roi(x=16, y=8, w=64, h=64)
    )
    plain = edgeseg.fit(images, preset=SMALL, size_hw=(64, 64), options=RANDOM)
    assert "camera_hw" not in plain.artefact.data
    with pytest.raises(UsageError, match="the model does not know the size of the camera's"):
        ignore_in_model(plain.artefact, (SERIAL,), options=RANDOM)


@pytest.mark.parametrize(
    ("geometry", "sentence"),
    [
        (Geometry(roi=Roi(x=50, y=0, w=60, h=50)), "roi=50,0,60,50: does not lie within pictures"),
        (
            Geometry(ignore=(((200.0, 0.0), (210.0, 0.0), (210.0, 9.0)),)),
            "ignore: none of its regions lies in what the model looks at",
        ),
        (
            Geometry(ignore=(((0.0, 0.0), (96.0, 0.0), (96.0, 96.0), (0.0, 96.0)),)),
            "ignore: every cell is ignored, so there is nothing left to look at",
        ),
    ],
)
def test_a_fit_that_cannot_look_there_is_refused(
    plate: Path, geometry: Geometry, sentence: str
) -> None:
    with pytest.raises(UsageError) as failure:
        fit(open_dataset(plate), replace(SMALL, geometry=geometry), RANDOM)
    assert str(failure.value).startswith(sentence)


def test_tiles_and_ignored_regions_do_not_go_together() -> None:
    with pytest.raises(UsageError, match="tiles share one model for all their places"):
        replace(WITH_SERIAL, frame_hw=(192, 192))


def test_a_value_chosen_by_hand_is_not_dropped_without_a_word(
    artefact_copy: Path, plate: Path
) -> None:
    highest = float(load_artefact(artefact_copy).calibration.good.scores.max())
    chosen = ["threshold", str(artefact_copy), "--value", f"{highest + 1:.4f}"]
    assert CliRunner().invoke(cli, chosen).exit_code == 0
    again = f"choose it again: edgeseg threshold MODEL --value {highest + 1:.6g}"
    for later in (["ignore", "--region", "16,24,40,16"], ["update"]):
        copy = artefact_copy.with_name(f"{later[0]}.edgeseg")
        shutil.copy(artefact_copy, copy)
        more = [str(plate / "test" / "good")] if later == ["update"] else []
        done = CliRunner().invoke(cli, [later[0], str(copy), *more, *later[1:]])
        assert done.exit_code == 0, done.output
        assert again[:-4] in done.output
    assert CliRunner().invoke(cli, [*chosen[:2], "--rate", "0.2"]).exit_code == 0
    done = CliRunner().invoke(cli, ["ignore", str(artefact_copy), "--region", "16,24,40,16"])
    assert "choose it again" not in done.output, "a rate is kept"
