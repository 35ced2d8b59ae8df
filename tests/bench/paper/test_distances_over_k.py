"""One pass of features gives every embedding, size and method exactly as a direct fit does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from edgeseg.base.errors import UsageError
from edgeseg.bench.harness.accuracy import open_limited
from edgeseg.bench.paper.distances_over_k import FULL, Variant, distance_grids, eigenvalues
from edgeseg.bench.paper.features import FeatureBank, Projector, build_bank, resize_matrix
from edgeseg.config import FitConfig
from edgeseg.data.datasets import load_batches
from edgeseg.fitting.fitting import FitOptions, fit
from edgeseg.model.embedding import embedding_matrix

SIZE_HW = (64, 64)
BACKBONE = "mobilenet_v3_small"
FEATURES = 88
PAPER = FitConfig.preset("paper").with_options(
    {"backbone": BACKBONE, "size_hw": SIZE_HW, "k": 12, "calibration": "cross", "folds": 2}
)


@pytest.fixture(scope="module")
def bank(plate: Path, tmp_path_factory: pytest.TempPathFactory) -> FeatureBank:
    dataset = open_limited(plate, limit=None)
    return build_bank(
        tmp_path_factory.mktemp("bank"),
        dataset,
        train=dataset.train,
        backbone=BACKBONE,
        size_hw=SIZE_HW,
        weights="random",
    )


@pytest.fixture(scope="module")
def direct(plate: Path) -> Callable[..., torch.Tensor]:
    """Distances of the test images by the product's own fit and model."""
    dataset = open_limited(plate, limit=None)
    frames = np.concatenate(
        [batch.frames for batch in load_batches(dataset.test, size_hw=SIZE_HW, batch_size=8)]
    )

    def grids(**settings: Any) -> torch.Tensor:
        config = PAPER.with_options(settings)
        artefact = fit(dataset, config, FitOptions(weights="random"))
        with torch.no_grad():
            return artefact.model()(torch.from_numpy(frames))[2]

    return grids


