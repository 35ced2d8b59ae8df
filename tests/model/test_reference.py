"""The reference forward against an independent one, written plainly with NumPy and SciPy."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import ndimage
from torch.nn import functional

from edgeseg.config import FitConfig
from edgeseg.fitting.group_sums import group_factors
from edgeseg.model.artefact import Artefact
from edgeseg.model.backbones import IMAGENET_MEAN, IMAGENET_STD
from edgeseg.model.embedding import fit_embedding
from edgeseg.model.factors import Factors, MapFactors
from edgeseg.model.gaussian_head import GaussianHead
from edgeseg.model.map_layers import map_width
from edgeseg.model.reference import Preprocess, ReferenceModel, as_tensor
from edgeseg.model.weights import load_backbone
from edgeseg.model.windows import Windows
from edgeseg.vision.upsampling import upsampling_operator
from tests.support.moment_rows import moments_of_rows
from tests.support.small_models import SHOWN, SMALL, frames

Array = NDArray[np.float64]

PAPER = replace(FitConfig.preset("paper"), backbone=SMALL.backbone, k=12, ridge=1e-5)


def upsampled(values_hw: Array, size_hw: tuple[int, int], mode: str) -> Array:
    tensor = torch.from_numpy(values_hw)[None, None]
    corners = {} if mode == "nearest" else {"align_corners": False}
    result: Array = functional.interpolate(tensor, size=size_hw, mode=mode, **corners)[0, 0].numpy()
    return result


def features_on_grid(
    model: ReferenceModel, frame_hwc: NDArray[np.uint8], config: FitConfig
) -> Array:
    """All F features of every cell (F, h, w): concatenated first, as the paper has it."""
    pixels = (frame_hwc / 255.0 - IMAGENET_MEAN) / IMAGENET_STD
    x = torch.from_numpy(pixels.transpose(2, 0, 1)[None]).float()
    planes = []
    for feature_map in model.backbone(x):
        factor = feature_map.shape[2] // config.grid_hw[0]
        if factor > 1:
            feature_map = functional.avg_pool2d(feature_map, factor)
        for plane in feature_map[0].double().numpy():
            planes.append(upsampled(plane, config.grid_hw, config.interpolation))
    return np.stack(planes)


def plain_distance(x: Array, rows: Array, *, rank: int, ridge: float) -> float:
    """Mahalanobis distance of x (k,) from rows (n, k), in the `rank` smallest directions."""
    values, vectors = np.linalg.eigh(np.cov(rows.T, bias=True).reshape(rows.shape[1], -1))
    along = vectors[:, :rank].T @ (x - rows.mean(axis=0))
    return float(np.sqrt((along**2 / (values[:rank] + ridge)).sum()))


def plain_map(
    train: NDArray[np.uint8],
    frame: NDArray[np.uint8],
    model: ReferenceModel,
    weight: Array,
    config: FitConfig,
) -> tuple[Array, Array, Array]:
    """Grid, the map's own grid and map of a frame, with loops over cells and explicit inverses."""
    fitted = np.stack([features_on_grid(model, image, config) for image in train])
    fitted = np.einsum("fk,nfhw->nkhw", weight, fitted)
    new = np.einsum("fk,fhw->khw", weight, features_on_grid(model, frame, config))
    (height, width), share, reach = config.grid_hw, config.share, config.pool // 2

    def window(row: int, column: int) -> Array:
        top, left = row // share * share, column // share * share
        part = fitted[
            :,
            :,
            max(0, top - reach) : top + share + reach,
            max(0, left - reach) : left + share + reach,
        ]
        rows: Array = part.transpose(0, 2, 3, 1).reshape(-1, weight.shape[1])
        return rows

    cells = [(row, column) for row in range(height) for column in range(width)]
    at = {cell: (new[:, cell[0], cell[1]], window(*cell)) for cell in cells}
    k, own_k = weight.shape[1], map_width(config)
    rank = k if config.rank == 0 else int(config.rank)
    grid = np.empty((height, width))
    for cell, (x, rows) in at.items():
        grid[cell] = plain_distance(x, rows, rank=rank, ridge=config.ridge)
    shown = grid.copy()
    if own_k:
        squares = np.mean([np.square(rows).mean(axis=0) for _, rows in at.values()], axis=0)
        both, alone = (config.map_ridge * squares[:part].mean() for part in (k, own_k))
        near, own = np.empty_like(grid), np.empty_like(grid)
        own_rank = max(1, round(own_k * rank / k))
        for cell, (x, rows) in at.items():
            near[cell] = plain_distance(x, rows, rank=rank, ridge=both)
            own[cell] = plain_distance(x[:own_k], rows[:, :own_k], rank=own_rank, ridge=alone)
        shown = near * (own / own.mean()) ** (2 / 3)
    image = upsampled(shown, config.size_hw, "bilinear")
    blurred = ndimage.gaussian_filter(image, config.sigma, mode="reflect", truncate=4)
    return grid, shown, blurred


