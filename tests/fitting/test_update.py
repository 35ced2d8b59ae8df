"""Models that take images in, let them go, fade and join: all equal to a fit on the same images."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from edgeseg.base.errors import ArtefactError, UsageError
from edgeseg.base.utc import utc_time
from edgeseg.data.datasets import load_batches, open_dataset
from edgeseg.fitting.options import Changes
from edgeseg.fitting.update import join_scores, merge_models, update
from edgeseg.model.artefact import Artefact, load_artefact, save_artefact, sorted_prints
from edgeseg.model.moments import Moments
from tests.support.commands import fail, succeed
from tests.support.shares import (
    FIT_TINY,
    TINY,
    assert_same_model,
    assert_same_moments,
    part,
    write_tiny,
)
from tests.support.small_models import RANDOM, fit_small

EXACT = 1e-9


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("tiny") / "plate")


@pytest.fixture(scope="module")
def folders(data) -> dict[str, Path]:
    """Nine old images and four new ones; other parts, of another line."""
    other = write_tiny(data.parent / "other", train=3, seed=5)
    return {
        "old": part(data, data.parent / "old", range(9)),
        "new": part(data, data.parent / "new", range(9, 13)),
        "one": part(data, data.parent / "one", range(9, 10)),
        "few": part(data, data.parent / "few", range(2)),
        "all": part(data, data.parent / "all", range(13)),
        "other": other / "train/good",
    }


@pytest.fixture(scope="module")
def models(folders) -> dict[str, Artefact]:
    return {name: fit_small(folders[name], config=TINY) for name in ("old", "new", "all")}


def changed(model: Artefact, **changes: object) -> tuple[Artefact, list[str]]:
    lines: list[str] = []
    options = replace(RANDOM, note=lines.append)
    return update(model, Changes(**changes), options), lines


def test_update_is_a_fit_on_the_union(models, folders):
    found, lines = changed(models["old"], more=open_dataset(folders["new"]))
    assert_same_model(found, models["all"], calibration=False, tolerance=EXACT)
    assert found.data["fitted"] == 13
    assert found.calibration.good.count == 13  # four new ones are too few for 10 %
    assert found.calibration.method == (
        "cross-conformal on 4 new images and scores of the earlier model, 13 good images, "
        "by their tail"
    )
    assert lines == [
        "the threshold rests on scores that an earlier model gave; "
        "calibrate on good images kept apart for a better one"
    ]


def test_a_map_of_its_own_grows_with_the_model(folders):
    config = replace(TINY, map_layers=(1, 2))
    old, every = (fit_small(folders[name], config=config) for name in ("old", "all"))
    found, _ = changed(old, more=open_dataset(folders["new"]))
    assert_same_model(found, every, calibration=False, tolerance=EXACT)
    good = found.calibration.good
    assert good.shown_grids.shape == good.grids.shape == (13, *TINY.grid_hw)
    assert np.array_equal(good.shown_grids[4:], old.calibration.good.shown_grids)
    images = torch.from_numpy(_frames(folders["few"]))
    ours, theirs = (model.model()(images)[3] for model in (found, every))
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_a_single_image_of_a_network_that_treats_lone_images_otherwise(folders):
    """resnet18 of one image takes another convolution, 1e-6 apart, unless it goes as a pair."""
    config = replace(TINY, backbone="resnet18")
    old, one = (fit_small(folders[name], config=config) for name in ("old", "one"))
    found, _ = changed(old, more=open_dataset(folders["one"]))
    assert_same_moments(found.moments, old.moments.merge(one.moments), tolerance=EXACT)
    whole = part(folders["all"].parent / "plate", folders["all"].parent / "ten", range(10))
    assert_same_model(found, fit_small(whole, config=config), calibration=False, tolerance=EXACT)


def test_new_images_are_judged_by_the_model_without_their_fold(models, folders):
    chosen = replace(models["old"].calibration, requested_rate=0.2)  # as `edgeseg threshold` does
    rare = replace(models["old"], calibration=chosen)
    found, lines = changed(rare, more=open_dataset(folders["new"]))
    good = found.calibration.good
    assert found.calibration.method == "cross-conformal on 4 new images, 4 good images"
    assert lines == []
    # By brute force: the fold that the third image is in, by a fit on all others.
    order = np.random.default_rng(TINY.seed).permutation(4)
    fold = sorted(order[0 :: TINY.folds])
    (batch,) = load_batches(
        open_dataset(folders["all"]).train, size_hw=TINY.size_hw, batch_size=100
    )
    frames = torch.from_numpy(batch.frames)
    others = [place for place in range(13) if place - 9 not in fold]
    data = folders["all"].parent / "plate"
    target = part(data, data.parent / "others", range(0))
    images = sorted((data / "train/good").iterdir())
    for place in others:
        (target / images[place].name).write_bytes(images[place].read_bytes())
    model = fit_small(target, config=TINY).model()
    expected = [float(model(frames[9 + place][None])[1]) for place in fold]
    np.testing.assert_allclose(good.scores[: len(fold)], expected, rtol=1e-3)


def test_forget_undoes_update(models, folders):
    found, lines = changed(models["all"], forget=open_dataset(folders["new"]))
    assert_same_model(found, models["old"], calibration=False, tolerance=EXACT)
    assert found.data["fitted"] == 9
    assert found.calibration.method == "scores of the earlier model, 13 good images, by their tail"
    assert "an earlier model gave" in lines[0]


def test_forget_comes_before_the_new_images(models, folders):
    found, _ = changed(
        models["old"], more=open_dataset(folders["new"]), forget=open_dataset(folders["few"])
    )
    expected, _ = changed(models["all"], forget=open_dataset(folders["few"]))
    assert_same_moments(found.moments, expected.moments, tolerance=EXACT)
    assert [line["action"] for line in found.history] == ["fit", "forget", "update"]


def test_images_that_were_never_fitted_are_not_forgotten(models, folders):
    with pytest.raises(UsageError) as caught:
        changed(models["old"], forget=open_dataset(folders["other"]))
    assert str(caught.value) == (
        "forget=good: without these 3 images 64 of 64 covariances would be negative, so not "
        "all of them are part of this model, or they count less since a decay; expected images "
        "that it was fitted on"
    )
    with pytest.raises(UsageError) as caught:
        changed(models["old"], forget=open_dataset(folders["old"]))
    assert str(caught.value) == (
        "forget=old: 9 images of a model of 9: none would be left; fit a new model"
    )


def test_a_constant_image_can_be_forgotten(folders, tmp_path):
    """Nothing varies anywhere: a scatter of rounding size is not taken for a negative one."""
    for name in ("four", "two"):
        target = tmp_path / name
        target.mkdir()
        first = sorted(folders["old"].iterdir())[0].read_bytes()
        for place in range(4 if name == "four" else 2):
            (target / f"{place}.png").write_bytes(first)
    four = fit_small(tmp_path / "four", config=replace(TINY, pool=1, share=1))
    found, _ = changed(four, forget=open_dataset(tmp_path / "two"))
    assert found.moments.images == 2


def test_decay_weighs_the_images(models, folders):
    found, _ = changed(models["old"], more=open_dataset(folders["new"]), decay=0.3)
    embedded = models["old"].model().embeddings(_frames(folders["all"])).astype(np.float64)
    weight = np.array([0.3] * 9 + [1.0] * 4)
    mean = np.einsum("n,nkp->pk", weight, embedded) / weight.sum()
    centred = embedded - mean.T
    scatter = np.einsum("n,nkp,nlp->pkl", weight, centred, centred)
    count = np.full(len(mean), weight.sum())
    assert_same_moments(
        found.moments, Moments(count=count, mean=mean, scatter=scatter), tolerance=EXACT
    )
    assert found.moments.decayed
    assert found.data["fitted"] == 7  # 0.3 * 9 + 4 = 6.7
    decayed = found.history[1]
    assert (decayed["action"], decayed["images"], decayed["factor"]) == ("decay", 9, 0.3)


def test_decay_below_one_image(folders):
    """Counts below one still have a mean and a covariance."""
    one = replace(fit_small(folders["one"], config=TINY), prints=sorted_prints(()))
    found, _ = changed(one, more=open_dataset(folders["one"]), decay=0.01)
    assert_same_moments(found.moments, one.moments.scale(1.01))
    faded = replace(one, moments=one.moments.scale(0.2))
    assert_same_moments(
        changed(faded, more=open_dataset(folders["one"]))[0].moments, one.moments.scale(1.2)
    )


def _frames(folder: Path) -> NDArray[np.uint8]:
    samples = open_dataset(folder).train
    (batch,) = load_batches(samples, size_hw=TINY.size_hw, batch_size=100)
    return batch.frames


def test_two_lines_join(models, folders):
    lines: list[str] = []
    options = replace(RANDOM, note=lines.append)
    joined = merge_models(
        {"a.edgeseg": models["old"], "b.edgeseg": models["new"]}, apart=None, options=options
    )
    assert_same_model(joined, models["all"], calibration=False, tolerance=EXACT)
    assert (
        joined.calibration.method == "scores of the earlier models, 13 good images, by their tail"
    )
    assert "an earlier model gave" in lines[0]
    assert [line["action"] for line in joined.history] == ["fit", "fit", "merge"]
    assert joined.history[-1]["from"] == "a.edgeseg + b.edgeseg"
    assert joined.data["name"] == "old + new"
    apart = merge_models(
        {"a": models["old"], "b": models["new"]},
        apart=open_dataset(folders["few"]),
        options=RANDOM,
    )
    assert apart.calibration.method == "split-conformal, 2 good images"
    expected = joined.model()(torch.from_numpy(_frames(folders["few"])))[1]
    np.testing.assert_allclose(apart.calibration.good.scores, expected, rtol=1e-5)


def test_scores_of_several_sets_are_those_of_one(models):
    old, new = (models[name].calibration.good for name in ("old", "new"))
    rng = np.random.default_rng(0)
    d2 = rng.random((13, *TINY.grid_hw)).astype(np.float32)
    parts = [
        replace(good, d2_mean=some.mean(axis=0), d2_std=some.std(axis=0))
        for good, some in ((old, d2[:9]), (new, d2[9:]))
    ]
    both = join_scores(parts)
    assert both.scores.tolist() == [*old.scores, *new.scores]
    np.testing.assert_allclose(both.d2_mean, d2.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(both.d2_std, d2.std(axis=0), rtol=1e-4)


def test_models_that_do_not_belong_together(models, folders):
    other = fit_small(folders["new"], config=replace(TINY, k=12))
    with pytest.raises(UsageError) as caught:
        merge_models({"a": models["old"], "b": other}, apart=None, options=RANDOM)
    assert str(caught.value) == (
        "a and b cannot be joined (setting k: 16 and 12); fit both with the same settings and seed"
    )
    turned = replace(models["new"], embedding=-models["new"].embedding)
    with pytest.raises(UsageError, match=r"a and b cannot be joined \(W: [0-9a-f]{12} and "):
        merge_models({"a": models["old"], "b": turned}, apart=None, options=RANDOM)


def test_a_model_without_moments_cannot_change(models, folders):
    with pytest.raises(ArtefactError) as caught:
        changed(replace(models["old"], moments=None), more=open_dataset(folders["new"]))
    assert str(caught.value) == (
        "this model was saved without its moments and cannot change; fit it again and keep them"
    )


def test_figures_of_the_earlier_model_are_dropped(models, folders):
    measured = replace(models["old"], accuracy=[{"dataset": "x", "pro": 0.9}])
    found, lines = changed(measured, more=open_dataset(folders["new"]))
    assert found.accuracy == []
    assert lines[-1] == "stored figures of accuracy were of an earlier model and are dropped"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "nothing to do: give a folder of good images, or forget=FOLDER"),
        ({"decay": 0.0}, "decay=0: expected above 0, up to 1"),
        ({"decay": 1.5}, "decay=1.5: expected above 0, up to 1"),
    ],
)
def test_changes_that_cannot_be_meant(changes, sentence):
    with pytest.raises(UsageError) as caught:
        Changes(**changes)
    assert str(caught.value) == sentence


def test_commands(models, folders, tmp_path):
    model, other = tmp_path / "part.edgeseg", tmp_path / "other.edgeseg"
    save_artefact(models["old"], model)
    save_artefact(models["new"], other)
    result = succeed("update", model, folders["new"], "--decay", "0.5", "--out", tmp_path / "m")
    assert result.stdout == ""
    last = result.stderr.splitlines()[-1]
    assert last.startswith(f"wrote {tmp_path / 'm'} (about 8 images) in ")
    history = json.loads(succeed("info", tmp_path / "m", "--json").stdout)["history"]
    newest = max(path.stat().st_mtime for path in folders["new"].iterdir())
    assert history[-1] == {
        "action": "update", "images": 4, "from": "new", "when": utc_time(newest),
    }  # fmt: skip
    assert "update" in succeed("info", tmp_path / "m").stdout
    before = model.read_bytes()
    assert "covariances would be negative" in fail(
        "update", model, "--forget", folders["other"], code=2
    )
    assert model.read_bytes() == before  # a refused change leaves the model alone
    succeed("update", model, folders["new"], "--quiet")  # in place
    assert_same_model(load_artefact(model), models["all"], calibration=False, tolerance=EXACT)
    assert fail("update", model, "--decay", "0.5", code=2).startswith("nothing to do")
    assert "changes nothing" in fail(
        "update", model, "--forget", folders["few"], "--decay", "0.5", code=2
    )
    assert fail("update", model, tmp_path / "none", code=2) == (
        f"MORE {tmp_path / 'none'}: no such folder; expected a folder of pictures"
    )
    succeed("merge", model, other, "--out", tmp_path / "both", "--calibrate", folders["few"])
    assert load_artefact(tmp_path / "both").moments.images == 17
    assert "named twice" in fail("merge", model, model, "--out", tmp_path / "x", code=2)
    assert "is a whole model" in fail("merge", model, "--out", tmp_path / "x", code=2)


def test_fit_options_are_those_of_the_tests(models, data, tmp_path):
    """FIT_TINY and TINY are the same settings."""
    succeed("fit", data, "--out", tmp_path / "m", *FIT_TINY)
    assert load_artefact(tmp_path / "m").config == replace(TINY, map_layers=())
