"""A part that is pictured often counts once: in folds, threshold, rate, and in what is said."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeseg.config import FitConfig
from edgeseg.data.datasets import open_dataset
from edgeseg.decision.operating_point import guarantee, operating_point, rate_threshold
from edgeseg.decision.prediction import above
from edgeseg.fitting import image_pass
from edgeseg.fitting.embedding_store import EmbeddingStore
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.options import Changes, FitOptions, Shard
from edgeseg.fitting.parallel.shards import merge_shards, write_shard
from edgeseg.fitting.part_evidence import evidence_apart, evidence_by_folds
from edgeseg.fitting.process_group import ALONE
from edgeseg.fitting.update import update
from edgeseg.model.artefact import Artefact, load_artefact, save_artefact
from edgeseg.model.predictor import frame_predictor, torch_predictor
from edgeseg.vision.group_by import GroupBy
from edgeseg.vision.images import write_image
from tests.support.retakes import Picture, pictured, resting
from tests.support.small_models import RANDOM, SMALL

SIZE = 64
# More directions than parts: what a few parts do not show looks odd on the next.
CONFIG = replace(
    SMALL,
    size_hw=(SIZE, SIZE),
    false_alarm_rate=0.02,
    folds=5,
    k=24,
    rank=0.64,
    layers=(1, 2),
    pool=1,
    share=1,
)
FAST = replace(RANDOM, planted=0)


def frames(parts: int, times: int, *, first: int = 0) -> list[Picture]:
    return pictured(parts, times, size=SIZE, first=first, again=resting)


def folder_of(folder: Path, pictures: Sequence[Picture], *, times: int) -> Path:
    for at, picture_hwc in enumerate(pictures):
        write_image(folder / f"p{at // times:02}_{at % times}.png", picture_hwc)
    return folder


@pytest.fixture(scope="module")
def fifteen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifteen parts that rest under the camera for eight frames each."""
    return folder_of(tmp_path_factory.mktemp("data") / "good", frames(15, 8), times=8)


@pytest.fixture(scope="module")
def model(fifteen: Path) -> Artefact:
    return fit(open_dataset(fifteen), CONFIG, FAST)


def alarms(model: Artefact, pictures: Sequence[Picture], *, rate: float) -> float:
    """The share of pictures above the threshold of a rate."""
    parts = model.calibration.good.of_parts
    threshold = operating_point(parts.scores, parts.peaks, promise="conformal", rate=rate).score
    predict = frame_predictor(torch_predictor(model.model()), model.config)
    scores = np.array([float(predict(picture[None])[1][0]) for picture in pictures])
    return float(np.mean(above(scores, threshold)))


def test_fifteen_parts_promise_one_in_sixteen(model: Artefact, fifteen: Path) -> None:
    calibration = model.calibration
    assert (calibration.images, calibration.parts, calibration.grouping) == (120, 15, "pictures")
    assert calibration.answered_rate == pytest.approx(1 / 16)
    assert calibration.method.endswith("120 good images of 15 different parts, by their tail")
    assert str(guarantee(calibration.thresholds)).startswith("not exact: near-copies among 120")
    statistics = calibration.statistics
    assert (statistics.count, statistics.pictures, len(statistics.scores)) == (15, 120, 15)
    scores = calibration.good.of_parts.scores.tolist()
    limit = rate_threshold(scores, false_alarm_rate=1 / 16, promise="tail").value
    assert calibration.score_threshold == pytest.approx(limit)


def test_new_parts_alarm_no_more_often_than_promised(model: Artefact, fifteen: Path) -> None:
    new = frames(60, 1, first=500)
    told_none = replace(FAST, group_by=GroupBy(text="none"))
    ungrouped = fit(open_dataset(fifteen), CONFIG, told_none)
    assert ungrouped.calibration.answered_rate == 0.02
    assert alarms(ungrouped, new, rate=0.02) > 0.9, "what counting pictures does"
    assert alarms(model, new, rate=0.02) < 0.2  # 1 in 16: of 60 hardly ever more than 11