def fitted_model(config: FitConfig, train: NDArray[np.uint8]) -> tuple[ReferenceModel, Array]:
    backbone, _ = load_backbone(config.backbone, layers=config.layers, weights="random")
    weight = fit_embedding(config).numpy()
    windows = Windows.of(config)
    zeros = Factors(
        mean=np.zeros((windows.count, weight.shape[1]), np.float32),
        factor=np.zeros((1, weight.shape[1], 1), np.float32),
    )
    blank = ReferenceModel(config, backbone=backbone, embedding=weight, factors=zeros)
    moments = moments_of_rows(blank.embeddings(train))
    factors = group_factors(config, windows.pool_moments(moments))
    model = ReferenceModel(config, backbone=backbone, embedding=weight, factors=factors)
    return model, weight


@pytest.mark.parametrize(
    "config",
    [
        replace(PAPER, size_hw=(64, 64)),
        replace(PAPER, size_hw=(96, 64), layers=(2, 3), interpolation="bilinear"),
        replace(SMALL, size_hw=(64, 96), ridge=1e-5, rank=6),
        replace(SMALL, size_hw=(64, 64), ridge=1e-5, rank=0, embedding="sampled", sigma=2.3),
        replace(SHOWN, size_hw=(64, 96), ridge=1e-5, rank=6),
        replace(SHOWN, size_hw=(64, 64), ridge=1e-5, rank=1, share=1, map_layers=(2,)),
        replace(SHOWN, size_hw=(64, 64), ridge=1e-5, rank=0, embedding="sampled", map_ridge=0.1),
        replace(SHOWN, size_hw=(64, 64), ridge=1e-5, rank=6, layers=(2,), map_layers=(2,)),
    ],
    ids=[
        *("paper", "paper-rectangular", "edge-rectangular", "edge-sampled"),
        *("own-map-rectangular", "own-map-of-cells", "own-map-sampled", "own-map-of-one-layer"),
    ],
)
def test_forward_is_the_plain_method(config):
    images = frames(8, size_hw=config.size_hw)
    train, new = images[:7], images[7]
    model, weight = fitted_model(config, train)
    image_map, score, grid, *own = model(torch.from_numpy(new[None]))
    assert model.outputs == ("map", "score", "grid", "map_grid")[: 3 + len(own)]
    assert bool(own) == bool(config.map_layers)
    assert image_map.shape == (1, *config.size_hw)
    assert image_map.dtype == score.dtype == grid.dtype == torch.float32
    plain_grid, plain_shown, plain_image = plain_map(train, new, model, weight, config)
    # float32 in the forward, float64 in the plain one
    for found, plain in zip((grid, *own), (plain_grid, plain_shown), strict=False):
        np.testing.assert_allclose(found[0], plain, rtol=2e-3, atol=2e-3 * plain.max())
    close = {"rtol": 2e-3, "atol": 2e-3 * plain_shown.max()}
    np.testing.assert_allclose(image_map[0], plain_image, **close)
    if config.top == 1:
        assert float(score[0]) == pytest.approx(plain_image.max(), rel=2e-3)
    else:
        highest = np.sort(plain_grid.ravel())[-config.top :]
        assert float(score[0]) == pytest.approx(highest.mean(), rel=2e-3)


