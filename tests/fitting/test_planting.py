"""Planted defects of a fit: scored by models without their image, and without a trace elsewhere."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors import safe_open

from edgeseg.base.errors import UsageError
from edgeseg.config import FitConfig
from edgeseg.data.datasets import load_batches, open_dataset
from edgeseg.data.planted.planting import planted_set
from edgeseg.decision.planted_scores import PlantedScores
from edgeseg.fitting.held_out import permutation
from edgeseg.fitting.options import Changes, FitOptions
from edgeseg.fitting.planting import FRAME_BYTES, Plan, copies_of
from edgeseg.fitting.update import update
from edgeseg.model.artefact import Artefact, load_artefact, save_artefact
from edgeseg.model.factors import make_factors
from edgeseg.model.gaussian_head import GaussianHead
from edgeseg.model.windows import Windows
from tests.support.moment_rows import moments_of_rows
from tests.support.shares import TINY, write_tiny
from tests.support.small_models import RANDOM, fit_small


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("tiny") / "plate", train=9)


@pytest.fixture(scope="module")
def fitted(data) -> Artefact:
    return fit_small(data, config=TINY, options=replace(RANDOM, planted=6))


def good_frames(data: Path) -> np.ndarray:
    (batch,) = load_batches(open_dataset(data).train, size_hw=TINY.size_hw, batch_size=100)
    return batch.frames


def head_without(artefact: Artefact, embedded: NDArray[np.float32], out: list[int]) -> GaussianHead:
    config = artefact.config
    others = [place for place in range(len(embedded)) if place not in out]
    pooled = Windows.of(config).pool_moments(moments_of_rows(embedded[others]))
    factors = make_factors(
        pooled, ridge=config.ridge, rank=config.rank, directions=config.directions
    )
    return GaussianHead(config, factors)


def test_scores_are_those_of_models_without_the_image(data, fitted):
    """By brute force: the copies made again, and a model of all images but those of the fold."""
    frames, order = good_frames(data), permutation(9, TINY.seed)
    places = order[:6]
    copies = list(planted_set(frames[places], per_image=1, seed=TINY.seed))
    embed = fitted.model().embeddings
    embedded = embed(frames)
    folds = [order[fold :: TINY.folds] for fold in range(TINY.folds)]
    scores = []
    for place, copy in zip(places, copies, strict=True):
        (fold,) = (fold for fold in folds if place in fold)
        pair = embed(np.stack([copy.image_hwc] * 2)).reshape(2, -1, *TINY.grid_hw)
        _, score = head_without(fitted, embedded, fold).judge(pair)
        scores.append(float(score[0]))
    np.testing.assert_allclose(fitted.planted.scores, scores, rtol=2e-2)
    assert fitted.planted.kinds == tuple(copy.kind for copy in copies)
    shares = [copy.area_px / copy.mask_hw.size for copy in copies]
    np.testing.assert_allclose(fitted.planted.areas, shares, rtol=1e-6)


@pytest.mark.parametrize(
    "config", [TINY, replace(TINY, calibration="holdout", holdout=0.3)], ids=["cross", "holdout"]
)
def test_nothing_else_changes(data, tmp_path, config: FitConfig):
    for name, planted in (("with", 5), ("without", 0)):
        options = replace(RANDOM, planted=planted)
        save_artefact(fit_small(data, config=config, options=options), tmp_path / name)
    files = [safe_open(tmp_path / name, framework="np") for name in ("with", "without")]
    ours, theirs = ({key: file.get_tensor(key).tobytes() for key in file.keys()} for file in files)  # noqa: SIM118
    new = {"planted.scores", "planted.areas", "planted.floors"}
    assert {key for key in ours if key not in theirs} == new
    assert all(ours[key] == value for key, value in theirs.items())
    headers = [load_artefact(tmp_path / name).header() for name in ("with", "without")]
    kinds = headers[0].pop("planted")["kinds"]
    assert len(kinds) == (5 if config is TINY else 4)  # two of each image, where there are few
    limits = [header["calibration"].pop("foreign_limit") for header in headers]
    assert limits[0] >= limits[1], "a planted defect stays a defect"
    assert headers[0] == headers[1]


def test_they_come_back_from_the_file(fitted, tmp_path):
    save_artefact(fitted, tmp_path / "m.edgeseg")
    loaded = load_artefact(tmp_path / "m.edgeseg").planted
    np.testing.assert_array_equal(loaded.scores, fitted.planted.scores)
    np.testing.assert_array_equal(loaded.areas, fitted.planted.areas)
    np.testing.assert_array_equal(loaded.floors, fitted.planted.floors)
    assert loaded.kinds == fitted.planted.kinds


def test_an_updated_model_has_none(fitted, tmp_path):
    """They were judged by models of other moments."""
    new = open_dataset(write_tiny(tmp_path / "plate", train=2, seed=7))
    grown = update(fitted, Changes(more=new), RANDOM)
    assert grown.planted is None
    assert "planted" not in grown.header()


def test_one_image_alone_has_none(tmp_path):
    data = write_tiny(tmp_path / "plate", train=1)
    assert fit_small(data, config=TINY).planted is None


def test_how_many():
    small = (256, 256)
    assert Plan.of(48, images=200, image_hw=small) == Plan(images=48, per_image=1)
    assert Plan.of(48, images=48, image_hw=small) == Plan(images=48, per_image=1)
    assert Plan.of(48, images=47, image_hw=small) == Plan(images=24, per_image=2)
    assert Plan.of(48, images=10, image_hw=small) == Plan(images=10, per_image=2)
    assert Plan.of(1, images=10, image_hw=small) == Plan(images=1, per_image=1)
    large = Plan.of(48, images=200, image_hw=(2160, 3840))
    assert 1 <= large.images <= FRAME_BYTES / (3 * 2160 * 3840)
    with pytest.raises(UsageError, match="planted=-1: expected 0"):
        FitOptions(planted=-1)


def test_images_that_take_no_defect_are_left_out(monkeypatch):
    """Pixels that nobody can change by much: others keep the copies that they would have had."""
    from edgeseg.data.planted import planting

    frames = list(np.random.default_rng(0).integers(90, 160, (4, 48, 48, 3), np.uint8))
    whole = dict(copies_of(frames, per_image=1, seed=0))
    visible = planting._visible
    monkeypatch.setattr(
        planting,
        "_visible",
        lambda good, changed, shape: (
            good.image_hwc is not frames[1] and visible(good, changed, shape)
        ),
    )
    some = dict(copies_of(frames, per_image=1, seed=0))
    assert list(whole) == [0, 1, 2, 3]
    assert list(some) == [0, 2, 3]
    for place, copy in some.items():
        np.testing.assert_array_equal(copy.image_hwc, whole[place].image_hwc)


def test_scores_without_their_kinds_are_refused():
    values = np.ones(2, np.float32)
    with pytest.raises(UsageError, match="expected one of each"):
        PlantedScores(scores=values, areas=values, kinds=("paste",))
