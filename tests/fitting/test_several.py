"""A fit on pictures of several parts: every part is a sample, and every picture one score."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

import edgeseg
from edgeseg.api import Model
from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.data.datasets import open_dataset
from edgeseg.data.part_samples import PartSamples
from edgeseg.data.samples import Sample
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.locator import trial
from edgeseg.fitting.locator.choose_way import choose_way
from edgeseg.fitting.options import Changes
from edgeseg.fitting.screening.screen import screen_in
from edgeseg.fitting.update import update
from edgeseg.model.artefact import load_artefact, save_artefact
from edgeseg.model.predictor import torch_predictor
from edgeseg.vision.geometry import Geometry
from edgeseg.vision.ignored import paint_ignored
from edgeseg.vision.images import write_image
from tests.support.small_models import RANDOM, SMALL
from tests.support.trays import good_trays, scattered_places, tray, write_trays

SEVERAL = replace(SMALL, geometry=Geometry(locate="blobs"))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trays(tmp_path_factory.mktemp("good"), good_trays(10))


@pytest.fixture(scope="module")
def model(good: Path) -> Model:
    return Model(fit(open_dataset(good), SEVERAL, replace(RANDOM, planted=6)))


def test_every_part_is_in_the_moments_and_every_picture_is_one_score(model):
    artefact = model.artefact
    assert artefact.moments is not None
    assert artefact.moments.images == 60
    calibration = artefact.calibration
    assert (calibration.images, calibration.parts, calibration.good.count) == (10, 10, 10)
    assert calibration.grouping is None
    assert artefact.planted is not None
    assert len(artefact.planted.kinds) == 6


def test_a_picture_scores_as_the_highest_of_its_parts_cut_out_by_hand(model):
    artefact, several = model.artefact, model.artefact.config.geometry.several
    assert several is not None
    predict = torch_predictor(artefact.model())
    for seed, defects in ((80, []), (81, [4])):
        picture = tray(scattered_places(seed), noise=seed, defects=defects)
        result = model.predict(picture)
        scores = []
        for part in result.parts:
            x, y = (np.array(part.box_xywh[:2]) + np.array(part.box_xywh[2:]) / 2).tolist()
            near = min(
                several.find_parts(picture).parts,
                key=lambda each: abs(each.found.pose.x - x) + abs(each.found.pose.y - y),
            ).found.pose
            turn = cv2.getRotationMatrix2D(
                (near.x - 0.5, near.y - 0.5), -near.degrees, 96 / several.side
            )
            turn[:, 2] += 47.5 - np.array([near.x - 0.5, near.y - 0.5])
            crop = cv2.warpAffine(picture, turn, (96, 96), borderMode=cv2.BORDER_REPLICATE)
            crop = paint_ignored(np.asarray(crop, np.uint8), artefact.config.geometry)
            _, score = predict(crop[None])
            scores.append(float(score[0]))
        assert [part.score for part in result.parts] == pytest.approx(scores, rel=0.03)
        assert result.score == max(part.score for part in result.parts)
        assert result.verdict == ("defect" if defects else "good")


def test_a_part_turned_round_on_another_place_is_judged_alike(model):
    """Where it lies alone, and no other lay in the fit, is no defect."""
    scores = [
        model.predict(tray([(x, y, turn)])).score
        for x, y, turn in ((60, 60, 10), (160, 120, 77), (260, 180, -140))
    ]
    assert all(score < model.threshold for score in scores)


def test_the_file_keeps_what_was_learned_and_the_same_fit_gives_the_same_bytes(
    model, good, tmp_path
):
    save_artefact(model.artefact, tmp_path / "one.edgeseg")
    read = load_artefact(tmp_path / "one.edgeseg")
    assert read.config.geometry == model.artefact.config.geometry
    again = fit(open_dataset(good), SEVERAL, replace(RANDOM, planted=6))
    save_artefact(again, tmp_path / "two.edgeseg")
    one, two = (load_artefact(tmp_path / f"{name}.edgeseg") for name in ("one", "two"))
    assert one.header()["calibration"] == two.header()["calibration"]
    np.testing.assert_array_equal(one.factors.factor, two.factors.factor)


def test_a_picture_taken_again_is_no_new_evidence(good, tmp_path):
    """Near-copies of pictures count once, though each of their parts is a sample."""
    images = [tray(scattered_places(seed), noise=seed) for seed in range(8)]
    images += [tray(scattered_places(seed), noise=100 + seed) for seed in range(3)]
    artefact = fit(open_dataset(write_trays(tmp_path / "again", images)), SEVERAL, RANDOM)
    assert (artefact.calibration.images, artefact.calibration.parts) == (11, 8)
    assert artefact.calibration.grouping == "pictures"


def test_parts_of_one_picture_promise_nothing_for_another(tmp_path):
    folder = write_trays(tmp_path / "one", good_trays(1))
    calibration = fit(open_dataset(folder), SEVERAL, RANDOM).calibration
    assert (calibration.images, calibration.answered_rate) == (1, 1.0)


def test_parts_of_a_picture_are_held_out_together(good):
    geometry = fit(open_dataset(good), SEVERAL, RANDOM).config.geometry
    parts = PartSamples(geometry=geometry)
    samples = parts.of(open_dataset(good).train[:4])
    assert len(samples) == 24
    assert [sample.part_number for sample in samples[:6]] == list(range(6))
    groups = parts.groups(samples)
    assert all(len({groups[6 * picture + n] for n in range(6)}) == 1 for picture in range(4))
    assert len(set(groups.values())) == 4


def test_pictures_kept_apart_are_kept_apart_whole(good):
    config = replace(SEVERAL, calibration="holdout", holdout=0.3)
    artefact = fit(open_dataset(good), config, RANDOM)
    assert artefact.moments is not None
    assert artefact.moments.images == 7 * 6
    assert (artefact.calibration.images, artefact.calibration.parts) == (3, 3)
    assert artefact.calibration.origin.kind == "split"


def test_a_good_picture_without_a_part_is_named(good, tmp_path):
    folder = write_trays(
        tmp_path / "mixed", [*good_trays(8), np.full((240, 320, 3), 205, np.uint8)]
    )
    with pytest.raises(DatasetError, match=r"008\.png: no part in it can be judged"):
        fit(open_dataset(folder), SEVERAL, RANDOM)


def test_parts_that_touch_are_left_out_of_a_fit_and_told(tmp_path):
    places = scattered_places(60)
    places[1] = (places[0][0] + 35, places[0][1], places[0][2] + 90)
    said: list[str] = []
    folder = write_trays(tmp_path / "touching", [*good_trays(9), tray(places)])
    artefact = fit(open_dataset(folder), SEVERAL, replace(RANDOM, note=said.append))
    assert artefact.moments is not None
    assert artefact.moments.images == 9 * 6 + 4
    assert any(line.startswith("1 of these 10 good images would be invalid") for line in said)


def test_what_a_model_of_several_parts_cannot_do_is_refused(model, good):
    images = open_dataset(good)
    with pytest.raises(UsageError, match=r"judges several parts in a picture.*fit again on all"):
        update(model.artefact, Changes(more=images), RANDOM)
    anomalies = (Sample(image=good / "000.png", label=1, kind="scratch"),)
    with pytest.raises(UsageError, match="which of several parts in a picture is defective"):
        fit(images, SEVERAL, replace(RANDOM, anomalies=anomalies))
    with pytest.raises(UsageError, match="whole pictures cannot be compared where their parts"):
        screen_in(FeatureSpace.of(model.artefact), images, RANDOM)
    with pytest.raises(UsageError, match="tiles are not"):
        fit(images, replace(SEVERAL, frame_hw=(192, 192)), RANDOM)


def test_figures_are_of_pictures_and_masks_lie_in_them(model, tmp_path):
    root = tmp_path / "trays"
    write_trays(root / "train/good", good_trays(2))
    write_trays(root / "test/good", good_trays(3, first=30))
    for number in range(3):
        places = scattered_places(40 + number)
        bad, clean = (tray(places, noise=number, defects=defects) for defects in ([number], []))
        write_image(root / f"test/mark/{number:03}.png", bad)
        mask = (np.abs(bad.astype(int) - clean).max(axis=2) > 60).astype(np.uint8) * 255
        write_image(root / f"ground_truth/mark/{number:03}_mask.png", mask)
    result = model.evaluate(root)
    assert (result.images, result.anomalies) == (6, 3)
    assert result.image_auroc == 1.0
    assert result.recall == 1.0
    assert result.pro is not None
    assert result.pro > 0.9
    assert result.pixel_auroc is not None
    assert result.pixel_auroc > 0.95


def test_auto_takes_several_parts_where_pictures_show_them(good, monkeypatch):
    monkeypatch.setattr(trial, "MOST_COPIES", 16)
    said: list[str] = []
    config = replace(SMALL, geometry=Geometry(locate="auto"))
    chosen = choose_way(open_dataset(good), config, replace(RANDOM, note=said.append))
    assert chosen.geometry.locate == "blobs"
    assert any(line.startswith("locate blobs is taken: it finds ") for line in said)
    assert any("; all parts are found in 10 of 10 good images" in line for line in said)


def test_python_takes_several_parts_by_name(good, tmp_path):
    fitted = edgeseg.fit(good, preset=SMALL, locate="blobs,count=6", options=RANDOM)
    assert fitted.predict(tray(scattered_places(90, count=5))).verdict == "invalid"
    assert fitted.predict(good / "003.png").verdict == "good"
