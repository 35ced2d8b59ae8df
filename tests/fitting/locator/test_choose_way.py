"""`locate=auto`: the way that finds most planted defects, and the simplest where that is luck."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

import edgeseg
from edgeseg.base.errors import UsageError
from edgeseg.config import FitConfig
from edgeseg.data.datasets import open_dataset
from edgeseg.data.planted.planting import Planted
from edgeseg.decision.operating_point import conformal_threshold
from edgeseg.fitting.embedding_store import EmbeddingStore
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.locator import learn_locator, trial
from edgeseg.fitting.locator.choose_way import choose_way
from edgeseg.fitting.locator.trial import TrialScores, surely_better
from edgeseg.fitting.locator.wish import check_wish
from edgeseg.fitting.process_group import ProcessGroup
from edgeseg.vision.geometry import Geometry, Roi
from edgeseg.vision.images import write_image
from tests.support.commands import FIT, fail, succeed
from tests.support.moving_parts import ANCHOR, SIZE_HW, folder_of, geometry_of, part, scattered
from tests.support.small_models import RANDOM, SMALL


@pytest.fixture(autouse=True)
def few_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "MOST_COPIES", 16)


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(tmp_path_factory.mktemp("moving"), scattered(12))


@pytest.fixture(scope="module")
def lying(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A texture that fills the picture: no outline is that of a part."""
    folder, rng = tmp_path_factory.mktemp("lying"), np.random.default_rng(0)
    ground = cv2.resize(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8), SIZE_HW[::-1])
    for number in range(10):
        grain = rng.normal(0, 3, ground.shape)
        write_image(folder / f"{number:03}.png", np.clip(ground + grain, 0, 255).astype(np.uint8))
    return folder


def fit_by_command(folder: Path, out: Path, *options: object) -> list[str]:
    """What the command says; the model is in `out`."""
    return succeed("fit", folder, *FIT, "--planted", 0, *options, "--out", out).stderr.splitlines()


def test_moving_parts_are_found_by_their_outline_as_if_it_had_been_named(moving, tmp_path):
    said = fit_by_command(moving, tmp_path / "auto", "--locate", "auto")
    told = fit_by_command(moving, tmp_path / "blob", "--locate", "blob")
    assert (tmp_path / "auto").read_bytes() == (tmp_path / "blob").read_bytes()
    about = [line for line in said if line.startswith("locate ")]
    assert about[0].startswith("locate anchor is out: it needs a mark that all parts have: locate=")
    assert about[1].startswith("locate none: ")
    assert about[2].startswith("locate blob: ")
    assert about[2].endswith("; the part is found in 12 of 12 good images")
    assert about[3].startswith("locate blob is taken: it finds ")
    learned = told[: told.index(f"fitting on 12 good images of {moving.name}")]
    assert len(learned) == 3
    assert [line for line in said if line in learned] == learned, "once"


def test_the_same_images_and_seed_give_the_same_words_and_settings(moving):
    config, results = replace(SMALL, geometry=Geometry(locate=f"auto,{ANCHOR}")), []
    for _ in range(2):
        said: list[str] = []
        options = replace(RANDOM, note=said.append)
        results.append((choose_way(open_dataset(moving), config, options), said))
    assert results[0] == results[1]
    assert results[0][0].geometry.locate == "blob"


def test_where_nothing_is_found_the_model_is_that_of_a_fit_without_locate(lying, tmp_path):
    said = fit_by_command(lying, tmp_path / "auto", "--locate", "auto")
    fit_by_command(lying, tmp_path / "none")
    assert (tmp_path / "auto").read_bytes() == (tmp_path / "none").read_bytes()
    assert any(line.startswith("locate blob is out: locate=blob: does not foll") for line in said)
    assert "locate none is taken: no other way is left" in said


@pytest.mark.parametrize(
    ("max_bad", "sentence"),
    [
        (0, "it finds no part at all in 3 of 20 good images"),
        (3, "the part is lost in 3 of 20 good images"),
    ],
)
def test_a_way_that_loses_the_part_is_out(tmp_path, monkeypatch, max_bad, sentence):
    """Also where the pictures that it was learned from all show one."""
    for most in ("LOOKED_AT", "MOVED_AND_FOUND", "COMPARED"):
        monkeypatch.setattr(learn_locator, most, 10)
    pictures = scattered(20)
    for place in (3, 9, 15):  # every second one is looked at
        pictures[place] = np.full((*SIZE_HW, 3), 205, np.uint8)
    said: list[str] = []
    options = replace(RANDOM, note=said.append, planted=0, max_bad=max_bad)
    model = edgeseg.fit(folder_of(tmp_path, pictures), preset=SMALL, locate="auto", options=options)
    assert model.artefact.config.geometry == Geometry()
    assert f"locate blob is out: {sentence}" in said


def test_a_picture_that_the_fit_skips_does_not_end_the_comparison(tmp_path):
    other = cv2.resize(part(), (150, 112))
    folder = folder_of(tmp_path, [*scattered(12), other])
    said: list[str] = []
    options = replace(RANDOM, note=said.append, planted=0, max_bad=1)
    model = edgeseg.fit(folder, preset=SMALL, locate="auto", options=options)
    assert model.artefact.config.geometry.locate == "blob"
    assert any(line.startswith(f"skipped {folder}/012.png: 150x112, expected") for line in said)


@pytest.mark.parametrize("pictures", [1, 7])
def test_too_few_images_are_not_compared(tmp_path, pictures):
    said: list[str] = []
    options = replace(RANDOM, note=said.append, planted=0)
    model = edgeseg.fit(
        folder_of(tmp_path, scattered(pictures)), preset=SMALL, locate="auto", options=options
    )
    assert model.artefact.config.geometry == Geometry()
    assert f"{pictures} good images are too few to compare ways to find parts" in said


