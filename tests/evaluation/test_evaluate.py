"""Evaluation with predictors whose answers are known, and pictures of what they said."""

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError, EdgesegError
from edgeseg.data.datasets import Sample, load_batches, open_dataset
from edgeseg.decision.judgement import Verdict
from edgeseg.decision.metrics import auroc
from edgeseg.decision.thresholds import Thresholds
from edgeseg.evaluation.evaluate import Evaluation, evaluate
from edgeseg.evaluation.gallery import SHEET_ROWS, Gallery
from edgeseg.evaluation.mistakes import mistakes
from edgeseg.model.artefact import Artefact
from edgeseg.model.predictor import Predictor, torch_predictor
from edgeseg.vision.images import read_image
from tests.support.decision_tile import outlined
from tests.support.map_scores import map_scores
from tests.support.small_models import SIZE_HW, frames
from tests.support.thresholds import made_up_thresholds

DEFECTS = 4  # one of each kind


def oracle(data: Path, *, sign: float = 1.0) -> Predictor:
    """Predicts the ground truth of the test images, in their order."""
    (batch,) = load_batches(open_dataset(data).test, size_hw=SIZE_HW, batch_size=1000)
    remaining = list(batch.masks)

    def predict(
        images: NDArray[np.uint8],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        maps = np.stack([remaining.pop(0) for _ in images]).astype(np.float32) * sign
        scores = np.where(np.abs(maps).any(axis=(1, 2)), sign, 0.0).astype(np.float32)
        return maps, scores

    return predict


LIMITS = made_up_thresholds(0.5, false_alarm_rate=1.0)


def evaluated(
    predict: Predictor, data: Path, limits: Thresholds = LIMITS, **options: object
) -> Evaluation:
    return evaluate(
        predict,
        open_dataset(data),
        size_hw=SIZE_HW,
        thresholds=limits,
        batch_size=3,
        **options,  # type: ignore[arg-type]
    )


def test_a_perfect_predictor(plate):
    result = evaluated(oracle(plate), plate)
    assert result.pro == pytest.approx(1.0)
    assert result.pixel_auroc == result.image_auroc == 1.0
    assert result.f1 == result.precision == result.recall == 1.0
    assert (result.images, result.anomalies, result.false_alarms) == (3 + DEFECTS, DEFECTS, 0)
    assert result.labels == tuple(int(score) for score in result.scores)
    assert (result.dataset, result.threshold_method) == (
        "plate",
        "split-conformal, 100 good images",
    )
    assert result.figures["pro_05"] == pytest.approx(1.0)
    assert (result.figures["false_alarm_rate"], result.figures["false_regions"]) == (0.0, 0.0)
    test = open_dataset(plate).test
    assert result.paths == tuple(sample.image.as_posix() for sample in test)
    assert result.kinds == tuple(sample.kind for sample in test)


def test_a_predictor_that_is_always_wrong(plate):
    result = evaluated(oracle(plate, sign=-1.0), plate)
    assert result.pixel_auroc == result.image_auroc == 0.0
    assert result.recall == result.f1 == 0.0
    assert result.precision is None  # no alarms to be right about


def test_marks_on_good_images_are_counted(plate):
    """Two corners of every image are marked, and defects as they are."""
    truth = oracle(plate)

    def predict(images: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        maps, scores = truth(images)
        maps[:, 0, 0] = maps[:, -1, -1] = 0.7
        return maps, scores

    assert evaluated(predict, plate).figures["false_regions"] == 2.0


def test_figures_are_those_of_the_metrics(plate, small_artefact: Artefact):
    predict = torch_predictor(small_artefact.model())
    result = evaluated(predict, plate)
    (batch,) = load_batches(open_dataset(plate).test, size_hw=SIZE_HW, batch_size=1000)
    maps, scores = predict(batch.frames)
    labels = [sample.label for sample in batch.samples]
    whole = map_scores(maps, batch.masks)
    # In batches of three the last digits of a map may differ.
    assert result.pro == pytest.approx(whole.pro, abs=1e-4)
    assert result.figures["pro_05"] == pytest.approx(whole.pro_05, abs=1e-4)
    assert result.pixel_auroc == pytest.approx(whole.pixel_auroc, abs=1e-4)
    assert result.image_auroc == auroc(scores, labels)
    assert result.labels == tuple(labels)


def test_torch_predictor_is_the_model(small_artefact: Artefact):
    images = frames(2)
    maps, scores = torch_predictor(small_artefact.model())(images)
    image_map, score, *_ = small_artefact.model()(torch.from_numpy(images))
    np.testing.assert_array_equal(maps, image_map.numpy())
    np.testing.assert_array_equal(scores, score.numpy())
    assert maps.dtype == scores.dtype == np.float32


def test_visitors_see_every_image_once(plate):
    seen = []
    evaluated(
        oracle(plate),
        plate,
        visit=lambda sample, frame, mask, image_map, score, verdict: seen.append(
            (sample, frame.shape, mask.sum(), image_map.sum(), score, verdict)
        ),
    )
    assert [entry[0] for entry in seen] == list(open_dataset(plate).test)
    assert all(shape == (*SIZE_HW, 3) for _, shape, *_ in seen)
    assert all(marked == predicted for _, _, marked, predicted, *_ in seen)
    assert all((marked > 0) == (score == 1.0) for _, _, marked, _, score, _ in seen)
    assert [verdict for *_, score, verdict in seen] == [
        "defect" if score == 1.0 else "good" for *_, score, _ in seen
    ]


@pytest.mark.parametrize(
    ("score", "limits", "verdict", "alarms"),
    [
        (0.4, replace(LIMITS, foreign=0.2), "invalid", 3),
        (0.4, replace(LIMITS, unsure=0.3, unsure_rate=0.1), "unsure", 0),
        (0.4, LIMITS, "good", 0),
        (0.6, LIMITS, "defect", 3),
    ],
)
def test_an_alarm_is_what_predict_would_call_one(plate, score, limits, verdict, alarms):
    """Every image gets the same map and score: four are defective and three are good."""

    def predict(images: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        count = len(images)
        return np.full((count, *SIZE_HW), 0.3, np.float32), np.full(count, score, np.float32)

    result = evaluated(predict, plate, limits)
    assert set(result.verdicts) == {verdict}
    assert result.false_alarms == alarms
    assert result.recall == (1.0 if alarms else 0.0)
    assert set(result.scores) == {np.float32(score)}, "as the model said them"
    wrong = mistakes(result, [0.1, 0.2])
    assert len(wrong) == (3 if alarms else DEFECTS)
    assert {(each.error, each.verdict) for each in wrong} == {
        ("false alarm" if alarms else "miss", verdict)
    }


def test_an_alarm_without_a_pixel_above_is_outlined_in_its_picture(gallery):
    map_hw = np.zeros(SIZE_HW, np.float32)
    map_hw[20:30, 20:30] = gallery.pixel_threshold / 2
    options = (frames(1)[0], np.zeros(SIZE_HW, np.bool_), map_hw, gallery.threshold * 2)
    for verdict, seen in (("defect", True), ("good", False)):
        gallery.add(Sample(image=Path(f"{verdict}.png")), *options, verdict)
        picture = read_image(gallery.folder / "good" / f"{verdict}.png")
        assert outlined(picture).any() == seen


OF_PIXELS = ("pro", "pro_05", "pixel_auroc")


def test_images_without_masks_are_judged_by_their_labels(plate, tmp_path, small_artefact):
    """The same images as with masks: the same verdicts and figures, but those of pixels."""
    shutil.copytree(plate, tmp_path / "plate")
    shutil.rmtree(tmp_path / "plate/ground_truth")
    predict = torch_predictor(small_artefact.model())
    marked, bare = evaluated(predict, plate), evaluated(predict, tmp_path / "plate")
    assert {key: bare.figures[key] for key in OF_PIXELS} == dict.fromkeys(OF_PIXELS)
    known = {key: value for key, value in marked.figures.items() if key not in OF_PIXELS}
    assert known.items() <= bare.figures.items()
    assert None not in known.values()
    for one in ("scores", "labels", "kinds", "verdicts", "anomalies", "false_alarms"):
        assert getattr(bare, one) == getattr(marked, one)
    json.dumps(bare.to_dict(), allow_nan=False)


def test_one_kind_without_masks_leaves_no_figures_of_pixels(plate, tmp_path):
    """PRO of the other kinds alone would look like one of all."""
    shutil.copytree(plate, tmp_path / "plate")
    shutil.rmtree(min((tmp_path / "plate/ground_truth").iterdir()))
    result = evaluated(oracle(plate), tmp_path / "plate")
    assert {key: result.figures[key] for key in OF_PIXELS} == dict.fromkeys(OF_PIXELS)
    assert (result.image_auroc, result.recall, result.anomalies) == (1.0, 1.0, DEFECTS)


def test_good_images_alone(plate, tmp_path):
    for path in ("train/good", "test/good"):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "0.png").write_bytes((plate / path / "000.png").read_bytes())
    zero = np.zeros((1, *SIZE_HW), np.float32)
    result = evaluated(lambda images: (zero, np.ones(1, np.float32)), tmp_path)
    assert result.pro is None
    assert result.pixel_auroc is None
    assert result.image_auroc is None
    assert (result.images, result.anomalies, result.false_alarms) == (1, 0, 1)
    json.dumps(result.to_dict(), allow_nan=False)


def test_no_test_images(plate):
    with pytest.raises(DatasetError) as caught:
        evaluated(oracle(plate), plate / "train/good")
    assert str(caught.value) == (
        f"{plate / 'train/good'}: no test images; evaluation needs a labelled test set "
        "(test/good, test/<kind>), or use `edgeseg predict` for pictures"
    )


def test_summary_is_what_travels_with_a_model(plate):
    result = evaluated(oracle(plate), plate)
    assert list(result.summary()) == [
        "dataset", "pro", "pro_05", "pixel_auroc", "image_auroc", "f1", "recall",
        "false_alarm_rate", "images", "anomalies",
    ]  # fmt: skip


# --- pictures --------------------------------------------------------------------------------


@pytest.fixture
def gallery(tmp_path: Path, small_artefact: Artefact) -> Gallery:
    return Gallery(tmp_path / "out", small_artefact.calibration)


def put(gallery: Gallery, sample: Sample, *, score: float = 0.0, verdict: Verdict = "good") -> None:
    frame, mask = frames(1)[0], np.zeros(SIZE_HW, np.bool_)
    gallery.add(sample, frame, mask, np.zeros(SIZE_HW, np.float32), score, verdict)


def pictures(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.png"))


def test_a_picture_per_image_and_a_sheet(plate, gallery, small_artefact):
    evaluated(torch_predictor(small_artefact.model()), plate, visit=gallery.add)
    sheet = gallery.finish(title="plate")
    found = pictures(gallery.folder)
    assert len(found) == 3 + DEFECTS + 1
    assert "good/000.png" in found
    assert sheet == gallery.folder / "sheet.png"
    picture, panel = cv2.imread(str(sheet)), cv2.imread(str(gallery.folder / "good/000.png"))
    assert picture.shape[0] > panel.shape[0] > SIZE_HW[0]
    assert panel.std() > 5  # something is drawn


def test_the_sheet_shows_the_worst_mistakes_first_by_name(gallery, monkeypatch):
    captions, sheets = [], []

    def add_heading(picture: NDArray[np.uint8], text: str) -> NDArray[np.uint8]:
        captions.append(text)
        return np.full((9, 9, 3), len(captions), np.uint8)

    def contact_sheet(panels: list[NDArray[np.uint8]], **options: object) -> NDArray[np.uint8]:
        sheets.append(([captions[panel[0, 0, 0] - 1] for panel in panels], options["title"]))
        return panels[0]

    monkeypatch.setattr("edgeseg.evaluation.gallery.add_heading", add_heading)
    monkeypatch.setattr("edgeseg.evaluation.gallery.contact_sheet", contact_sheet)
    gallery.threshold = 50.0
    dent = {"label": 1, "kind": "dent", "mask": Path("mask.png")}
    put(gallery, Sample(image=Path("a.png")), score=10.0)
    put(gallery, Sample(image=Path("b.png")), score=60.0, verdict="defect")
    put(gallery, Sample(image=Path("c.png"), **dent), score=70.0, verdict="defect")
    put(gallery, Sample(image=Path("d.png"), **dent), score=50.0)
    put(gallery, Sample(image=Path("e.png")), score=49.0, verdict="not_found")
    put(gallery, Sample(image=Path("f.png"), **dent), score=20.0, verdict="unsure")
    for index in range(SHEET_ROWS):
        put(gallery, Sample(image=Path(f"{index:02}.png"), **dent), score=30.0 + index)
    gallery.finish(title="cup")
    ((shown, title),) = sheets
    assert title == "cup: 14 misses and 2 false alarms, the worst first"
    assert shown[:4] == [
        "false alarm: good/e, score 49, not_found, threshold 50",  # no threshold would help
        "miss: dent/f, score 20, unsure, threshold 50",
        "miss: dent/00, score 30, threshold 50",
        "miss: dent/01, score 31, threshold 50",
    ]
    assert shown[11] == "miss: dent/09, score 39, threshold 50"
    assert shown[12:] == ["dent/c, score 70", "good/a, score 10"]
    assert len(pictures(gallery.folder)) == 6 + SHEET_ROWS + 1


def test_an_image_without_a_mask_has_a_picture_without_a_true_outline(gallery, monkeypatch):
    legends = []
    monkeypatch.setattr(
        "edgeseg.evaluation.panels._legend", lambda known: legends.append(known) or []
    )
    sample = Sample(image=Path("a.png"), label=1, kind="dent")
    nothing_hw = np.zeros(SIZE_HW, np.float32)
    gallery.add(sample, frames(1)[0], None, nothing_hw, 0.0, "good")
    assert legends == [False]
    assert pictures(gallery.folder) == ["dent/a.png"]
    assert gallery.errors == {"miss": 1}


def test_images_of_one_name_keep_a_picture_each(gallery):
    """KolektorSDD calls its images kosNN/PartM; frames of a video share its name."""
    for folder in ("kos01", "kos02", "kos03"):
        put(gallery, Sample(image=Path(folder) / "Part0.jpg"))
    put(gallery, Sample(image=Path("other/kos02/Part0.jpg")))
    for index in (5, 12):
        put(gallery, Sample(image=Path("01.avi"), image_index=index))
    assert pictures(gallery.folder) == [
        "good/01-00005.png",
        "good/01-00012.png",
        "good/Part0-2.png",
        "good/Part0.png",
        "good/kos02-Part0.png",
        "good/kos03-Part0.png",
    ]


def test_pictures_of_a_second_run_take_the_place_of_the_first(gallery, small_artefact):
    for _ in range(2):
        again = Gallery(gallery.folder, small_artefact.calibration)
        put(again, Sample(image=Path("a.png")))
    assert pictures(gallery.folder) == ["good/a.png"]


def test_one_range_for_all_pictures(gallery, small_artefact):
    assert gallery.value_range == (0.0, 2 * small_artefact.calibration.pixel_threshold)
    flat = replace(small_artefact.calibration, pixel_threshold=0.0)
    assert Gallery(gallery.folder, flat).value_range[1] > 0


def test_a_picture_that_cannot_be_written(gallery, monkeypatch):
    def full(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(EdgesegError) as caught:
        put(gallery, Sample(image=Path("a.png")))
    assert str(caught.value) == (
        f"{gallery.folder / 'good' / 'a.png'}: cannot be written (No space left on device); "
        "look at the path, its permissions and the disk"
    )
    assert pictures(gallery.folder) == []
