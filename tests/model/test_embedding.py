"""W: orthonormal, uniformly distributed, seeded; and its place in front of the grid."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional

from edgeseg.base.errors import UsageError
from edgeseg.model.backbones import Tap
from edgeseg.model.embedding import GridEmbedding, embedding_matrix, features_of

TAPS = (
    Tap(module="fine", channels=3, stride=4),
    Tap(module="middle", channels=5, stride=8),
    Tap(module="coarse", channels=7, stride=16),
)


def feature_maps(size_hw: tuple[int, int], *, count: int = 2) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [
        torch.randn(
            count,
            tap.channels,
            size_hw[0] // tap.stride,
            size_hw[1] // tap.stride,
            generator=generator,
            dtype=torch.float64,
        )
        for tap in TAPS
    ]


def grid_embedding(weight: torch.Tensor, *, stride: int, interpolation: str) -> GridEmbedding:
    return GridEmbedding(weight, taps=TAPS, stride=stride, interpolation=interpolation).double()


@pytest.mark.parametrize("kind", ["semi_orthogonal", "sampled", "identity"])
def test_columns_are_orthonormal(kind):
    weight = embedding_matrix(kind, features=40, k=12, seed=3)
    columns = weight.shape[1]
    assert weight.dtype == torch.float64
    assert columns == (40 if kind == "identity" else 12)
    torch.testing.assert_close(weight.T @ weight, torch.eye(columns).double(), atol=1e-13, rtol=0)
    if kind != "identity":
        assert not torch.allclose(weight @ weight.T, torch.eye(40).double(), atol=1e-3)


def test_gaussian_columns_are_not_orthonormal():
    weight = embedding_matrix("gaussian", features=2000, k=4, seed=0)
    assert abs(float(weight.var()) - 1) < 0.05
    assert abs(float(weight.mean())) < 0.05
    assert not torch.allclose(weight.T @ weight / 2000, torch.eye(4).double(), atol=1e-3)


def test_signs_make_the_first_column_symmetric():
    """LAPACK's Q alone has a first entry of one sign; with sign(diag R) both are as likely."""
    corrected, raw = [], []
    for seed in range(400):
        corrected.append(
            float(embedding_matrix("semi_orthogonal", features=6, k=3, seed=seed)[0, 0])
        )
        omega = embedding_matrix("gaussian", features=6, k=3, seed=seed)
        raw.append(float(torch.linalg.qr(omega).Q[0, 0]))
    assert np.mean(np.array(raw) > 0) in (0.0, 1.0)
    # 400 tosses of a fair coin: outside of this once in 10,000 times, and the seeds are fixed.
    assert abs(np.mean(np.array(corrected) > 0) - 0.5) < 0.1


def test_entries_follow_the_haar_distribution():
    """A uniform point of the sphere in F dimensions: entry^2 is Beta(1/2, (F - 1) / 2)."""
    entries = np.array(
        [
            embedding_matrix("semi_orthogonal", features=6, k=6, seed=seed)[[0, 3, 5], [0, 2, 5]]
            for seed in range(500)
        ]
    )
    for column in entries.T:
        uniform = 0.5 + np.sign(column) * 0.5 * stats.beta.cdf(column**2, 0.5, 2.5)
        assert stats.kstest(uniform, "uniform").pvalue > 0.001


def test_rotations_are_as_likely_as_reflections():
    """LAPACK's square Q is a product of F - 1 reflections: its determinant never changes."""
    corrected, raw = [], []
    for seed in range(300):
        weight = embedding_matrix("semi_orthogonal", features=4, k=4, seed=seed)
        omega = embedding_matrix("gaussian", features=4, k=4, seed=seed)
        corrected.append(float(torch.linalg.det(weight)))
        raw.append(float(torch.linalg.det(torch.linalg.qr(omega).Q)))
    assert abs(np.mean(raw)) > 0.999
    assert abs(np.mean(corrected)) < 0.2


