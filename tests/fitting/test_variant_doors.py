"""Variants of a product: a mean each, one covariance, and the name of the one that a part shows."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeseg.api import Model
from edgeseg.base.errors import DatasetError, UsageError
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.update import moments_of
from edgeseg.model.artefact import Artefact, load_artefact, save_artefact
from edgeseg.model.predictor import torch_predictor, variant_predictor
from edgeseg.vision.group_by import GroupBy
from edgeseg.vision.images import write_image
from tests.support.small_models import RANDOM, SHOWN, SMALL, frames

NAMES = ("dark", "light")
EACH = 6
APART = replace(RANDOM, group_by=GroupBy(text="none"))


def pictures(variant: str, *, first: int = 0, count: int = EACH) -> np.ndarray:
    good = frames(count, first=first)
    return good // 2 if variant == "dark" else good


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    for start, name in enumerate(NAMES):
        (folder / name).mkdir()
        for index, picture in enumerate(pictures(name, first=start * EACH)):
            write_image(folder / name / f"{index}.png", picture)
    return folder


def opened(parts: Path) -> Dataset:
    return open_dataset(parts, layout="folder", variants=True)


@pytest.fixture(scope="module", params=[SMALL, SHOWN], ids=["map of the score", "own map"])
def several(parts: Path, request: pytest.FixtureRequest) -> Artefact:
    return fit(opened(parts), request.param, APART)


def test_folders_are_the_variants(several: Artefact) -> None:
    assert several.config.variants == NAMES
    means = several.factors.variant_means
    assert means is not None
    assert means.shape == (2, *several.factors.mean.shape)
    np.testing.assert_allclose(means.mean(axis=0), several.factors.mean, atol=1e-5)
    assert several.calibration.good.grids is None, "cells of the nearest variant are not a map"


def test_a_part_is_named_and_a_defect_marked_at_every_door(several: Artefact) -> None:
    model = Model(several)
    predict = variant_predictor(several.model())
    for number, name in enumerate(NAMES):
        (picture,) = pictures(name, first=40, count=1)
        result = model.predict(picture)
        assert result.variant == name
        assert result.grid_hw is not None
        assert (result.map_grid_hw is None) == (several.config.map_layers == ())
        of = predict(picture[None])
        assert of.variants is not None
        assert of.variants.tolist() == [number]
        maps, scores = torch_predictor(several.model())(picture[None])
        np.testing.assert_array_equal(of.maps, maps)
        assert of.scores.tolist() == scores.tolist() == [result.score]
        x_nkhw = several.model().embeddings(picture[None]).reshape(1, -1, *SMALL.grid_hw)
        cells = several.head().distances(x_nkhw)
        assert cells.variants is not None
        assert cells.variants.tolist() == [number]
        np.testing.assert_allclose(several.head().judge(x_nkhw)[1], scores, rtol=1e-3)


def test_a_file_keeps_variants(several: Artefact, tmp_path: Path) -> None:
    save_artefact(several, tmp_path / "m.edgeseg")
    again = load_artefact(tmp_path / "m.edgeseg")
    assert again.config == several.config
    np.testing.assert_array_equal(again.factors.variant_means, several.factors.variant_means)
    (picture,) = pictures("dark", first=40, count=1)
    assert Model(again).predict(picture).score == Model(several).predict(picture).score


def test_one_product_has_no_variants(parts: Path) -> None:
    plain = fit(open_dataset(parts, layout="folder"), SMALL, APART)
    assert "variants" not in plain.config.to_dict()
    assert plain.factors.variant_means is None
    assert "variant" not in plain.model().outputs
    (picture,) = pictures("dark", count=1)
    assert Model(plain).predict(picture).variant is None
    assert variant_predictor(plain.model())(picture[None]).variants is None


def test_only_a_whole_fit_takes_in_images(several: Artefact) -> None:
    with pytest.raises(UsageError, match=r"several variants.*fit again"):
        moments_of(several, "m.edgeseg")


def test_a_picture_beside_the_folders(parts: Path) -> None:
    dataset = opened(parts)
    loose = replace(dataset.train[0], variant=None)
    with pytest.raises(DatasetError, match="beside the folders of the variants"):
        fit(replace(dataset, train=(loose, *dataset.train[1:])), SMALL, APART)


def test_a_way_to_find_parts_is_chosen_with_variants(parts: Path) -> None:
    lines: list[str] = []
    geometry = replace(SMALL.geometry, locate="auto")
    chosen = fit(
        opened(parts), replace(SMALL, geometry=geometry), replace(APART, note=lines.append)
    )
    assert chosen.config.variants == NAMES
    assert any(line.startswith("locate ") for line in lines)
