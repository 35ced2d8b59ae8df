"""A picture counts once in an update: neither twice among the new ones nor beside the old ones."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeseg.base.errors import UsageError
from edgeseg.data.datasets import open_dataset
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.options import Changes
from edgeseg.fitting.update import merge_models, update
from edgeseg.model.artefact import load_artefact, save_artefact
from edgeseg.vision.images import read_image, write_image
from tests.support.commands import fail
from tests.support.picture_bytes import encode
from tests.support.shares import TINY, write_tiny
from tests.support.small_models import RANDOM

QUIET = replace(RANDOM, planted=0)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("copies") / "plate", train=9) / "train/good"


@pytest.fixture(scope="module")
def model(good: Path):
    """Fitted on the first six."""
    dataset = open_dataset(good)
    return fit(replace(dataset, train=dataset.train[:6]), TINY, QUIET)


def more(good: Path, *places: int):
    dataset = open_dataset(good)
    return replace(dataset, train=tuple(dataset.train[place] for place in places))


def same(first, second) -> None:
    for name in ("count", "mean", "scatter"):
        one, other = (getattr(each.moments, name) for each in (first, second))
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(first.prints, second.prints)


def test_what_the_model_has_and_what_comes_twice_is_left_out(good, model, tmp_path):
    for name in ("006.png", "007.png", "008.png"):
        shutil.copy(good / name, tmp_path / name)
    shutil.copy(good / "007.png", tmp_path / "again.png")
    image = read_image(good / "002.png")  # in another container
    (tmp_path / "old.bmp").write_bytes(encode(".bmp", image[..., ::-1]))
    said: list[str] = []
    options = replace(QUIET, note=said.append, batch_size=1)
    changed = update(model, Changes(more=open_dataset(tmp_path)), options)
    assert (
        "left out of 5 pictures: 1 that the model has already and 1 that come twice, old.bmp the "
        "first; each counts once"
    ) in said
    assert changed.data["fitted"] == 9
    same(changed, update(model, Changes(more=more(good, 6, 7, 8)), replace(QUIET, batch_size=1)))


def test_new_pictures_are_passed_over(good, model):
    said: list[str] = []
    update(model, Changes(more=more(good, 6, 7)), replace(QUIET, note=said.append))
    assert not any("left out" in line for line in said)


def test_nothing_new_is_refused(good, model, tmp_path):
    with pytest.raises(UsageError, match="the model has all of its 2 pictures already"):
        update(model, Changes(more=more(good, 0, 1)), QUIET)
    save_artefact(model, tmp_path / "m.edgeseg")
    before = (tmp_path / "m.edgeseg").read_bytes()
    write_image(tmp_path / "old" / "a.png", read_image(good / "000.png"))
    said = fail("update", tmp_path / "m.edgeseg", tmp_path / "old", code=2)
    assert "already; expected new ones" in said
    assert (tmp_path / "m.edgeseg").read_bytes() == before


def test_files_keep_what_they_were_fitted_on(good, model, tmp_path):
    save_artefact(model, tmp_path / "m.edgeseg")
    again = load_artefact(tmp_path / "m.edgeseg")
    assert len(again.prints) == 6
    np.testing.assert_array_equal(again.prints, model.prints)
    grown = update(again, Changes(more=more(good, 6)), QUIET)
    both = merge_models({"a": model, "b": grown}, apart=None, options=QUIET)
    assert len(grown.prints) == len(both.prints) == 7


def test_what_was_forgotten_may_come_again(good, model):
    gone = update(model, Changes(forget=more(good, 0)), QUIET)
    assert len(gone.prints) == 5
    assert len(update(gone, Changes(more=more(good, 0)), QUIET).prints) == 6