def test_w_is_the_qr_with_a_positive_diagonal():
    """Equation 7: W R' = Omega for an upper triangular R' whose diagonal is positive."""
    weight = embedding_matrix("semi_orthogonal", features=30, k=10, seed=5)
    omega = embedding_matrix("gaussian", features=30, k=10, seed=5)  # the same generator, unrotated
    triangle = weight.T @ omega
    assert float(torch.tril(triangle, -1).abs().max()) < 1e-12
    assert float(torch.diagonal(triangle).min()) > 0
    torch.testing.assert_close(weight @ triangle, omega)


def test_sampled_features_are_a_choice_of_features():
    """PaDiM's selection is the semi-orthogonal W whose columns are columns of the identity."""
    weight = embedding_matrix("sampled", features=20, k=8, seed=2)
    chosen = weight.argmax(dim=0)
    assert len(set(chosen.tolist())) == 8
    x = torch.randn(5, 20, dtype=torch.float64)
    assert torch.equal(x @ weight, x[:, chosen])


@pytest.mark.parametrize("kind", ["semi_orthogonal", "sampled", "gaussian"])
def test_one_seed_one_matrix(kind):
    first = embedding_matrix(kind, features=20, k=8, seed=7)
    torch.manual_seed(99)  # the global generator plays no part
    assert torch.equal(first, embedding_matrix(kind, features=20, k=8, seed=7))
    assert not torch.equal(first, embedding_matrix(kind, features=20, k=8, seed=8))


@pytest.mark.parametrize("kind", ["semi_orthogonal", "sampled", "gaussian"])
def test_k_is_cut_to_the_features(kind):
    assert embedding_matrix(kind, features=6, k=100, seed=0).shape == (6, 6)


