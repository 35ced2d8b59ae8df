"""Regions that are named after the fit leave the figures and nothing else: good parts stay good."""

import shutil
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from numpy.typing import NDArray

import edgeseg
from edgeseg.api import Model
from edgeseg.base.errors import ArtefactError
from edgeseg.cli.group import cli
from edgeseg.data.datasets import open_dataset
from edgeseg.data.synthetic.scene import write_dataset
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.ignoring import ignore_in_model
from edgeseg.fitting.options import Changes, FitOptions
from edgeseg.fitting.update import update
from edgeseg.model.artefact import Artefact, load_artefact, save_artefact
from edgeseg.model.gaussian_head import Cells
from edgeseg.modelfile.header import read_config
from edgeseg.teach import engine
from edgeseg.vision.geometry import Geometry
from edgeseg.vision.ignored import hidden_of, paint_ignored
from edgeseg.vision.images import images_in, read_image
from tests.support.small_models import RANDOM, SHOWN, SMALL

Image = NDArray[np.uint8]
SERIAL = ((38.0, 16.0), (59.0, 16.0), (59.0, 31.0), (38.0, 31.0))  # of the 96x96 gears
CORNER = ((0.0, 0.0), (30.0, 0.0), (30.0, 30.0), (0.0, 30.0))
TEXTS = {SERIAL: "38,16,21,15", CORNER: "0,0,30,30"}
REGIONS = pytest.mark.parametrize("region", [SERIAL, CORNER], ids=["serial", "corner"])


