"""The variant that a frame shows is the one whose Gaussians are nearest over the whole frame."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from edgeseg.config import FitConfig
from edgeseg.fitting.group_sums import group_factors
from edgeseg.model.gaussian_head import GaussianHead
from edgeseg.model.variant_moments import VariantMoments
from edgeseg.model.windows import Windows
from tests.support.shares import TINY
from tests.support.variants import COLOURS, WITH_MAP, coloured, two_colours

GLOBAL = replace(TINY, covariance="global")
FRAMES = np.stack([coloured(colour, 50 + index) for index in range(2) for colour in COLOURS])


@pytest.mark.parametrize("config", [TINY, WITH_MAP, GLOBAL], ids=["plain", "map", "global"])
def test_a_frame_is_measured_from_the_nearest_variant(config: FitConfig) -> None:
    fitted = two_colours(config)
    model, factors = fitted.model(), fitted.factors
    assert factors.variant_means is not None
    x = model.embed(torch.from_numpy(FRAMES)).numpy()
    alone = [
        GaussianHead(fitted.config, replace(factors, mean=mean, variant_means=None)).distances(x)
        for mean in factors.variant_means
    ]
    nearest = np.stack([np.square(cells.score).mean(axis=(1, 2)) for cells in alone]).argmin(axis=0)
    assert nearest.tolist() == [0, 1, 0, 1]
    for found in (model.distances(torch.from_numpy(x)), fitted.head().distances(x)):
        grid, shown, variant = (np.asarray(each) for each in found)
        assert variant.tolist() == nearest.tolist()
        for frame, number in enumerate(nearest):
            for ours, theirs in ((grid, alone[number].score), (shown, alone[number].shown)):
                np.testing.assert_allclose(ours[frame], theirs[frame], rtol=1e-3, atol=1e-3)


def test_a_variant_may_be_given() -> None:
    fitted = two_colours()
    x = fitted.model().embed(torch.from_numpy(FRAMES)).numpy()
    head = fitted.head()
    cells = head.distances(x, np.array([1, 1, 1, 1]))
    np.testing.assert_array_equal(cells.score[1], head.distances(x).score[1])
    assert (cells.score[0] != head.distances(x).score[0]).any()


def test_ignored_cells_do_not_tell_variants() -> None:
    fitted = two_colours()
    head = GaussianHead(fitted.config, fitted.factors)
    assert head.variants is not None
    counted = np.zeros(fitted.config.grid_hw, np.float32)
    counted[0, 0] = 1
    form = type(head.variants).of(fitted.factors, head.windows, counted)
    assert form is not None
    weight = form.weight.reshape(head.windows.cells, -1)
    assert weight[0].any()
    assert not weight[1:].any()


def test_a_model_of_one_product_has_no_variants() -> None:
    fitted = two_colours()
    head = GaussianHead(fitted.config, replace(fitted.factors, variant_means=None))
    assert head.variants is None
    assert "variant" not in head.outputs


def test_what_lies_between_two_variants_is_of_neither() -> None:
    """In one Gaussian the way from one to the other is a direction of large variance."""
    config = replace(TINY, size_hw=(32, 32), k=4, rank=0, pool=1, share=1, map_layers=())
    windows = Windows.of(replace(config, variants=("left", "right")))
    own, joint = windows.new_moments(4), Windows.of(config).new_moments(4)
    assert isinstance(own, VariantMoments)
    rng = np.random.default_rng(0)
    for number, place in enumerate((-5.0, 5.0)):
        x = rng.normal(size=(40, 4, *config.grid_hw)) * 0.1
        x[:, 0] += place
        windows.add_(own.part_(number), x, images=40)
        windows.add_(joint, x, images=40)
    between = np.zeros((1, 4, *config.grid_hw), np.float32)
    apart, together = (
        GaussianHead(config, group_factors(config, moments)).distances(between).score.mean()
        for moments in (own.settle_(), joint)
    )
    assert together < 4 < 40 < apart
