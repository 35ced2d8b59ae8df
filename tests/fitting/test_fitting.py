"""The fit: its numbers by brute force, its promises of determinism and memory, its errors."""

import gc
import tracemalloc
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from edgeseg.base.errors import EdgesegError
from edgeseg.base.progress import ignore
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Sample, load_batches, open_dataset
from edgeseg.decision.operating_point import rate_threshold
from edgeseg.fitting import group_sums, image_pass
from edgeseg.fitting.feature_space import FeatureSpace
from edgeseg.fitting.fitting import FitOptions, fit, fit_in
from edgeseg.fitting.group_sums import group_factors
from edgeseg.model.artefact import Artefact, save_artefact
from edgeseg.model.gaussian_head import GaussianHead
from edgeseg.model.moments import Moments
from edgeseg.model.windows import Windows
from edgeseg.vision.part_groups import SIDE
from tests.support.moment_rows import moments_of_rows
from tests.support.small_models import RANDOM, SHOWN, SMALL, fit_small, frames, write_plate


def train_frames(data: Path, size_hw: tuple[int, int] = SMALL.size_hw) -> NDArray[np.uint8]:
    (batch,) = load_batches(open_dataset(data).train, size_hw=size_hw, batch_size=1000)
    return batch.frames


def head_of(artefact: Artefact, moments: Moments) -> GaussianHead:
    config = artefact.config
    pooled = Windows.of(config).pool_moments(moments)
    return GaussianHead(config, group_factors(config, pooled))


def said_by_fit(
    data: Path, config: FitConfig = SMALL, **options: Any
) -> tuple[Artefact, list[str]]:
    lines: list[str] = []
    artefact = fit(open_dataset(data), config, replace(RANDOM, note=lines.append, **options))
    return artefact, lines


