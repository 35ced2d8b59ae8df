"""Leave-one-out distances against removing an image, fitting anew and measuring."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.config import FitConfig
from edgeseg.fitting.screening.leave_one_out import LeaveOneOut
from edgeseg.model.moments import Moments
from edgeseg.model.windows import Windows
from tests.support.moment_rows import moments_of_rows

SMALL = FitConfig(
    size_hw=(48, 32),
    stride=8,
    k=5,
    pool=3,
    share=2,
    ridge=0.01,
    ridge_unit="absolute",
)  # 6 x 4 cells
FORMS = {
    "own cell": {"pool": 1, "share": 1},
    "pooled": {"pool": 3, "share": 1},
    "shared": {"pool": 1, "share": 2},
    "pooled and shared": {"pool": 3, "share": 2},
    "wide": {"pool": 5, "share": 2},
    "one covariance": {"covariance": "global", "pool": 3, "share": 2},
    "one covariance, own mean": {"covariance": "global", "pool": 1, "share": 1},
}


def pooled(x_ntkp: NDArray[Any], config: FitConfig) -> Moments:
    """Of images (N, T, k, P), a row of every cell of every tile counted as one."""
    cells = moments_of_rows(x_ntkp.reshape(-1, *x_ntkp.shape[2:]))
    return Windows.of(config).pool_moments(cells)


def compare(x_ntkp: NDArray[Any], config: FitConfig) -> LeaveOneOut:
    images, tiles = x_ntkp.shape[:2]
    return LeaveOneOut(pooled(x_ntkp, config), config, images=images, tiles=tiles)


def measured(image_tkp: NDArray[Any], others: NDArray[Any], config: FitConfig) -> NDArray[Any]:
    """The definition: sqrt(ridge) |(C + ridge I)^-1 (x - mean)| of every cell, in float64."""
    moments = pooled(others, config)
    if config.covariance == "global":
        moments = moments.shared_covariance()
    covariance = moments.scatter / moments.count[:, None, None]
    identity = np.eye(covariance.shape[1])
    precision = np.linalg.inv(covariance + config.ridge * identity)
    (height, width), share = config.grid_hw, config.share
    d = np.empty((len(image_tkp), height, width), np.float32)
    for tile, row, column in np.ndindex(d.shape):
        block = row // share * (width // share) + column // share
        z = image_tkp[tile, :, row * width + column] - moments.mean[block]
        u = precision[block % precision.shape[0]] @ z
        d[tile, row, column] = np.linalg.norm(u) * config.ridge**0.5
    return d


def embeddings(images: int, *, tiles: int = 1, k: int = 5) -> NDArray[Any]:
    rng = np.random.default_rng(images)
    return (2 * rng.normal(size=(images, tiles, k, 24)) + 7).astype(np.float32)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(("images", "tiles", "k"), [(2, 1, 5), (3, 1, 60), (9, 1, 5), (4, 3, 60)])
def test_it_is_removing_and_refitting(form, images, tiles, k):
    """With k=60 windows have fewer rows than that, with k=5 most have more."""
    config = replace(SMALL, **form)
    x = embeddings(images, tiles=tiles, k=k)
    found = compare(x, config).inside(x).reshape(images, tiles, 6, 4)
    for image in range(images):
        others = np.concatenate([x[:image], x[image + 1 :]])
        expected = measured(x[image], others, config)
        np.testing.assert_allclose(found[image], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_moments_that_count_images_are_the_same(form):
    """Moments of whole windows, and of tiles, count an image once however many rows it has."""
    config = replace(SMALL, **form)
    x = embeddings(4, tiles=2, k=9)
    moments = pooled(x, config)
    per_image = moments.scale(0.5)
    found = LeaveOneOut(per_image, config, images=4, tiles=2).inside(x)
    np.testing.assert_allclose(found, compare(x, config).inside(x), rtol=1e-5)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_fewer_images_than_directions_and_constant_pixels(form):
    config = replace(SMALL, **form, ridge=1e-6)
    x = embeddings(4, k=9)
    x[..., 5] = 3.0  # a pixel that never changes
    x[:, :, 2] = 0.0  # a feature that never fires
    x[3] = x[2]  # a copy
    found = compare(x, config).inside(x)[:, None]
    for image in range(4):
        others = np.concatenate([x[:image], x[image + 1 :]])
        np.testing.assert_allclose(
            found[image], measured(x[image], others, config), rtol=1e-4, atol=1e-3
        )


def test_directions_of_small_variance_count_fully_and_others_fade():
    """Between the ridge and the variance it is the Mahalanobis distance times their ratio."""
    config = replace(SMALL, pool=1, share=1, ridge=1.0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 1, 2, 24)) * np.array([0.001, 10.0])[:, None]
    new = np.zeros((2, 1, 2, 24))
    new[0, 0, 0], new[1, 0, 1] = 3.0, 3.0
    found = compare(x, config).outside(new)
    np.testing.assert_allclose(found[0], 3.0, rtol=0.01)
    np.testing.assert_allclose(found[1], 3.0 / 101, rtol=0.2)


def test_equal_images_are_at_no_distance():
    x = embeddings(1).repeat(4, axis=0)
    config = replace(SMALL, pool=1, share=1)
    assert float(compare(x, config).inside(x).max()) < 1e-4


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_images_from_outside(form):
    config = replace(SMALL, **form)
    x, new = embeddings(12, tiles=2), embeddings(3, tiles=2)
    found = compare(x, config).outside(new).reshape(3, 2, 6, 4)
    for image in range(3):
        np.testing.assert_allclose(found[image], measured(new[image], x, config), rtol=1e-5)


def test_what_was_removed_is_outside():
    """Down-dated moments see the same image as leaving it out does."""
    x = embeddings(6)
    whole = pooled(x, SMALL)
    without = LeaveOneOut(whole.remove(pooled(x[:1], SMALL)), SMALL, images=5)
    left_out = compare(x, SMALL).inside(x[:1])
    np.testing.assert_allclose(without.outside(x[:1]), left_out, rtol=1e-5)


def test_one_image_at_a_time_is_all_at_once():
    x = embeddings(5)
    all_of_them = compare(x, SMALL)
    one_by_one = np.concatenate([all_of_them.inside(image[None]) for image in x])
    np.testing.assert_allclose(one_by_one, all_of_them.inside(x), rtol=1e-5)
    assert all_of_them.batch_size > 5


def test_windows_are_those_of_the_pooled_moments():
    x = embeddings(3)
    cells, exists = Windows.of(SMALL).cells_of_window()
    moments = pooled(x, SMALL)
    for block in range(len(cells)):
        rows = x[:, 0][:, :, cells[block][exists[block]]].transpose(0, 2, 1).reshape(-1, 5)
        assert moments.count[block] == len(rows)
        np.testing.assert_allclose(moments.mean[block], rows.mean(axis=0), rtol=1e-6)


def test_one_image_has_nothing_to_be_compared_with():
    with pytest.raises(UsageError) as caught:
        compare(embeddings(1), SMALL)
    assert str(caught.value) == "leave-one-out with one image: expected at least two to compare"


def test_a_ridge_that_rounding_swallows():
    x = embeddings(3, k=9) * 1e3
    config = replace(SMALL, pool=1, share=1, ridge=1e-14)
    with pytest.raises(UsageError) as caught:
        compare(x, config).inside(x)
    assert str(caught.value) == (
        "ridge=1e-14: too small to compare images with each other; try a larger one"
    )
