"""Images that do not belong: the cut by simulation, masking, and the screening of a dataset."""

from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError
from edgeseg.base.progress import ignore, silent
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Sample, open_dataset
from edgeseg.decision.outliers import EXPECTED_BY_CHANCE, Yardstick, cut_for
from edgeseg.fitting.embedding_store import EmbeddingStore
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.screening import screen as robust
from edgeseg.fitting.screening.screen import Screening, Suspect, screen
from tests.support.small_models import RANDOM, SMALL, write_plate


@pytest.mark.parametrize("images", [8, 10, 60, 199, 200, 1000])
def test_the_cut_lists_as_many_good_images_as_it_says(images):
    rng = np.random.default_rng(1)  # other draws than those of the cut
    repeats = 3000
    listed = 0
    for _ in range(repeats):
        scores = np.exp(3 + 0.2 * rng.standard_normal(images))
        listed += int((Yardstick.of(scores).spreads(scores) > cut_for(images)).sum())
    # Some 300 are listed, give or take 20 (in small sets they come in pairs): 4 such deviations.
    assert listed / repeats == pytest.approx(EXPECTED_BY_CHANCE, rel=0.25)


def test_a_yardstick_is_not_moved_by_a_few():
    scores = np.exp(np.random.default_rng(0).standard_normal(1001))
    yardstick = Yardstick.of(scores)
    assert yardstick.middle == pytest.approx(0, abs=0.1)
    assert yardstick.spread == pytest.approx(1, abs=0.1)
    assert yardstick.score_at(2) == pytest.approx(np.exp(2), rel=0.3)
    moved = Yardstick.of(np.append(scores, np.full(50, 1e6)))
    assert moved.middle == pytest.approx(yardstick.middle, abs=0.1)
    assert moved.spreads(np.array([1e6]))[0] > 10


def test_equal_scores_make_no_suspects():
    scores = np.full(20, 5.0)
    assert Yardstick.of(scores).spreads(scores + 0.01).max() < cut_for(20)
    assert np.isfinite(Yardstick.of(np.zeros(20)).spreads(np.zeros(20))).all()


def compared(x_nkp: NDArray[np.float32], config: FitConfig) -> Screening:
    """Screen embeddings as they are, of images named by their places."""
    space = FeatureSpace.load(config, weights="random", note=ignore)
    windows = space.windows
    moments = windows.new_moments(space.k)
    windows.add_(moments, space.inputs(x_nkp), images=len(x_nkp))
    with EmbeddingStore() as store:
        for place, row in enumerate(x_nkp):
            store.append(row, place)
        samples = [Sample(image=Path(str(place))) for place in range(len(x_nkp))]
        return robust._Comparison(space, windows.pool_moments(moments), store, silent).screening(
            samples
        )


def names(screening: Screening) -> set[str]:
    return {suspect.sample.image.name for suspect in screening.suspects}


def with_a_hidden_one() -> NDArray[np.float32]:
    """Sixty images of 4 x 4 cells; one has a strong defect, one a weak one at the same place."""
    x = np.random.default_rng(1).normal(size=(60, 4, 16)).astype(np.float32)
    x[0, 1, 5] += 200.0
    x[1, 1, 5] += 20.0
    return x


def test_an_image_that_others_hide_is_found_in_a_later_round(monkeypatch):
    config = replace(SMALL, size_hw=(32, 32), k=4, pool=1, share=1, ridge=0.1, top=2)
    screening = compared(with_a_hidden_one(), config)
    assert [suspect.sample.image.name for suspect in screening.suspects] == ["0", "1"]
    assert screening.rounds == 3  # the last one found nothing
    monkeypatch.setattr(robust, "MOST_ROUNDS", 1)
    assert names(compared(with_a_hidden_one(), config)) == {"0"}


def test_scores_are_those_of_a_fit_without_the_suspects():
    config = replace(SMALL, size_hw=(32, 32), k=4, pool=1, share=1, ridge=0.1, top=2)
    x = with_a_hidden_one()
    suspect = compared(x, config).suspects[0]
    place, others = int(suspect.sample.image.name), x[2:].astype(np.float64)
    centred = others - others.mean(axis=0)
    covariance = np.einsum("nkp,nlp->pkl", centred, centred) / len(others)
    z = x[place] - others.mean(axis=0)  # (k, P)
    u = np.linalg.solve(covariance + 0.1 * np.eye(4), z.T[:, :, None])[:, :, 0]  # (P, k)
    cells = np.sort(np.linalg.norm(u, axis=1) * 0.1**0.5)[-2:]
    assert suspect.score == pytest.approx(float(cells.mean()), rel=1e-5)


