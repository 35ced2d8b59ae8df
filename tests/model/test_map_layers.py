"""Which layers the map has for itself, and the columns of W that see them alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from edgeseg.config import FitConfig
from edgeseg.fitting.feature_space import with_backbone_choices
from edgeseg.model.backbones import embedded_features
from edgeseg.model.embedding import embedding_matrix, fit_embedding
from edgeseg.model.map_layers import (
    embedded_width,
    layer_columns,
    map_width,
    rows_of_map,
    shown_layers,
)
from edgeseg.model.moments import Moments

# Channels of its layers: 16, 24 and 48.
MOBILE = FitConfig(backbone="mobilenet_v3_small", context=1, k=16, map_layers=(1, 2))


@pytest.mark.parametrize(
    ("settings", "layers"),
    [
        ({}, (1, 2)),
        ({"backbone": "efficientnet_lite0"}, (1, 2)),
        ({"backbone": "efficientnet_lite2", "layers": (2, 3)}, (2,)),
        ({"layers": (3,)}, ()),
        ({"top": 1}, ()),  # the map's maximum is the score
        ({"map_layers": (2,)}, (2,)),
        ({"map_layers": ()}, ()),
        ({"backbone": "resnet18"}, ()),
        ({"backbone": "mobilenet_v3_small"}, ()),
        ({"backbone": "mobilenet_v3_small", "map_layers": (1, 3)}, (1, 3)),
    ],
)
def test_layers_are_what_is_set_or_what_the_backbone_is_best_with(settings, layers):
    config = FitConfig(**settings)
    assert shown_layers(config) == layers
    settled = with_backbone_choices(config)
    assert settled.map_layers == layers, "the file says it, whatever is best in later versions"
    assert with_backbone_choices(settled) == settled


def test_the_paper_has_a_map_of_its_scores_alone():
    assert map_width(FitConfig.preset("paper")) == 0


@pytest.mark.parametrize(
    ("settings", "width"),
    [
        ({}, 6),  # three sevenths of k
        ({"k": 2}, 1),
        ({"k": 1}, 0),  # the score needs that one
        ({"k": 88}, 40),  # all features of both layers
        ({"k": 70}, 30),
        ({"k": 88, "map_layers": (1,)}, 16),
        ({"k": 60, "map_layers": (3,)}, 25),
        ({"k": 80, "map_layers": (2, 3)}, 64),  # the other layer has 16 features, and no more
        ({"k": 500}, 40),
        ({"embedding": "identity"}, 40),
        ({"map_layers": ()}, 0),
        ({"layers": (1, 2)}, 16),  # there are no others
        ({"layers": (1, 2), "k": 1}, 1),
        ({"context": 3, "k": 176}, 80),
    ],
)
def test_width(settings, width):
    config = replace(MOBILE, **settings)
    assert map_width(config) == width
    others = embedded_features(config) - len(rows_of_map(config))
    assert 0 <= embedded_width(config) - width <= max(others, 0) or not width


def test_the_default_keeps_all_features_of_its_two_shallow_layers():
    config = with_backbone_choices(FitConfig())
    assert (map_width(config), len(rows_of_map(config)), config.k) == (64, 64, 150)


@pytest.mark.parametrize("layers", [(1,), (3,), (1, 2), (2, 3), (1, 2, 3)])
@pytest.mark.parametrize("embedding", ["semi_orthogonal", "sampled", "identity"])
@pytest.mark.parametrize("k", [1, 2, 5, 16, 88])
def test_w_is_semi_orthogonal_and_its_first_columns_see_the_layers_alone(layers, embedding, k):
    config = replace(MOBILE, map_layers=layers, embedding=embedding, k=k)
    weight, width = fit_embedding(config), map_width(config)
    assert weight.shape == (embedded_features(config), embedded_width(config))
    identity = torch.eye(weight.shape[1], dtype=torch.float64)
    torch.testing.assert_close(weight.T @ weight, identity, rtol=0, atol=1e-12)
    if width:
        shown = np.zeros(len(weight), bool)
        shown[rows_of_map(config)] = True
        assert not weight[~shown, :width].any()
        assert not weight[shown, width:].any()
    seen = torch.zeros_like(weight)
    channels = [16, 24, 48]
    for rows, (first, last) in zip(torch.split(seen, channels), layer_columns(config), strict=True):
        rows[:, first:last] = 1
    assert torch.equal(weight * seen, weight), "no layer is seen by other columns"
    if width:
        assert torch.equal(weight, fit_embedding(config)), "one seed, one matrix"
        if embedding != "identity" and k < 88:
            assert not torch.equal(weight, fit_embedding(replace(config, seed=1)))


@pytest.mark.parametrize("embedding", ["semi_orthogonal", "sampled", "gaussian", "identity"])
def test_without_layers_w_is_what_it_was(embedding):
    config = replace(MOBILE, map_layers=(), embedding=embedding)
    plain = embedding_matrix(embedding, features=88, k=16, seed=config.seed)
    assert torch.equal(fit_embedding(config), plain)


def test_moments_of_the_maps_features_are_a_block_of_all_moments():
    """So there is one pass over the images, and one embedding of each."""
    x = np.random.default_rng(0).normal(size=(9, 88, 5)) + 3
    weight, width = fit_embedding(MOBILE).numpy(), map_width(MOBILE)
    shown = rows_of_map(MOBILE)
    whole, alone = (
        Moments.zero(5, columns).update_(np.einsum("fk,nfp->nkp", matrix, rows))
        for columns, matrix, rows in (
            (16, weight, x),
            (width, weight[shown, :width], x[:, shown]),
        )
    )
    np.testing.assert_allclose(whole.mean[:, :width], alone.mean, rtol=1e-12)
    np.testing.assert_allclose(whole.scatter[:, :width, :width], alone.scatter, rtol=1e-9)