def assert_close(distances: torch.Tensor, expected: torch.Tensor) -> None:
    # Embeddings are float32 in both, added up in another order.
    torch.testing.assert_close(distances, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("embedding", ["semi_orthogonal", "sampled", "gaussian"])
def test_equals_a_direct_fit(
    bank: FeatureBank, direct: Callable[..., torch.Tensor], embedding: str
) -> None:
    grids = distance_grids(bank, Variant(embedding=embedding, sizes=(12,)))
    assert list(grids) == ["12"]
    assert_close(grids["12"], direct(embedding=embedding))


def test_equals_a_direct_fit_on_a_bilinear_grid(
    bank: FeatureBank, direct: Callable[..., torch.Tensor]
) -> None:
    variant = Variant(
        embedding="semi_orthogonal", sizes=(12,), stride=8, interpolation="bilinear", ridge=0.1
    )
    expected = direct(stride=8, interpolation="bilinear", ridge=0.1)
    assert_close(distance_grids(bank, variant)["12"], expected)


def test_another_seed_is_another_embedding(
    bank: FeatureBank, direct: Callable[..., torch.Tensor]
) -> None:
    # With random weights the product draws another backbone too, so compare the embeddings.
    first = distance_grids(bank, Variant(embedding="sampled", sizes=(12,), seed=0))["12"]
    second = distance_grids(bank, Variant(embedding="sampled", sizes=(12,), seed=1))["12"]
    assert not torch.allclose(first, second, rtol=0.1)


def test_smaller_sizes_are_the_leading_columns(bank: FeatureBank) -> None:
    sizes = (1, 5, 12, 40)
    whole = distance_grids(bank, Variant(embedding="sampled", sizes=sizes))
    for size in sizes:
        # torch.randperm is cut at k, so the sampled embedding of a smaller k is exactly nested.
        alone = distance_grids(bank, Variant(embedding="sampled", sizes=(size,)))
        torch.testing.assert_close(whole[str(size)], alone[str(size)], rtol=1e-4, atol=1e-4)


def test_all_directions_of_an_orthogonal_matrix_equal_full_rank(bank: FeatureBank) -> None:
    full = distance_grids(bank, Variant(embedding="identity", sizes=(FULL,)))
    rotated = distance_grids(bank, Variant(embedding="semi_orthogonal", sizes=(20, FEATURES)))
    assert list(full) == [str(FEATURES)]
    assert_close(rotated[str(FEATURES)], full[str(FEATURES)])


def test_sizes_beyond_the_features_are_cut(bank: FeatureBank) -> None:
    assert list(distance_grids(bank, Variant(embedding="sampled", sizes=(50, 90, 100)))) == [
        "50",
        str(FEATURES),
    ]


@pytest.mark.parametrize("order", ["lower", "higher"])
def test_eigenvectors_equal_a_direct_fit(
    bank: FeatureBank, direct: Callable[..., torch.Tensor], order: str
) -> None:
    # Ten images and six directions: every eigenvalue is its own, so the order is certain.
    variant = Variant(embedding="semi_orthogonal", sizes=(2, 6), method="eigen")
    grids = distance_grids(bank, variant)
    assert list(grids) == ["lower 2", "lower 6", "higher 2", "higher 6"]
    assert_close(grids[f"{order} 2"], direct(k=6, rank=2, directions=order))
    assert_close(grids[f"{order} 6"], direct(k=6, rank=0))


def test_one_covariance_for_all_equals_a_direct_fit(
    bank: FeatureBank, direct: Callable[..., torch.Tensor]
) -> None:
    variant = Variant(embedding="identity", sizes=(FULL,), method="global")
    assert_close(
        distance_grids(bank, variant)[str(FEATURES)],
        direct(embedding="identity", covariance="global"),
    )


@pytest.mark.parametrize("layer", [1, 2, 3])
def test_single_layers_equal_a_direct_fit(
    bank: FeatureBank, direct: Callable[..., torch.Tensor], layer: int
) -> None:
    variant = Variant(embedding="identity", sizes=(FULL,), layers=(layer,))
    (grid,) = distance_grids(bank, variant).values()
    assert_close(grid, direct(embedding="identity", layers=(layer,)))


def test_eigenvalues_of_a_projection_lie_between_those_of_all(bank: FeatureBank) -> None:
    everything, share = eigenvalues(
        bank, Variant(embedding="identity", sizes=(FULL,)), threshold=1e-4
    )
    some, _ = eigenvalues(
        bank, Variant(embedding="semi_orthogonal", sizes=(12,)), threshold=1e-4, every=2
    )
    assert everything.shape == (FEATURES,)
    assert some.shape == (12,)
    assert bool((everything.diff() <= 0).all())
    # Ten images span nine directions: no more eigenvalues than those are above zero.
    assert 0 < share <= 9 / FEATURES
    assert float(some[0]) <= float(everything[0])  # Cauchy interlacing, in the mean


@pytest.mark.parametrize(
    ("size", "cells", "how"), [(4, 16, "nearest"), (4, 16, "bilinear"), (16, 4, "x"), (8, 8, "x")]
)
def test_resizing_is_a_matrix(size: int, cells: int, how: str) -> None:
    signal = torch.randn(3, 2, size)
    if cells < size:
        expected = functional.avg_pool1d(signal, size // cells)
    elif cells == size:
        expected = signal
    elif how == "nearest":
        expected = functional.interpolate(signal, size=cells, mode="nearest")
    else:
        expected = functional.interpolate(signal, size=cells, mode="linear", align_corners=False)
    torch.testing.assert_close(signal @ resize_matrix(size, cells, how).t(), expected)


def test_rows_of_the_grid_do_not_depend_on_how_many_are_asked_for(bank: FeatureBank) -> None:
    weight = embedding_matrix("semi_orthogonal", features=FEATURES, k=5, seed=0)
    projector = Projector(bank, weight, stride=4, interpolation="bilinear")
    whole = projector.rows("test", 0, 16)
    parts = torch.cat([projector.rows("test", start, start + 2) for start in range(0, 16, 2)])
    torch.testing.assert_close(whole, parts)


def test_a_bank_is_made_once_and_again_when_something_changed(plate: Path, tmp_path: Path) -> None:
    dataset = open_limited(plate, limit=2)

    def build(size_hw: tuple[int, int]) -> int:
        build_bank(
            tmp_path, dataset, train=dataset.train, backbone=BACKBONE, size_hw=size_hw,
            weights="random",
        )  # fmt: skip
        return (tmp_path / "train-0.npy").stat().st_mtime_ns

    first = build((64, 64))
    assert build((64, 64)) == first
    assert build((32, 32)) != first


def test_mistakes_are_named(bank: FeatureBank) -> None:
    with pytest.raises(UsageError, match=r"sizes \(5, 5\): expected increasing numbers"):
        Variant(embedding="sampled", sizes=(5, 5))
    with pytest.raises(UsageError, match="method 'magic': expected one of"):
        Variant(embedding="sampled", sizes=(5,), method="magic")
    with pytest.raises(UsageError, match="an embedding of 3 features for maps of 88"):
        Projector(bank, torch.eye(3), stride=4, interpolation="nearest")