@pytest.fixture(params=["small_artefact", "shown_artefact"])
def artefact(request: pytest.FixtureRequest) -> Artefact:
    """With a map of the score's distances, and with one of its own."""
    made: Artefact = request.getfixturevalue(request.param)
    return made


def test_one_frame_is_the_same_in_a_batch(artefact: Artefact):
    model = artefact.model()
    batch = torch.from_numpy(frames(5))
    together = model(batch)
    for index in range(5):
        alone = model(batch[index : index + 1])
        for whole, single in zip(together, alone, strict=True):
            torch.testing.assert_close(whole[index], single[0], rtol=1e-5, atol=1e-5)


def test_a_frame_does_not_see_its_neighbours(artefact: Artefact):
    model = artefact.model()
    batch = torch.from_numpy(frames(3))
    changed = batch.clone()
    changed[1] = 255 - changed[1]
    for before, after in zip(model(batch), model(changed), strict=True):
        assert torch.equal(before[0], after[0])
        assert torch.equal(before[2], after[2])
        assert not torch.equal(before[1], after[1])


def test_forward_repeats_itself(artefact: Artefact):
    batch = torch.from_numpy(frames(2))
    first, second = artefact.model()(batch), artefact.model()(batch)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("share", [1, 2])
@pytest.mark.parametrize("shared_factor", [False, True], ids=["local", "global"])
def test_distances_are_norms_at_every_location(small_artefact, share, shared_factor):
    config = replace(SHOWN, share=share, covariance="global" if shared_factor else "local")
    height, width = config.grid_hw
    blocks = height * width // share**2
    rng = np.random.default_rng(0)
    covariances = 1 if shared_factor else blocks
    mean = rng.normal(size=(blocks, 16)).astype(np.float32)
    factor = rng.normal(size=(covariances, 16, 10)).astype(np.float32)
    own = rng.normal(size=(covariances, 6, 4)).astype(np.float32)
    weight = rng.random((covariances, 10)).astype(np.float32)
    factors = Factors(mean=mean, factor=factor, shown=MapFactors(weight=weight, factor=own))
    model = ReferenceModel(
        config,
        backbone=small_artefact.backbone,
        embedding=small_artefact.embedding,
        factors=factors,
    )
    x = rng.normal(size=(3, 16, height, width)).astype(np.float32)
    found, shown = (grid.numpy() for grid in model.distances(torch.from_numpy(x)))
    in_numpy = GaussianHead(config, factors).distances(x)
    np.testing.assert_allclose(in_numpy.score, found, rtol=1e-5)
    np.testing.assert_allclose(in_numpy.shown, shown, rtol=1e-5)
    assert found.shape == shown.shape == (3, height, width)
    plain, near, alone = (np.empty((3, height, width)) for _ in range(3))
    for n, row, column in np.ndindex(plain.shape):
        block = (row // share) * (width // share) + column // share
        used = 0 if shared_factor else block
        away = x[n, :, row, column] - mean[block]
        y = factor[used].T @ away
        plain[n, row, column] = np.linalg.norm(y)
        near[n, row, column] = np.sqrt((weight[used] * y**2).sum())
        alone[n, row, column] = np.linalg.norm(own[used].T @ away[:6])
    np.testing.assert_allclose(found, plain, rtol=1e-4)
    ratio = alone / alone.mean(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(shown, near * ratio ** (2 / 3), rtol=1e-4)


def test_a_frame_as_the_mean_has_a_map_of_zeros_and_one_that_is_no_number_has_none(
    shown_artefact: Artefact,
):
    model, head = shown_artefact.model(), shown_artefact.head()
    height, width = head.windows.grid_hw
    x = np.repeat(head.mean.T.reshape(1, -1, height, width), 4, axis=0)
    x[1, 0, 3, 4] += 1.0  # one cell is odd, in a feature of the map's layers
    x[2, -1, 3, 4] += 1.0  # and in another feature: the map's own distances are 0 everywhere
    x[3, 0, 3, 4] = np.nan
    for cells in (head.distances(x), [each.numpy() for each in model.distances(as_tensor(x))]):
        score, shown = cells[:2]
        assert not score[0].any()
        assert not shown[0].any()
        for n in (1, 2):
            assert np.isfinite(shown[n]).all()
            assert np.argwhere(score[n]).tolist() == np.argwhere(shown[n]).tolist() == [[3, 4]]
        assert np.isnan(score[3, 3, 4])
        assert np.isnan(shown[3]).all(), "no cell of such a frame can be trusted"
    maps, scores = head.judge(x)
    assert np.isfinite(maps[:3]).all()
    assert np.isfinite(scores[:3]).all()
    assert np.isnan(scores[3])


def test_brightness_of_the_maps_own_layers_moves_no_map(shown_artefact: Artefact):
    """Their mean over a frame is divided out: only where in a frame they are odd says something."""
    head = shown_artefact.head()
    rng = np.random.default_rng(0)
    own = rng.random((2, *head.windows.grid_hw)).astype(np.float32) + 1
    np.testing.assert_allclose(head._sharpen(own * 7), head._sharpen(own), rtol=1e-5)
    spoiled = own.copy()
    spoiled[0, 2, 2] *= 8
    assert head._sharpen(spoiled)[0, 2, 2] == pytest.approx(
        4 * head._sharpen(own)[0, 2, 2], rel=0.1
    )


def test_the_score_is_that_of_the_same_gaussians_without_a_map(shown_artefact: Artefact):
    plain = replace(shown_artefact.factors, shown=None)
    images = torch.from_numpy(frames(3))
    with_map, without = (
        replace(shown_artefact, factors=factors).model()(images)
        for factors in (shown_artefact.factors, plain)
    )
    for found, wanted in zip(with_map[1:3], without[1:3], strict=True):
        assert torch.equal(found, wanted)
    assert not torch.allclose(with_map[0], without[0], rtol=0.1)


@pytest.mark.parametrize("sigma", [0, 0.1, 1.0, 1.3, 4.0, 9.7])
@pytest.mark.parametrize(
    ("size_hw", "grid_hw"), [((64, 64), (8, 8)), ((96, 32), (24, 8)), ((32, 40), (1, 5))]
)
def test_upsampling_operator_is_interpolation_and_blur(size_hw, grid_hw, sigma):
    """In one matrix per axis, borders included, even where the blur is wider than the image."""
    grid = np.random.default_rng(0).random(grid_hw)
    rows = upsampling_operator(size_hw[0], grid_hw[0], sigma=sigma)
    columns = upsampling_operator(size_hw[1], grid_hw[1], sigma=sigma)
    image = upsampled(grid, size_hw, "bilinear")
    expected = ndimage.gaussian_filter(image, sigma, mode="reflect", truncate=4)
    np.testing.assert_allclose(rows @ grid @ columns.T, expected, atol=1e-12)
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-12)  # a flat map stays flat


@pytest.mark.parametrize("top", [1, 3, 10**6])
def test_score(small_artefact: Artefact, top):
    model = replace(small_artefact, config=replace(SMALL, top=top)).model()
    image_map, score, grid, *_ = model(torch.from_numpy(frames(2)))
    for n in range(2):
        if top == 1:
            assert float(score[n]) == float(image_map[n].max())
        else:
            highest = np.sort(grid[n].numpy().ravel())[-top:]
            assert float(score[n]) == pytest.approx(highest.mean(), rel=1e-6)


def test_preprocess_is_the_usual_normalisation():
    pixels = np.random.default_rng(0).integers(0, 256, (2, 5, 4, 3), dtype=np.uint8)
    preprocess = Preprocess(mean=IMAGENET_MEAN, std=IMAGENET_STD, width=4)
    found = preprocess(torch.from_numpy(pixels))
    expected = ((pixels / 255.0 - IMAGENET_MEAN) / IMAGENET_STD).transpose(0, 3, 1, 2)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def test_nothing_in_a_model_is_trained(small_artefact: Artefact):
    model = small_artefact.model()
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