def test_where_it_is_wrong():
    config = replace(SMALL, size_hw=(32, 32), k=4, pool=1, share=1, ridge=0.1, sigma=1.0)
    suspect = compared(with_a_hidden_one(), config).suspects[0]
    x, y = suspect.peak_xy  # cell 5 is the second of the second row
    assert 0.25 < x < 0.5
    assert 0.25 < y < 0.5
    assert 0.05 < suspect.extent < 0.5
    assert suspect.map_hw.shape == (32, 32)


def test_a_second_kind_of_part_is_not_a_few_bad_images():
    x = np.random.default_rng(0).normal(size=(60, 4, 16)).astype(np.float32)
    for image in range(20):  # each in a way of its own, so that none hides another
        x[image, image // 16, image % 16] += 30.0
    config = replace(SMALL, size_hw=(32, 32), k=4, pool=1, share=1, ridge=0.1)
    screening = compared(x, config)
    assert screening.too_many
    assert len(screening.suspects) < 60


def add_foreign(data: Path, name: str = "foreign.png") -> Path:
    """The negative of a good image among the good ones."""
    good = sorted((data / "train/good").iterdir())[0]
    cv2.imwrite(str(data / "train/good" / name), 255 - cv2.imread(str(good)))
    return data


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve good images of 64x64 and one that is none."""
    folder = tmp_path_factory.mktemp("spoilt") / "plate"
    return add_foreign(write_plate(folder, size_hw=(64, 64), train=12))


TINY = replace(SMALL, size_hw=(64, 64), k=8, rank=5)
FORMS = {
    "edge": {},
    "paper": {
        "stride": 4, "interpolation": "nearest", "pool": 1, "share": 1, "rank": 0, "top": 1,
        "calibration": "holdout",
    },
    "fewer images than directions": {"k": 40},
    "one covariance": {"covariance": "global"},
    "moments of windows": {"moments": "blocks"},
    "tiles": {"size_hw": (32, 32), "frame_hw": (64, 64), "overlap": 8},
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_foreign_image_is_found_in_every_form(spoilt, form):
    dataset = open_dataset(spoilt)
    screening = screen(dataset, replace(TINY, **form), RANDOM)
    assert screening.images == 13
    assert "foreign.png" in names(screening)
    assert screening.suspects[0].map_hw.shape == (64, 64)
    assert screening.middle < screening.limit < screening.suspects[0].score
    kept = screening.without_suspects(dataset)
    assert len(kept.train) == 13 - len(screening.suspects)
    assert kept.test == dataset.test


def test_the_same_images_give_the_same_suspects(spoilt):
    first, second = (screen(open_dataset(spoilt), TINY, RANDOM) for _ in range(2))
    assert [one.score for one in first.suspects] == [one.score for one in second.suspects]


@pytest.mark.parametrize("images", [1, 7])
def test_too_few_images_to_compare(tmp_path, images):
    data = write_plate(tmp_path / "plate", size_hw=(64, 64), train=images)
    screening = screen(open_dataset(data), TINY, RANDOM)
    assert (screening.images, screening.suspects, screening.rounds) == (images, (), 0)
    assert not screening.too_many


def test_images_that_are_all_the_same(tmp_path):
    data = write_plate(tmp_path / "plate", size_hw=(64, 64), train=1)
    good = data / "train/good"
    picture = next(good.iterdir()).read_bytes()
    for name in "abcdefgh":
        (good / f"{name}.png").write_bytes(picture)
    assert screen(open_dataset(data), TINY, RANDOM).suspects == ()


def test_unreadable_images_are_passed_over(tmp_path):
    data = add_foreign(write_plate(tmp_path / "plate", size_hw=(64, 64), train=12))
    (data / "train/good/004.png").write_bytes(b"no picture")
    screening = screen(open_dataset(data), TINY, replace(RANDOM, max_bad=1))
    assert screening.images == 12
    assert "foreign.png" in names(screening)


def test_a_disk_that_is_too_small(spoilt, monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(robust.shutil, "disk_usage", lambda _: usage(free=1000))
    monkeypatch.setattr(robust.tempfile, "gettempdir", lambda: "temporary")
    with pytest.raises(EdgesegError) as caught:
        screen(open_dataset(spoilt), TINY, RANDOM)
    assert str(caught.value) == (
        "comparing 13 images needs 26.6 kB in temporary, which has 1.0 kB; "
        "set TMPDIR to a folder on a larger disk"
    )


def test_suspects_leave_a_dataset(spoilt):
    dataset = open_dataset(spoilt)
    suspect = Suspect(
        sample=dataset.train[3], score=1.0, spreads=9.0, peak_xy=(0, 0), extent=0.1,
        map_hw=np.zeros((64, 64), np.float32),
    )  # fmt: skip
    kept = Screening(images=13, suspects=(suspect,)).without_suspects(dataset)
    assert kept == replace(dataset, train=dataset.train[:3] + dataset.train[4:])