def test_moments_are_those_of_all_images_at_once(small_artefact, plate):
    embedded = small_artefact.model().embeddings(train_frames(plate))
    whole = moments_of_rows(embedded)
    assert small_artefact.moments.images == 10
    np.testing.assert_allclose(small_artefact.moments.mean, whole.mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(small_artefact.moments.scatter, whole.scatter, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["small_artefact", "shown_artefact"])
def test_cross_calibration_is_refitting_without_the_fold(name, plate, request):
    small_artefact = request.getfixturevalue(name)
    embedded = small_artefact.model().embeddings(train_frames(plate))  # (N, k, P)
    order = np.random.default_rng(SMALL.seed).permutation(10)
    scores, peaks, d2 = [], [], []
    for fold in range(SMALL.folds):
        members = sorted(order[fold :: SMALL.folds])
        others = sorted(set(range(10)) - set(members))
        head = head_of(small_artefact, moments_of_rows(embedded[others]))
        inputs = embedded[members].reshape(len(members), -1, *SMALL.grid_hw)
        cells = head.distances(inputs)
        image_map, score = head.to_image(cells)
        scores += score.tolist()
        peaks += image_map.max(axis=(1, 2)).tolist()
        d2.append(np.square(cells.shown))
    good = small_artefact.calibration.good
    every_d2 = np.concatenate(d2)
    # The ridge is small beside float32's rounding of these features, hence the tolerance.
    np.testing.assert_allclose(good.scores, scores, rtol=1e-2)
    np.testing.assert_allclose(good.peaks, peaks, rtol=1e-2)
    np.testing.assert_allclose(good.frame_d2, every_d2.mean(axis=(1, 2)), rtol=2e-2)
    np.testing.assert_allclose(good.d2_mean, every_d2.mean(axis=0), rtol=5e-2)
    assert good.d2_mean.shape == good.d2_std.shape == SMALL.grid_hw
    assert small_artefact.calibration.method == (
        "cross-conformal, 3 folds, 10 good images, by their tail"
    )


def test_holdout_calibration(plate):
    config = replace(SMALL, calibration="holdout", holdout=0.3)
    artefact = fit_small(plate, config=config)
    assert artefact.moments.images == 7
    assert artefact.data["held_out"] == artefact.calibration.good.count == 3
    assert artefact.calibration.method == "split-conformal, 3 good images"


def test_expected_d2_is_measured_on_the_images(small_artefact, plate):
    grid = small_artefact.model()(torch.from_numpy(train_frames(plate)))[2]
    brute_force = float(grid.square().mean())
    assert small_artefact.calibration.expected_d2 == pytest.approx(brute_force, rel=1e-3)
    assert small_artefact.calibration.measured_d2 == pytest.approx(brute_force, rel=1e-3)


def test_expected_d2_is_k_where_the_proposition_holds(tmp_path):
    """More images than features, no pooling, and a ridge that is nothing beside the variances."""
    data = write_plate(tmp_path / "plate", size_hw=(32, 32), train=40)
    config = replace(SMALL, size_hw=(32, 32), k=6, rank=0, pool=1, share=1, ridge=1e-10)
    artefact = fit_small(data, config=config)
    assert artefact.calibration.expected_d2 == pytest.approx(6, rel=0.02)
    halved = fit_small(data, config=replace(config, rank=3))
    assert halved.calibration.expected_d2 == pytest.approx(3, rel=0.02)


def test_numerics_that_went_wrong_are_an_error(plate, monkeypatch):
    monkeypatch.setattr(
        group_sums, "expected_d2", lambda factors, moments, block: np.full(144, 100.0)
    )
    with pytest.raises(EdgesegError) as caught:
        fit_small(plate)
    sentence = str(caught.value)
    assert sentence.startswith("the fit is numerically unsound: mean d^2 is ")
    assert sentence.endswith("expected 100 from their moments, with ridge=1e-06; try a larger one")


def test_a_map_of_its_own_changes_the_threshold_of_pixels_alone(plate):
    """The score, its threshold and its promise are those of the same features without it."""
    space = FeatureSpace.load(SHOWN, weights="random", note=ignore)
    # Embedded by the same graph: without blocks of W its sums are rounded in another order.
    without = replace(space, config=replace(SHOWN, map_layers=()), through=space.embedder())
    shown, plain = (fit_in(each, open_dataset(plate), RANDOM) for each in (space, without))
    ours, theirs = shown.calibration, plain.calibration
    assert ours.score_threshold == theirs.score_threshold
    assert np.array_equal(ours.good.scores, theirs.good.scores)
    assert np.array_equal(shown.planted.scores, plain.planted.scores)
    assert (ours.expected_d2, ours.measured_d2) == (theirs.expected_d2, theirs.measured_d2)
    assert np.array_equal(shown.factors.factor, plain.factors.factor)
    assert np.array_equal(ours.good.grids, theirs.good.grids)
    assert plain.calibration.good.shown_grids is None
    assert ours.pixel_threshold != theirs.pixel_threshold
    peaks = ours.good.of_parts.peaks.tolist()
    limit = rate_threshold(peaks, false_alarm_rate=SHOWN.false_alarm_rate, promise=SHOWN.promise)
    assert ours.pixel_threshold == limit.value, "of the same rate"


def test_the_same_fit_gives_the_same_bytes(plate, small_artefact_path, tmp_path):
    save_artefact(fit_small(plate), tmp_path / "again.edgeseg")
    assert (tmp_path / "again.edgeseg").read_bytes() == small_artefact_path.read_bytes()
    save_artefact(fit_small(plate, config=replace(SMALL, seed=1)), tmp_path / "other.edgeseg")
    assert (tmp_path / "other.edgeseg").read_bytes() != small_artefact_path.read_bytes()


def test_batch_size_does_not_matter(plate, small_artefact):
    one = fit_small(plate, options=FitOptions(batch_size=1))
    np.testing.assert_allclose(one.moments.mean, small_artefact.moments.mean, rtol=0, atol=1e-6)
    assert one.calibration.score_threshold == pytest.approx(
        small_artefact.calibration.score_threshold, rel=1e-2
    )


def test_memory_does_not_grow_with_the_images(tmp_path):
    """All that is allocated at any step of the loops: the same for 8 images and for 32."""

    def peak(count: int) -> int:
        data = write_plate(tmp_path / f"plate{count}", size_hw=(64, 64), train=count)
        gc.collect()
        steps: list[int] = []

        def watch(items: Iterable[Any], *, length: int, label: str) -> Iterator[Any]:
            for item in items:
                steps.append(tracemalloc.get_traced_memory()[0])
                yield item

        # One small layer on a fine grid: embeddings are large beside the network.
        config = replace(SMALL, size_hw=(64, 64), layers=(1,), stride=4)
        tracemalloc.start()  # numpy tells it of its arrays
        try:
            # Planted defects hold the pictures that they are cut out of, up to a limit.
            fit_small(data, config=config, options=replace(RANDOM, progress=watch, planted=0))
        finally:
            tracemalloc.stop()
        assert len(steps) == count // RANDOM.batch_size + SMALL.folds
        return max(steps)

    few, many = peak(8), peak(32)
    embedding = 16 * 16 * 16 * 4  # bytes of one image
    assert few > 10 * embedding
    # The distances of 24 images more are two embeddings, and each leaves a small grey copy.
    assert many < few + 4 * embedding + 24 * SIDE**2


def test_size_of_the_model_does_not_grow_with_the_images(small_artefact, tmp_path):
    more = fit_small(write_plate(tmp_path / "plate", train=20))
    assert more.moments.scatter.shape == small_artefact.moments.scatter.shape == (144, 16, 16)
    assert more.factors.factor.shape == small_artefact.factors.factor.shape == (36, 16, 10)


def test_calibration_uses_a_limited_number_of_images(plate, monkeypatch):
    monkeypatch.setattr(image_pass, "CALIBRATION_LIMIT", 4)
    artefact = fit_small(plate)
    assert artefact.moments.images == 10
    assert artefact.calibration.good.count == 4


@pytest.mark.parametrize(
    "options",
    [
        {"embedding": "sampled"},
        {"embedding": "gaussian"},
        {"embedding": "identity", "rank": 20},
        {"embedding": "identity", "rank": 20, "directions": "higher", "layers": (2,)},
        {"covariance": "global", "pool": 1, "share": 1},
        {"covariance": "global"},
        {"pool": 5, "share": 3, "rank": 0.5},
        {"rank": 0, "interpolation": "nearest", "stride": 4, "share": 1, "top": 1},
        {"size_hw": (96, 64), "layers": (1, 3)},
        {"stride": 16, "share": 1, "pool": 3},
        {"map_layers": (1, 2)},
        {"map_layers": (3,), "map_ridge": 0.01, "covariance": "global"},
        {"map_layers": (1,), "moments": "blocks", "share": 2, "rank": 0},
        {"map_layers": (1, 2, 3), "pool": 1, "share": 1, "rank": 1, "directions": "higher"},
        {"map_layers": (2,), "layers": (2,), "k": 1, "embedding": "sampled"},
        {"map_layers": (1, 2), "embedding": "identity", "rank": 20, "calibration": "holdout"},
    ],
    ids=lambda options: "-".join(f"{name}={value}" for name, value in options.items()),
)
def test_every_option_gives_a_sound_model(plate, options):
    config = replace(SMALL, **options)
    artefact = fit_small(plate, config=config)
    new = torch.from_numpy(frames(2, size_hw=config.size_hw, first=100))
    image_map, score, grid, *own, apart = artefact.model()(new)
    assert image_map.shape == (2, *config.size_hw)
    assert apart.shape[:2] == (2, grid[0].numel())
    assert [each.shape for each in (grid, *own)] == [(2, *config.grid_hw)] * (1 + len(own))
    assert bool(own) == bool(config.map_layers)
    assert torch.isfinite(image_map).all()
    assert float(score.min()) > 0
    assert artefact.calibration.expected_d2 > 0


def test_anomalies_choose_the_threshold_by_f1(plate):
    anomalies = tuple(
        Sample(image=sample.image) for sample in open_dataset(plate).test if sample.label
    )
    artefact, lines = said_by_fit(plate, anomalies=anomalies)
    count = len(anomalies)
    assert artefact.calibration.method == f"best F1, 10 good images and {count} anomalies"
    origin = {"kind": "best_f1", "anomalies": count}
    assert origin.items() <= artefact.header()["calibration"]["origin"].items()
    assert not any("answer for" in line for line in lines)


def test_notes(plate):
    _, lines = said_by_fit(plate, replace(SMALL, k=500, false_alarm_rate=0.01))
    assert lines == [
        "k=500 is cut to 88, all features of mobilenet_v3_small",
        "fitting on 10 good images of plate",
        "10 good images answer for a false-alarm rate of 9.1%, not 1.0%; 99 would do",
    ]
    artefact, lines = said_by_fit(plate, replace(SMALL, embedding="identity", k=500))
    assert artefact.embedding.shape == (88, 88)
    assert lines == ["fitting on 10 good images of plate"]


def test_without_moments(plate):
    artefact = fit_small(plate, options=replace(RANDOM, keep_moments=False))
    assert artefact.moments is None
    assert artefact.data["fitted"] == 10


def test_what_an_artefact_says_of_its_data(small_artefact):
    data = dict(small_artefact.data)
    highest = data.pop("highest")
    assert data == {
        "name": "plate", "layout": "mvtec", "fitted": 10, "held_out": 0, "unreadable": [],
        "camera_hw": [96, 96],
    }  # fmt: skip
    scores = small_artefact.calibration.good.scores
    assert [row["score"] for row in highest] == sorted(scores.tolist(), reverse=True)
    assert {row["image"] for row in highest} == {f"{place:03}.png" for place in range(10)}
    assert small_artefact.origin.random
    assert set(small_artefact.versions) == {"edgeseg", "torch", "torchvision", "numpy", "python"}