def test_unknown_kind_is_refused():
    with pytest.raises(UsageError, match=r"^embedding 'pca' is unknown$"):
        embedding_matrix("pca", features=4, k=2, seed=0)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("stride", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("size_hw", [(64, 64), (96, 64)])
def test_project_then_resample_is_resample_then_project(size_hw, stride, interpolation):
    """The paper's order, all F channels on the grid and then W', gives the same embedding."""
    weight = embedding_matrix("semi_orthogonal", features=15, k=6, seed=0)
    embed = grid_embedding(weight, stride=stride, interpolation=interpolation)
    maps = feature_maps(size_hw)
    grid_hw = (size_hw[0] // stride, size_hw[1] // stride)
    on_grid = []
    for tap, feature_map in zip(TAPS, maps, strict=True):
        if tap.stride < stride:
            on_grid.append(functional.avg_pool2d(feature_map, stride // tap.stride))
        elif interpolation == "nearest":
            on_grid.append(functional.interpolate(feature_map, size=grid_hw, mode="nearest"))
        else:
            on_grid.append(functional.interpolate(feature_map, size=grid_hw, mode="bilinear"))
    stacked = torch.cat(on_grid, dim=1)  # (N, F, h, w)
    expected = torch.einsum("fk,nfhw->nkhw", weight.float().double(), stacked)
    found = embed(maps)
    assert found.shape == (2, 6, *grid_hw)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_pool_before_is_pool_after():
    weight = embedding_matrix("semi_orthogonal", features=15, k=6, seed=0)
    fine = feature_maps((64, 64))[0]
    kernel = grid_embedding(weight, stride=4, interpolation="nearest").get_buffer("kernel_0")
    before = functional.conv2d(functional.avg_pool2d(fine, 4), kernel)
    after = functional.avg_pool2d(functional.conv2d(fine, kernel), 4)
    torch.testing.assert_close(before, after, atol=1e-12, rtol=0)


def mean_around(feature_map: torch.Tensor, context: int) -> torch.Tensor:
    """Cell by cell, over the neighbours that exist."""
    height, width = feature_map.shape[2:]
    reach, result = context // 2, torch.empty_like(feature_map)
    for row in range(height):
        for column in range(width):
            rows = slice(max(0, row - reach), row + reach + 1)
            columns = slice(max(0, column - reach), column + reach + 1)
            result[:, :, row, column] = feature_map[:, :, rows, columns].mean(dim=(2, 3))
    return result


@pytest.mark.parametrize("context", [3, 5])
@pytest.mark.parametrize("stride", [4, 8, 16])
def test_context_is_the_mean_around_as_further_channels(stride, context):
    """An embedding with a context is one without, of maps with twice the channels."""
    maps = feature_maps((64, 96))
    features = features_of(sum(tap.channels for tap in TAPS), context=context)
    weight = embedding_matrix("semi_orthogonal", features=features, k=6, seed=4)
    doubled = tuple(replace(tap, channels=2 * tap.channels) for tap in TAPS)
    settings = {"stride": stride, "interpolation": "bilinear"}
    plain = GridEmbedding(weight, taps=doubled, **settings).double()
    expected = plain([torch.cat([x, mean_around(x, context)], dim=1) for x in maps])
    embed = GridEmbedding(weight, taps=TAPS, context=context, **settings).double()
    torch.testing.assert_close(embed(maps), expected, atol=1e-12, rtol=0)


def test_kernels_are_w_in_order():
    weight = embedding_matrix("gaussian", features=15, k=6, seed=0)
    parts = list(grid_embedding(weight, stride=8, interpolation="nearest").buffers())
    assert [tuple(part.shape) for part in parts] == [(6, 3, 1, 1), (6, 5, 1, 1), (6, 7, 1, 1)]
    stacked = torch.cat([part[:, :, 0, 0].T for part in parts])
    torch.testing.assert_close(stacked, weight.float().double())


def test_a_stride_between_the_layers_is_refused():
    weight = embedding_matrix("identity", features=15, k=15, seed=0)
    message = "^stride=6: must divide or be divided by 4, the stride of fine; try 4, 8 or 16$"
    with pytest.raises(UsageError, match=message):
        GridEmbedding(weight, taps=TAPS, stride=6, interpolation="nearest")


def test_no_layers_are_refused():
    with pytest.raises(UsageError, match=r"^no layers were chosen; expected at least one$"):
        GridEmbedding(torch.zeros(0, 2), taps=(), stride=4, interpolation="nearest")


def blocked(*corners: tuple[slice, slice]) -> torch.Tensor:
    """W (15, 6) that is zero outside of some rows (features) and columns."""
    weight = embedding_matrix("gaussian", features=15, k=6, seed=2)
    seen = torch.zeros_like(weight)
    for rows, columns in corners:
        seen[rows, columns] = 1
    return weight * seen


FINE, MIDDLE, COARSE = slice(0, 3), slice(3, 8), slice(8, 15)  # the rows of the layers of TAPS


@pytest.mark.parametrize(
    ("weight", "columns"),
    [
        (blocked((slice(15), slice(6))), [(0, 6), (0, 6), (0, 6)]),
        (
            blocked((FINE, slice(0, 4)), (MIDDLE, slice(0, 4)), (COARSE, slice(4, 6))),
            [(0, 4), (0, 4), (4, 6)],
        ),
        (
            blocked((FINE, slice(0, 4)), (MIDDLE, slice(4, 6)), (COARSE, slice(0, 4))),
            [(0, 4), (4, 6), (0, 4)],
        ),
        (
            blocked((FINE, slice(4, 6)), (MIDDLE, slice(0, 4)), (COARSE, slice(0, 4))),
            [(4, 6), (0, 4), (0, 4)],
        ),
    ],
)
@pytest.mark.parametrize("stride", [4, 8, 16])
def test_columns_that_see_no_layer_are_not_computed_for_it(weight, columns, stride):
    options = {"stride": stride, "interpolation": "bilinear"}
    blocks = GridEmbedding(weight, taps=TAPS, columns=columns, **options).double()
    maps = feature_maps((64, 96))
    assert torch.equal(blocks(maps), grid_embedding(weight, **options)(maps))
    widths = [kernel.shape[0] for kernel in blocks.buffers()]
    assert widths == [last - first for first, last in columns]