@pytest.fixture(scope="module")
def gears(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "gears"
    write_dataset(folder, size_hw=(96, 96), train=30, test_good=8, test_defective=1, seed=0)
    return folder


@pytest.fixture(scope="module")
def fitted(gears: Path) -> Artefact:
    config = replace(SMALL, false_alarm_rate=0.04, promise="conformal")
    return fit(open_dataset(gears), config, replace(RANDOM, planted=0))


@pytest.fixture(scope="module")
def model_file(fitted: Artefact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "gear.edgeseg"
    save_artefact(fitted, path)
    return path


@pytest.fixture(scope="module")
def graph_file(fitted: Artefact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graphs") / "gear.onnx"
    return Model(fitted).export(path, allow_random_weights=True)


@pytest.fixture(scope="module")
def good(gears: Path) -> list[Image]:
    return [read_image(path) for path in images_in(gears / "test" / "good")]


def blot(image_hwc: Image, x: int, y: int) -> Image:
    """The part with a dark blot of 9x9 pixels."""
    spoiled = image_hwc.copy()
    spoiled[y - 4 : y + 5, x - 4 : x + 5] = 0
    return spoiled


def test_a_good_part_stays_good_and_a_defect_elsewhere_is_found(
    fitted: Artefact, good: list[Image]
) -> None:
    before = Model(fitted)
    flagged = [before.predict(frame).anomalous for frame in good]
    assert sum(flagged) <= 1
    inside, elsewhere = ([blot(frame, *at) for frame in good[:3]] for at in ((48, 23), (30, 62)))
    for region in (SERIAL, CORNER):
        after = Model(ignore_in_model(fitted, (region,), options=RANDOM))
        now = [after.predict(frame).anomalous for frame in good]
        assert not any(is_now and not was for was, is_now in zip(flagged, now, strict=True))
        assert all(after.predict(frame).anomalous for frame in elsewhere)
    assert all(before.predict(frame).anomalous for frame in inside)
    after = Model(ignore_in_model(fitted, (SERIAL,), options=RANDOM))
    assert not any(after.predict(frame).anomalous for frame in inside)


@REGIONS
def test_every_score_is_that_of_its_grid_without_these_cells(
    fitted: Artefact, good: list[Image], region: tuple[tuple[float, float], ...]
) -> None:
    changed = ignore_in_model(fitted, (region,), options=RANDOM)
    hidden = hidden_of(changed.config.geometry, (96, 96))
    assert hidden is not None
    kept = hidden.kept_cells(fitted.config.grid_hw)
    assert 0 < (~kept).sum() < kept.size / 4
    model, head = fitted.model(), fitted.head()
    for frame in [*good[:3], blot(good[0], 48, 23), blot(good[0], 30, 62)]:
        embedded = model.embeddings(frame[None]).reshape(1, -1, *fitted.config.grid_hw)
        grid = head.distances(embedded).score[0]
        by_hand = np.sort(grid[kept])[-fitted.config.top :].mean()
        assert Model(changed).predict(frame).score == pytest.approx(by_hand, rel=1e-5)


def test_the_map_of_all_other_cells_is_what_it_was(gears: Path, good: list[Image]) -> None:
    """So the distances that the file keeps of its good images are those of the changed model."""
    fitted = fit(open_dataset(gears), SHOWN, replace(RANDOM, planted=0))
    changed = ignore_in_model(fitted, (SERIAL,), options=RANDOM)
    images = torch.from_numpy(np.stack([*good[:2], blot(good[0], 48, 23)]))
    before, after = (model.model()(images)[3].numpy() for model in (fitted, changed))
    kept = changed.head().kept
    assert kept is not None
    np.testing.assert_allclose(after, before * kept, rtol=1e-6)
    grids = fitted.calibration.good.shown_grids
    assert grids is not None
    assert grids.shape == (30, *SHOWN.grid_hw)
    head, cells = changed.head(), grids.astype(np.float32) * kept
    maps, _ = head.to_image(Cells(cells, cells))
    peaks = changed.calibration.good.peaks
    np.testing.assert_allclose(peaks, maps.max(axis=(1, 2)), rtol=1e-5)
    np.testing.assert_allclose(
        changed.calibration.good.d2_mean, np.square(cells).mean(axis=0), rtol=1e-4
    )
    bare = replace(fitted.calibration.good, shown_grids=None)
    with pytest.raises(ArtefactError, match="the file keeps no distances of its good images"):
        ignore_in_model(
            replace(fitted, calibration=replace(fitted.calibration, good=bare)),
            (SERIAL,),
            options=RANDOM,
        )


def test_inputs_stay_as_they_are_and_what_the_fit_painted_stays_painted(good: list[Image]) -> None:
    frame = good[0]
    later = Geometry(camera_hw=(96, 96), uncounted=(SERIAL,))
    assert paint_ignored(frame, later) is frame
    known = Geometry(camera_hw=(96, 96), ignore=(SERIAL,))
    beside = ((30.0, 20.0), (45.0, 20.0), (45.0, 40.0), (30.0, 40.0))  # it shares pixels with it
    both = replace(known, uncounted=(beside,))
    assert np.array_equal(paint_ignored(frame, both), paint_ignored(frame, known))
    fitted, counted = (hidden_of(each, (96, 96)) for each in (known, both))
    assert fitted is not None
    assert counted is not None
    assert np.array_equal(counted.painted_hw, fitted.pixels_hw)
    assert counted.pixels_hw[38, 32]
    assert not counted.painted_hw[38, 32]


def test_by_the_command_and_in_a_graph(
    model_file: Path, graph_file: Path, good: list[Image], tmp_path: Path
) -> None:
    model, graph = tmp_path / "gear.edgeseg", tmp_path / "gear.onnx"
    for source, copy in ((model_file, model), (graph_file, graph)):
        shutil.copy(source, copy)
    shutil.copy(graph_file.with_suffix(".json"), graph.with_suffix(".json"))
    frames = [*good[:4], blot(good[0], 30, 62)]
    for path in (model, graph):
        named = [word for text in TEXTS.values() for word in ("--region", text)]
        done = CliRunner().invoke(cli, ["ignore", str(path), *named])
        assert done.exit_code == 0, done.output
    changed = edgeseg.load(model)
    exported = changed.export(tmp_path / "again.onnx", allow_random_weights=True)
    wanted = [changed.predict(frame) for frame in frames]
    assert [result.anomalous for result in wanted] == [False] * 4 + [True]
    for path in (graph, exported):
        with edgeseg.runtime.open(path, allow_random_weights=True) as detector:
            for frame, expected in zip(frames, wanted, strict=True):
                result = detector.predict(frame)
                assert result.score == pytest.approx(expected.score, rel=1e-4)
                assert result.verdict == expected.verdict


def test_clear_forgets_what_was_named_since_and_keeps_what_was_fitted(
    gears: Path, tmp_path: Path
) -> None:
    config = replace(SMALL, geometry=Geometry(ignore=(CORNER,)))
    path = tmp_path / "gear.edgeseg"
    save_artefact(fit(open_dataset(gears), config, replace(RANDOM, planted=0)), path)
    done = CliRunner().invoke(cli, ["ignore", str(path), "--region", TEXTS[SERIAL]])
    assert done.exit_code == 0, done.output
    named = read_config(path).geometry
    assert (named.ignore, named.uncounted) == ((CORNER,), (SERIAL,))
    done = CliRunner().invoke(cli, ["ignore", str(path), "--clear"])
    assert done.exit_code == 0, done.output
    assert "1 regions that it was made with stay ignored; to look there, fit again" in done.output
    cleared = read_config(path).geometry
    assert (cleared.ignore, cleared.uncounted) == ((CORNER,), ())


def test_an_update_goes_on_with_both_kinds(fitted: Artefact, gears: Path) -> None:
    changed = ignore_in_model(fitted, (SERIAL,), options=RANDOM)
    more = open_dataset(gears / "test" / "good")
    plain, updated = (update(each, Changes(more=more), RANDOM) for each in (fitted, changed))
    assert updated.config.geometry == changed.config.geometry
    assert updated.moments is not None
    assert plain.moments is not None
    assert np.array_equal(updated.moments.mean, plain.moments.mean)  # of pictures as they are


def test_the_page_ignores_by_the_same_computation(
    fitted: Artefact, model_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "next.edgeseg"
    made = engine.ignore_regions(model_file, regions=[CORNER], options=RANDOM, out=out)
    by_hand = ignore_in_model(fitted, (CORNER,), options=RANDOM).calibration
    assert made.calibration.score_threshold == by_hand.score_threshold
    again = engine.ignore_regions(out, regions=[SERIAL, CORNER], options=RANDOM, out=out)
    assert again.config.geometry.uncounted == (CORNER, SERIAL)
    assert load_artefact(out).config.geometry == again.config.geometry


def test_with_real_weights_no_gear_is_flagged(shared: Path, gears: Path, good: list[Image]) -> None:
    options = FitOptions(weights=str(shared / "weights" / "mobilenet_v3_small.pth"), planted=0)
    fitted = fit(open_dataset(gears), replace(SMALL, false_alarm_rate=0.04), options)
    changed = Model(ignore_in_model(fitted, (CORNER,), options=options))
    assert not any(changed.predict(frame).anomalous for frame in good)
    assert changed.predict(blot(good[0], 30, 62)).anomalous


def test_of_real_cables_no_more_good_ones_are_flagged(shared: Path) -> None:
    cable = shared / "data" / "mvtec_ad" / "cable"
    options = FitOptions(weights=str(shared / "weights" / "mobilenet_v3_small.pth"), planted=0)
    train, test = (
        [cv2.resize(read_image(path), (96, 96)) for path in images_in(cable / part / "good")[:30]]
        for part in ("train", "test")
    )
    model = edgeseg.fit(train, preset=replace(SMALL, k=40, rank=30), options=options)
    changed = ignore_in_model(model.artefact, (CORNER,), camera_hw=(96, 96), options=options)
    before, after = (
        sum(each.predict(frame).anomalous for frame in test) for each in (model, Model(changed))
    )
    assert after <= before
