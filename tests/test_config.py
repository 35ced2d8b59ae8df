"""FitConfig: presets, JSON and back, and every value that cannot be meant."""

import json
import math
from dataclasses import FrozenInstanceError, fields

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.config import CHOICES, PRESETS, FitConfig


def test_paper_preset_is_the_paper():
    paper = FitConfig.preset("paper")
    assert paper.grid_hw == (64, 64)
    assert paper.layers == (1, 2, 3)
    assert paper.interpolation == "nearest"
    assert (paper.embedding, paper.k, paper.ridge) == ("semi_orthogonal", 100, 0.01)
    assert (paper.pool, paper.share, paper.rank, paper.top) == (1, 1, 0, 1)
    assert (paper.map_layers, paper.sigma) == ((), 4.0)


def test_edge_preset_is_the_default():
    assert FitConfig.preset("edge") == FitConfig()
    assert FitConfig().grid_hw == (32, 32)


def test_unknown_preset():
    with pytest.raises(UsageError) as caught:
        FitConfig.preset("fast")
    assert str(caught.value) == "preset 'fast' is unknown; expected one of ('edge', 'paper')"


@pytest.mark.parametrize("name", PRESETS)
def test_json_and_back(name):
    config = PRESETS[name].with_options({"size_hw": (704, 256), "layers": (1, 3)})
    text = json.dumps(config.to_dict(), allow_nan=False)
    assert FitConfig.from_dict(json.loads(text)) == config


def test_missing_keys_are_defaults_and_unknown_ones_are_refused():
    assert FitConfig.from_dict({"k": 7}) == FitConfig(k=7)
    with pytest.raises(UsageError) as caught:
        FitConfig.from_dict({"k": 7, "sigmma": 4})
    assert str(caught.value) == "unknown settings ['sigmma']; expected names of FitConfig"


def test_sequences_become_tuples():
    config = FitConfig(layers=[1, 2], map_layers=[], size_hw=[64, 96])  # type: ignore[arg-type]
    assert (config.layers, config.map_layers, config.size_hw) == ((1, 2), (), (64, 96))
    assert hash(config) == hash(FitConfig(layers=(1, 2), map_layers=(), size_hw=(64, 96)))


def test_a_whole_number_is_the_same_setting():
    """10 and 10.0 must give the same bytes of an artefact."""
    whole = FitConfig(rank=10, sigma=4, ridge=1)
    assert json.dumps(whole.to_dict()) == json.dumps(
        FitConfig(rank=10.0, sigma=4.0, ridge=1.0).to_dict()
    )


def test_a_config_does_not_change():
    with pytest.raises(FrozenInstanceError):
        FitConfig().k = 3  # type: ignore[misc]


def test_grid_of_a_rectangle():
    assert FitConfig(size_hw=(704, 256), stride=8).grid_hw == (88, 32)


LAYERS = "increasing layer numbers from 1, such as 1,2,3"
MAP_LAYERS = "some of the layers 1,2,3 in their order, or none"
RIDGE = "above 0, or a constant pixel has no inverse"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("k", 0, "a whole number from 1"),
        ("k", 1.5, "a whole number from 1"),
        ("stride", 0, "a whole number from 1"),
        ("share", 0, "a whole number from 1"),
        ("top", -1, "a whole number from 1"),
        ("seed", -1, "a whole number from 0"),
        ("folds", 1, "a whole number from 2"),
        ("pool", 2, "an odd number, to have a centre"),
        ("context", 2, "an odd number, to have a centre"),
        ("context", -1, "a whole number from 0"),
        ("rank", -1, "a share below 1, a whole number or 0"),
        ("rank", 2.5, "a share below 1, a whole number or 0"),
        ("rank", math.inf, "a share below 1, a whole number or 0"),
        ("rank", math.nan, "a share below 1, a whole number or 0"),
        ("ridge", 0, RIDGE),
        ("ridge", math.inf, RIDGE),
        ("ridge", math.nan, RIDGE),
        ("sigma", -0.1, "0 (no blur) up to the size of the image"),
        ("sigma", 257, "0 (no blur) up to the size of the image"),
        ("sigma", math.nan, "0 (no blur) up to the size of the image"),
        ("holdout", 0, "between 0 and 1"),
        ("holdout", 1, "between 0 and 1"),
        ("false_alarm_rate", 0, "between 0 and 1"),
        ("false_alarm_rate", 1, "between 0 and 1"),
        ("layers", (), LAYERS),
        ("layers", (2, 1), LAYERS),
        ("layers", (1, 1), LAYERS),
        ("layers", (0, 1), LAYERS),
        ("map_ridge", 0, RIDGE),
        ("map_ridge", math.nan, RIDGE),
        ("map_layers", (2, 1), MAP_LAYERS),
        ("map_layers", (1, 1), MAP_LAYERS),
        ("map_layers", (1, 4), MAP_LAYERS),
        ("size_hw", (31, 256), "at least 32x32"),
        ("overlap", -1, "a whole number from 0"),
        ("overlap", 64, "0 without tiles"),
        ("size_hw", (256, 31), "at least 32x32"),
        *((name, "?", f"one of {allowed}") for name, allowed in CHOICES.items()),
    ],
)
def test_values_that_cannot_be_meant(name, value, expected):
    with pytest.raises(UsageError) as caught:
        FitConfig().with_options({name: value})
    assert str(caught.value) == f"{name}={value!r}: expected {expected}"


def test_a_map_whose_maximum_is_the_score_has_no_layers_of_its_own():
    with pytest.raises(UsageError) as caught:
        FitConfig(top=1, map_layers=(1, 2))
    assert str(caught.value) == (
        "map_layers=(1, 2): the score never uses them, and with top=1 it is the map's maximum; "
        "leave one of them out"
    )
    assert FitConfig(top=1, map_layers=()).map_layers == ()


def test_every_field_is_checked_or_free_text():
    """A new setting must come with its check; the backbone's name is checked by its registry."""
    checked = {
        "layers", "size_hw", "stride", "interpolation", "embedding", "k", "covariance", "pool",
        "share", "rank", "directions", "ridge", "sigma", "top", "seed", "calibration", "holdout",
        "folds", "false_alarm_rate", "frame_hw", "overlap", "moments", "ridge_unit", "context",
        "geometry", "map_layers", "map_ridge", "promise", "variants",
    }  # fmt: skip
    assert {item.name for item in fields(FitConfig)} == checked | {"backbone"}


def test_tiles_are_part_of_the_settings():
    config = FitConfig(size_hw=(512, 512), frame_hw=[2160, 3840], overlap=64)  # type: ignore[arg-type]
    assert config.image_hw == (2160, 3840)
    assert config.grid_hw == (64, 64)
    assert config.tiling is not None
    assert len(config.tiling.corners_yx()) == 45
    assert FitConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert FitConfig().tiling is None
    assert FitConfig().image_hw == FitConfig().size_hw


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"frame_hw": (100, 300)}, "a frame of 100x300 is smaller than a tile of 256x256"),
        ({"frame_hw": (256, 300), "overlap": 256}, "an overlap of 256 pixels"),
    ],
)
def test_tiles_that_do_not_fit(settings, sentence):
    with pytest.raises(UsageError, match=sentence):
        FitConfig(**settings)


def test_the_ridge_of_the_paper_is_absolute():
    assert FitConfig.from_dict(FitConfig().to_dict()) == FitConfig()
    assert FitConfig.preset("paper").ridge_unit == "absolute"
