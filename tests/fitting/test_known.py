"""Known defects in a fit: a kind that was missed is found, good parts stay good."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

import edgeseg
from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.config import FitConfig
from edgeseg.data.datasets import open_dataset
from edgeseg.data.known_defects import read_known_defects
from edgeseg.data.samples import Sample, read_sample
from edgeseg.decision.prediction import above
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.group_sums import group_factors
from edgeseg.fitting.held_out import permutation
from edgeseg.fitting.known_learning import (
    HotCells,
    hot_cells,
    learn_directions,
    learn_from_others,
    sum_cells,
)
from edgeseg.fitting.known_pictures import marked_cells
from edgeseg.fitting.options import Changes, FitOptions
from edgeseg.fitting.update import update
from edgeseg.model.artefact import Artefact, load_artefact, save_artefact
from edgeseg.model.gaussian_head import GaussianHead
from edgeseg.model.moments import Moments
from edgeseg.model.predictor import frame_predictor, variant_predictor
from edgeseg.vision.images import read_image
from tests.support.small_models import SMALL, fit_small, frames
from tests.support.striped_parts import defective, write_defects

CONFIG = replace(SMALL, folds=4, k=32, rank=20)


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("known") / "good"
    folder.mkdir()
    for number, image in enumerate(frames(24)):
        cv2.imwrite(str(folder / f"{number:03}.png"), image[:, :, ::-1])
    return folder


@pytest.fixture(scope="module")
def known(tmp_path_factory) -> tuple[Sample, ...]:
    folder = tmp_path_factory.mktemp("defects") / "defects"
    return read_known_defects(write_defects(folder, "grey", range(6)))


def options(known: tuple[Sample, ...] = ()) -> FitOptions:
    return FitOptions(weights="random", batch_size=4, planted=6, known=known)


@pytest.fixture(scope="module")
def plain(good) -> Artefact:
    return fit_small(good, config=CONFIG, options=options())


@pytest.fixture(scope="module")
def learned(good, known) -> Artefact:
    return fit_small(good, config=CONFIG, options=options(known))


def scores(artefact: Artefact, images: list[NDArray[np.uint8]]) -> NDArray[np.float64]:
    predict = frame_predictor(variant_predictor(artefact.model()), artefact.config)
    return np.array([predict(image[None], ())[1][0] for image in images], np.float64)


def share_found(artefact: Artefact, images: list[NDArray[np.uint8]]) -> float:
    return float(above(scores(artefact, images), artefact.calibration.score_threshold).mean())


def some(kind: str, count: int = 16) -> list[NDArray[np.uint8]]:
    return [defective(kind, 50 + number)[0] for number in range(count)]


def test_a_kind_that_was_missed_is_found(plain, learned):
    assert share_found(plain, some("grey")) < 0.5
    assert share_found(learned, some("grey")) >= share_found(plain, some("grey")) + 0.2


def test_other_kinds_stay_found(plain, learned):
    assert share_found(plain, some("blot")) > 0.9
    assert share_found(learned, some("blot")) > 0.9


def test_good_parts_stay_good(plain, learned):
    fresh = list(frames(30, first=400))
    assert share_found(learned, fresh) <= share_found(plain, fresh) + 0.1


def test_the_facts_tell_what_was_learned(plain, learned, known):
    facts = learned.known.facts
    (kind,) = facts.kinds
    assert (kind.kind, kind.pictures) == ("grey", 6)
    assert facts.threshold_before == plain.calibration.score_threshold
    images = [read_image(each.image) for each in known]
    assert kind.found_before == round(6 * share_found(plain, images))
    assert list(learned.header()["known"]["kinds"]) == [vars(kind)]
    assert "known" not in plain.header()


def test_the_model_keeps_its_shape_and_its_map(plain, learned, good, known):
    assert learned.factors.factor.shape == plain.factors.factor.shape
    assert learned.factors.whitening is None
    assert learned.moments is not None
    np.testing.assert_array_equal(learned.moments.scatter, plain.moments.scatter)
    config = replace(CONFIG, map_layers=(1, 2))
    shown = fit_small(good, config=config, options=options(known)).factors.shown
    assert shown.weight.shape[1] == 20


def whitened_without(good: Path, places: list[int]) -> tuple[Artefact, Moments, GaussianHead]:
    """A model of all good images but some, and what whitens its cells."""
    dataset = open_dataset(good)
    kept = tuple(each for place, each in enumerate(dataset.train) if place not in places)
    artefact = fit(replace(dataset, train=kept), CONFIG, replace(options(), planted=0))
    pooled = artefact.head().windows.pool_moments(artefact.moments)
    return artefact, pooled, GaussianHead(CONFIG, group_factors(CONFIG, pooled, whitened=True))


def test_good_scores_are_of_models_without_them(good, learned, known):
    """By brute force: each fold left out of a fit, and directions of what the other folds teach."""
    images = [read_image(path) for path in sorted(good.iterdir())]
    order = permutation(24, CONFIG.seed)
    folds = [sorted(order[fold::4]) for fold in range(4)]
    models = [whitened_without(good, fold) for fold in folds]
    embed = models[0][0].model().embeddings
    rows, bad = embed(np.stack(images)), []
    for sample in known:
        frame_hwc, mask_hw = read_sample(sample, CONFIG.size_hw)
        bad.append((embed(np.stack([frame_hwc] * 2))[0], marked_cells(mask_hw, CONFIG.grid_hw)))
    hot_good = [
        sum_cells([hot_cells(head, rows[place]) for place in fold])
        for fold, (_, _, head) in zip(folds, models, strict=True)
    ]
    stored = learned.calibration.good
    pairs = zip(stored.images, stored.scores, strict=True)
    by_name = {Path(name).name: float(score) for name, score in pairs}
    for fold, (_, pooled, head), own in zip(folds, models, hot_good, strict=True):
        others = sum_cells(hot_good).add(own, sign=-1)
        taught = learn_directions(others, sum_cells([hot_cells(head, *each) for each in bad]))
        judge = GaussianHead(CONFIG, group_factors(CONFIG, pooled, known=taught)).judge
        inputs = rows[fold].reshape(len(fold), -1, *CONFIG.grid_hw)
        names = [sorted(good.iterdir())[place].name for place in fold]
        np.testing.assert_allclose([by_name[name] for name in names], judge(inputs)[1], rtol=1e-3)


def test_the_same_fit_gives_the_same_bytes(good, known, learned, tmp_path):
    again = fit_small(good, config=CONFIG, options=options(known))
    save_artefact(learned, tmp_path / "one.edgeseg")
    save_artefact(again, tmp_path / "two.edgeseg")
    assert (tmp_path / "one.edgeseg").read_bytes() == (tmp_path / "two.edgeseg").read_bytes()
    loaded = load_artefact(tmp_path / "one.edgeseg")
    assert loaded.known.facts == learned.known.facts
    np.testing.assert_array_equal(loaded.known.learned.directions, learned.known.learned.directions)


def test_an_update_keeps_what_was_learned(learned, tmp_path):
    for number, image in enumerate(frames(4, first=300)):
        cv2.imwrite(str(tmp_path / f"{number}.png"), image[:, :, ::-1])
    changed = update(learned, Changes(more=open_dataset(tmp_path)), options())
    assert changed.known == learned.known
    assert share_found(changed, some("grey")) > 0.5


def test_unmarked_defects_teach_too(good, tmp_path):
    folder = write_defects(tmp_path / "defects", "grey", range(6), masks=False)
    artefact = fit_small(good, config=CONFIG, options=options(read_known_defects(folder)))
    facts = artefact.known and artefact.known.facts
    assert facts is None or facts.found >= facts.found_before


def test_the_api_takes_a_folder_and_arrays(good, known, learned):
    images = [read_image(each.image) for each in known]
    by_arrays = edgeseg.fit(good, preset=CONFIG, known={"grey": images}, options=options())
    by_folder = edgeseg.fit(good, preset=CONFIG, known=known[0].image.parents[1], options=options())
    assert by_folder.info["known"] == learned.header()["known"]
    told = by_arrays.info.get("known")
    assert told is None or told["kinds"][0]["kind"] == "grey"


def test_a_defect_among_the_good_pictures_is_refused(good):
    (first, *_) = sorted(good.iterdir())
    sample = Sample(image=first, label=1, kind="grey")
    with pytest.raises(DatasetError, match="a known defect, and among the good pictures as well"):
        fit_small(good, config=CONFIG, options=options((sample,)))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (replace(CONFIG, calibration="holdout"), "leave holdout out"),
        (replace(CONFIG, frame_hw=(160, 160)), "leave tiles out"),
    ],
)
def test_fits_that_cannot_learn_say_so(good, known, config: FitConfig, words):
    with pytest.raises(UsageError, match=words):
        fit_small(good, config=config, options=options(known))


def hot(values: NDArray[np.float64]) -> HotCells:
    return HotCells(
        square=values.T @ values / len(values),
        mean=values.mean(axis=0),
        distance=float(np.square(values).sum(axis=1).mean()),
        count=1,
    )


def test_directions_are_those_in_which_defects_exceed_good_parts():
    rng = np.random.default_rng(0)
    good_cells, far = rng.normal(size=(200, 6)), np.eye(6)[2] * 9
    known = learn_directions(hot(good_cells), hot(rng.normal(size=(10, 6)) + far))
    strength = np.square(known.directions).sum(axis=1)
    assert strength.argmax() == 2
    assert strength[2] > 0.8 * strength.sum()
    share = np.square(good_cells @ known.directions).sum(axis=1).mean() / 6
    assert share == pytest.approx(known.share, rel=0.2)  # of a good part's distance


def test_a_defect_that_is_left_out_teaches_nothing_of_itself():
    rng = np.random.default_rng(1)
    good_cells = hot(rng.normal(size=(200, 6)))
    axes = np.eye(6)
    defects = [hot(rng.normal(size=(10, 6)) * 0.1 + 9 * axes[place]) for place in (0, 0, 3)]
    *_, last = learn_from_others(good_cells, defects)
    strength = np.square(last.directions).sum(axis=1)
    assert strength[0] > 20 * strength[3]
