"""The reference forward against an independent one, written plainly with NumPy and SciPy."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import ndimage
from torch.nn import functional

from edgeseg.config import FitConfig
from edgeseg.model.artefact import Artefact
from edgeseg.model.backbones import IMAGENET_MEAN, IMAGENET_STD
from edgeseg.model.embedding import embedding_matrix
from edgeseg.model.factors import Factors, make_factors
from edgeseg.model.gaussian_head import GaussianHead
from edgeseg.model.reference import Preprocess, ReferenceModel
from edgeseg.model.weights import load_backbone
from edgeseg.model.windows import Windows
from edgeseg.vision.upsampling import upsampling_operator
from tests.support.moment_rows import moments_of_rows
from tests.support.small_models import SMALL, frames

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


def plain_map(
    train: NDArray[np.uint8],
    frame: NDArray[np.uint8],
    model: ReferenceModel,
    weight: Array,
    config: FitConfig,
) -> tuple[Array, Array]:
    """Grid and map of one frame, with loops over locations and explicit inverses."""
    fitted = np.stack([features_on_grid(model, image, config) for image in train])
    fitted = np.einsum("fk,nfhw->nkhw", weight, fitted)
    new = np.einsum("fk,fhw->khw", weight, features_on_grid(model, frame, config))
    (height, width), share, reach = config.grid_hw, config.share, config.pool // 2
    grid = np.empty((height, width))
    for row in range(height):
        for column in range(width):
            top, left = row // share * share, column // share * share
            window = fitted[
                :,
                :,
                max(0, top - reach) : top + share + reach,
                max(0, left - reach) : left + share + reach,
            ]
            rows = window.transpose(0, 2, 3, 1).reshape(-1, weight.shape[1])
            values, vectors = np.linalg.eigh(np.cov(rows.T, bias=True))
            kept = len(values) if config.rank == 0 else int(config.rank)
            along = vectors[:, :kept].T @ (new[:, row, column] - rows.mean(axis=0))
            grid[row, column] = np.sqrt((along**2 / (values[:kept] + config.ridge)).sum())
    image = upsampled(grid, config.size_hw, "bilinear")
    return grid, ndimage.gaussian_filter(image, config.sigma, mode="reflect", truncate=4)


def fitted_model(config: FitConfig, train: NDArray[np.uint8]) -> tuple[ReferenceModel, Array]:
    backbone, _ = load_backbone(config.backbone, layers=config.layers, weights="random")
    weight = embedding_matrix(
        config.embedding, features=sum(backbone.channels), k=config.k, seed=config.seed
    ).numpy()
    windows = Windows.of(config)
    zeros = Factors(
        mean=np.zeros((windows.count, weight.shape[1]), np.float32),
        factor=np.zeros((1, weight.shape[1], 1), np.float32),
    )
    blank = ReferenceModel(config, backbone=backbone, embedding=weight, factors=zeros)
    moments = moments_of_rows(blank.embeddings(train))
    factors = make_factors(
        windows.pool_moments(moments),
        ridge=config.ridge,
        rank=config.rank,
        directions=config.directions,
    )
    model = ReferenceModel(config, backbone=backbone, embedding=weight, factors=factors)
    return model, weight


@pytest.mark.parametrize(
    "config",
    [
        replace(PAPER, size_hw=(64, 64)),
        replace(PAPER, size_hw=(96, 64), layers=(2, 3), interpolation="bilinear"),
        replace(SMALL, size_hw=(64, 96), ridge=1e-5, rank=6),
        replace(SMALL, size_hw=(64, 64), ridge=1e-5, rank=0, embedding="sampled", sigma=2.3),
    ],
    ids=["paper", "paper-rectangular", "edge-rectangular", "edge-sampled"],
)
def test_forward_is_the_plain_method(config):
    images = frames(8, size_hw=config.size_hw)
    train, new = images[:7], images[7]
    model, weight = fitted_model(config, train)
    image_map, score, grid = model(torch.from_numpy(new[None]))
    assert image_map.shape == (1, *config.size_hw)
    assert image_map.dtype == score.dtype == grid.dtype == torch.float32
    plain_grid, plain_image = plain_map(train, new, model, weight, config)
    # float32 in the forward, float64 in the plain one
    np.testing.assert_allclose(grid[0], plain_grid, rtol=2e-3, atol=2e-3 * plain_grid.max())
    np.testing.assert_allclose(image_map[0], plain_image, rtol=2e-3, atol=2e-3 * plain_grid.max())
    if config.top == 1:
        assert float(score[0]) == pytest.approx(plain_image.max(), rel=2e-3)
    else:
        highest = np.sort(plain_grid.ravel())[-config.top :]
        assert float(score[0]) == pytest.approx(highest.mean(), rel=2e-3)


def test_one_frame_is_the_same_in_a_batch(small_artefact: Artefact):
    model = small_artefact.model()
    batch = torch.from_numpy(frames(5))
    together = model(batch)
    for index in range(5):
        alone = model(batch[index : index + 1])
        for whole, single in zip(together, alone, strict=True):
            torch.testing.assert_close(whole[index], single[0], rtol=1e-5, atol=1e-5)


def test_a_frame_does_not_see_its_neighbours(small_artefact: Artefact):
    model = small_artefact.model()
    batch = torch.from_numpy(frames(3))
    changed = batch.clone()
    changed[1] = 255 - changed[1]
    for before, after in zip(model(batch), model(changed), strict=True):
        assert torch.equal(before[0], after[0])
        assert torch.equal(before[2], after[2])
        assert not torch.equal(before[1], after[1])


def test_forward_repeats_itself(small_artefact: Artefact):
    batch = torch.from_numpy(frames(2))
    first, second = small_artefact.model()(batch), small_artefact.model()(batch)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("share", [1, 2])
@pytest.mark.parametrize("shared_factor", [False, True], ids=["local", "global"])
def test_distances_are_norms_at_every_location(small_artefact, share, shared_factor):
    config = replace(SMALL, share=share, covariance="global" if shared_factor else "local")
    height, width = config.grid_hw
    blocks = height * width // share**2
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(blocks, 16)).astype(np.float32)
    covariances = 1 if shared_factor else blocks
    factor = rng.normal(size=(covariances, 16, 10)).astype(np.float32)
    model = ReferenceModel(
        config,
        backbone=small_artefact.backbone,
        embedding=small_artefact.embedding,
        factors=Factors(mean=mean, factor=factor),
    )
    x = rng.normal(size=(3, 16, height, width)).astype(np.float32)
    found = model.distances(torch.from_numpy(x)).numpy()
    in_numpy = GaussianHead(config, Factors(mean=mean, factor=factor)).distances(x)
    np.testing.assert_allclose(in_numpy, found, rtol=1e-5)
    assert found.shape == (3, height, width)
    for n, row, column in [(0, 0, 0), (1, 3, 7), (2, height - 1, width - 1), (2, 4, 1)]:
        block = (row // share) * (width // share) + column // share
        used = factor[0 if shared_factor else block]
        expected = np.linalg.norm(used.T @ (x[n, :, row, column] - mean[block]))
        assert found[n, row, column] == pytest.approx(expected, rel=1e-5)


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
    image_map, score, grid = model(torch.from_numpy(frames(2)))
    for n in range(2):
        if top == 1:
            assert float(score[n]) == float(image_map[n].max())
        else:
            highest = np.sort(grid[n].numpy().ravel())[-top:]
            assert float(score[n]) == pytest.approx(highest.mean(), rel=1e-6)


def test_preprocess_is_the_usual_normalisation():
    pixels = np.random.default_rng(0).integers(0, 256, (2, 5, 4, 3), dtype=np.uint8)
    found = Preprocess(mean=IMAGENET_MEAN, std=IMAGENET_STD)(torch.from_numpy(pixels))
    expected = ((pixels / 255.0 - IMAGENET_MEAN) / IMAGENET_STD).transpose(0, 3, 1, 2)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def test_nothing_in_a_model_is_trained(small_artefact: Artefact):
    model = small_artefact.model()
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