def planted_at(x: int, y: int) -> Planted:
    mask = np.zeros(SIZE_HW, np.bool_)
    mask[y : y + 4, x : x + 4] = True
    image = part(noise=1)
    image[mask] = (250, 250, 40)
    return Planted(image_hwc=image, mask_hw=mask, kind="spot")


def way_of(geometry: Geometry) -> trial._WayTried:
    config = replace(SMALL, geometry=geometry)
    space = FeatureSpace.load(config, weights="random", note=lambda _: None)
    return trial._WayTried(space, EmbeddingStore(), RANDOM)


def test_a_defect_counts_where_people_want_it_looked_at(moving):
    named = ((60.0, 50.0), (70.0, 50.0), (70.0, 60.0), (60.0, 60.0))
    plain = way_of(Geometry(camera_hw=SIZE_HW, ignore=(named,)))
    assert not plain.look(planted_at(64, 54)).wanted
    assert plain.look(planted_at(90, 58)).wanted
    region = way_of(Geometry(camera_hw=SIZE_HW, roi=Roi(x=40, y=40, w=80, h=40)))
    assert not region.look(planted_at(20, 20)).wanted
    assert region.look(planted_at(90, 58)).wanted


def test_what_a_way_leaves_out_by_itself_counts_and_is_not_seen(moving):
    blob = way_of(geometry_of(moving, "blob"))
    dust, clean = blob.look(planted_at(20, 20)), blob.look(planted_at(64, 54))
    assert dust.wanted
    assert clean.wanted
    without = blob.look(
        Planted(image_hwc=part(noise=1), mask_hw=planted_at(20, 20).mask_hw, kind="")
    )
    np.testing.assert_array_equal(dust.inputs, without.inputs)
    assert not clean.lost
    assert not np.array_equal(clean.inputs, without.inputs[0])


def test_a_copy_whose_part_is_not_found_is_an_alarm(moving):
    blob = way_of(geometry_of(moving, "blob"))
    half = part(154, 60)
    mask = np.ones(SIZE_HW, np.bool_)
    assert blob.look(Planted(image_hwc=half, mask_hw=mask, kind="none")).lost


def scores_of(good: list[float], planted: list[float], *, rate: float = 0.1) -> TrialScores:
    owner = np.arange(len(planted)) % len(good)
    return TrialScores(
        good=np.array(good, np.float32),
        planted=np.array(planted, np.float32),
        owner=owner,
        rate=rate,
        promise="conformal",
    )


def test_the_share_found_is_that_above_the_threshold_of_the_good_ones():
    good, planted = [1.0, 2.0, 3.0, 4.0], [0.5, 4.0, 4.5, np.inf, 9.0, 3.5]
    scores = scores_of(good, planted, rate=0.25)
    assert conformal_threshold(good, false_alarm_rate=0.25).value == 4.0
    assert scores.count == 3
    # Without the part of 4.0 the threshold is 3.0; parts count as often as they are drawn.
    assert scores.share_found(np.array([0, 1, 2, 2])) == pytest.approx(5 / 6)


def test_luck_with_a_few_defects_is_no_reason():
    good = np.linspace(1, 2, 30).tolist()
    weak, strong = [1.5] * 40 + [3.0] * 20, [1.5] * 20 + [3.0] * 40
    lucky = [1.5] * 39 + [3.0] * 21
    assert surely_better(scores_of(good, strong), scores_of(good, weak), seed=0)
    assert not surely_better(scores_of(good, lucky), scores_of(good, weak), seed=0)
    assert not surely_better(scores_of(good, weak), scores_of(good, weak), seed=0)


def test_a_threshold_that_one_odd_part_decides_is_no_reason():
    """One good part alone keeps the other way from finding all: others might be without it."""
    good, planted = np.linspace(1, 2, 30).tolist(), [3.0] * 60
    odd = [*good[:-1], 4.0]
    assert scores_of(good, planted).count == 60
    assert scores_of(odd, planted, rate=0.02).count == 0
    assert not surely_better(
        scores_of(good, planted, rate=0.02), scores_of(odd, planted, rate=0.02), seed=0
    )


@pytest.mark.parametrize("locate", ["auto", f"auto,{ANCHOR}", "blob", ANCHOR, ""])
def test_what_a_fit_may_be_told(locate):
    check_wish(locate)


@pytest.mark.parametrize("locate", ["auto,", "auto,blob", "auto,anchor:1,2", "automatic", "none"])
def test_other_wishes_are_refused(locate):
    with pytest.raises(UsageError, match=r"expected blob, .*; or auto or auto,anchor:x,y,w,h"):
        check_wish(locate)


def test_tiles_and_several_processes_are_refused(moving, tmp_path):
    config = FitConfig(size_hw=(64, 64), frame_hw=(128, 128), geometry=Geometry(locate="auto"))
    with pytest.raises(UsageError, match="parts are followed as a whole, and tiles are not"):
        fit(open_dataset(moving), config, RANDOM)
    group = ProcessGroup()
    group.size = 2
    config = replace(SMALL, geometry=Geometry(locate="auto"))
    with pytest.raises(UsageError, match="ways are compared in one process"):
        fit(open_dataset(moving), config, replace(RANDOM, group=group))
    shard = ("moments", moving, *FIT, "--locate", "auto", "--shard", "0/2", "--out", tmp_path / "s")
    assert "shards do not keep where parts lie" in fail(*shard, code=2)