def test_fifty_parts_seen_twice_are_fifty(tmp_path: Path) -> None:
    data = open_dataset(folder_of(tmp_path / "good", frames(50, 2), times=2))
    fitted = fit(data, CONFIG, FAST)
    assert (fitted.calibration.images, fitted.calibration.parts) == (100, 50)
    assert fitted.calibration.answered_rate == 0.02
    assert alarms(fitted, frames(60, 1, first=500), rate=0.02) < 0.1


def test_a_part_stays_in_one_fold_and_counts_once(model: Artefact) -> None:
    good = model.calibration.good
    assert good.groups.size == good.count == 120
    names = [Path(name).name.partition("_")[0] for name in good.images]
    pairs = set(zip(good.groups.tolist(), names, strict=True))
    assert len(pairs) == 15, "a group is a part"
    runs = 1 + int(np.count_nonzero(np.diff([int(name[1:]) for name in names]) != 0))
    assert runs == 15, "sorted by fold and place, pictures of one part lie together"
    highest = [max(s for s, g in zip(good.scores, good.groups, strict=True) if g == part)
               for part in dict.fromkeys(good.groups.tolist())]  # fmt: skip
    assert good.of_parts.scores.tolist() == highest
    assert len(good.leading) == 15
    assert good.scores[good.leading[0]] == good.scores.max()


def test_files_keep_parts(model: Artefact, tmp_path: Path) -> None:
    save_artefact(model, tmp_path / "m.edgeseg")
    kept = load_artefact(tmp_path / "m.edgeseg")
    assert kept.calibration.thresholds == model.calibration.thresholds
    assert kept.calibration.good.parts == 15
    assert len(kept.data["highest"]) == 10
    assert len({each["image"][:3] for each in kept.data["highest"]}) == 10, "one of each part"


def test_different_parts_are_fitted_as_ever(tmp_path: Path) -> None:
    """Folds and scores to the bit, and no groups in the file."""
    data = open_dataset(folder_of(tmp_path / "good", frames(12, 1), times=1))
    found = fit(data, CONFIG, FAST).calibration
    told = fit(data, CONFIG, replace(FAST, group_by=GroupBy(text="none"))).calibration
    assert found.good.groups.size == 0
    assert found.grouping is None
    np.testing.assert_array_equal(found.good.scores, told.good.scores)
    assert found.good.images == told.good.images
    assert found.thresholds == told.thresholds
    assert found.method == "cross-conformal, 5 folds, 12 good images, by their tail"


@pytest.mark.parametrize("by", ["name:_", r"match:p\d+"])
def test_what_is_told_is_exact_and_groups_alike(fifteen: Path, model: Artefact, by: str) -> None:
    told = fit(open_dataset(fifteen), CONFIG, replace(FAST, group_by=GroupBy(text=by)))
    calibration = told.calibration
    np.testing.assert_array_equal(calibration.good.scores, model.calibration.good.scores)
    assert (calibration.parts, calibration.grouping) == (15, "told")
    assert told.data["group_by"] == by
    assert str(guarantee(calibration.thresholds)).startswith("modelled, not proven")
    by_ranks = replace(calibration.thresholds, promise="conformal")
    assert str(guarantee(by_ranks)).startswith("not exact (cross conformal)")


def test_copies_of_one_part_promise_nothing(tmp_path: Path) -> None:
    lines: list[str] = []
    data = folder_of(tmp_path / "good", frames(1, 10), times=10)
    options = replace(FAST, note=lines.append)
    calibration = fit(open_dataset(data), CONFIG, options).calibration
    assert calibration.answered_rate == 1.0
    assert (calibration.images, calibration.parts) == (10, 1)
    assert calibration.statistics.scores == ()
    assert str(guarantee(calibration.thresholds)).startswith("no promise")
    assert calibration.foreign_limit is not None, "a covered lens is still known"
    assert any("10 good images of 1 different part" in line for line in lines)
    assert any("49 different parts promise 2 %" in line for line in lines)


def test_images_kept_apart_count_only_if_no_near_copy_was_fitted(fifteen: Path) -> None:
    lines: list[str] = []
    config = replace(CONFIG, calibration="holdout", holdout=0.3)
    options = replace(FAST, note=lines.append)
    calibration = fit(open_dataset(fifteen), config, options).calibration
    assert calibration.answered_rate == 1.0, "every part has a fitted picture"
    assert any("do not count for the threshold" in line for line in lines)
    told = replace(FAST, group_by=GroupBy(text="name:_"))
    calibration = fit(open_dataset(fifteen), config, told).calibration
    assert calibration.images == 8 * calibration.parts
    assert calibration.parts == 4, "three tenths of the parts, whole"
    assert calibration.answered_rate == pytest.approx(1 / 5)
    names = {Path(name).name.partition("_")[0] for name in calibration.good.images}
    assert len(names) == 4


def test_shards_find_the_same_parts_as_one_process(
    fifteen: Path, model: Artefact, tmp_path: Path
) -> None:
    dataset, paths = open_dataset(fifteen), []
    for index in range(3):
        paths.append(tmp_path / f"s{index}")
        shard = Shard(index=index, count=3)
        write_shard(dataset, CONFIG, FAST, shard=shard, path=paths[-1])
    merged = merge_shards(paths, FAST).calibration
    assert merged.parts == 15
    np.testing.assert_array_equal(merged.good.groups, model.calibration.good.groups)
    np.testing.assert_allclose(
        merged.good.scores, model.calibration.good.scores, rtol=1e-4, atol=1e-6
    )


def test_new_images_that_are_near_copies_count_once(tmp_path: Path) -> None:
    base = fit(
        open_dataset(folder_of(tmp_path / "base", frames(8, 1), times=1)),
        CONFIG,
        FAST,
    )
    more = folder_of(tmp_path / "more", frames(3, 6, first=100), times=6)
    changed = update(base, Changes(more=open_dataset(more)), FAST).calibration
    assert (changed.images, changed.parts) == (8 + 18, 8 + 3)
    assert changed.answered_rate == pytest.approx(1 / 12)
    assert changed.grouping == "pictures"
    apart = folder_of(tmp_path / "apart", frames(5, 4, first=200), times=4)
    changes = Changes(more=open_dataset(more), calibrate=open_dataset(apart))
    changed = update(base, changes, FAST).calibration
    assert (changed.images, changed.parts) == (20, 5)


def filled(store: EmbeddingStore, pictures: Sequence[Picture], stored: Sequence[int]) -> None:
    for place, picture_hwc in enumerate(pictures):
        store.grey_copies.add(place, picture_hwc)
    for place in stored:
        store.append(np.zeros((1, 1), np.float32), place)


def test_an_image_is_no_evidence_while_a_near_copy_stays_in_its_model() -> None:
    """Of many images not all are stored; what is not stored cannot be taken out."""
    pictures = frames(6, 2)
    with EmbeddingStore() as seen, EmbeddingStore() as unseen:
        filled(seen, pictures, [0, 1, 2, 4, 5])
        evidence = evidence_by_folds(seen, ALONE)
        assert sorted(evidence.parts) == [0, 1, 4, 5]
        assert (evidence.count, evidence.left_out) == (2, 1)
        filled(unseen, frames(3, 2, first=4), range(6))
        apart = evidence_apart(seen, unseen, ALONE)
        assert sorted(apart.parts) == [4, 5], "parts 4 and 5 were fitted, part 6 was not"


def test_of_known_parts_all_images_are_kept_or_none(monkeypatch, fifteen: Path) -> None:
    monkeypatch.setattr(image_pass, "CALIBRATION_LIMIT", 40)
    told = replace(FAST, group_by=GroupBy(text="name:_"))
    calibration = fit(open_dataset(fifteen), CONFIG, told).calibration
    assert (calibration.images, calibration.parts) == (40, 5)


def test_the_defaults_know_nothing() -> None:
    assert FitOptions().group_by == GroupBy()
    assert "group_by" not in FitConfig().to_dict()
