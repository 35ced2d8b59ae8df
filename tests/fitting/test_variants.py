"""A fit on several variants: what it names, what it refuses, and what its numbers mean."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeseg.api import load
from edgeseg.base.errors import ArtefactError, DatasetError, EdgesegError, UsageError
from edgeseg.config import FitConfig
from edgeseg.data.datasets import open_dataset
from edgeseg.fitting.fitting import fit
from edgeseg.fitting.options import Changes, Checkpoints, FitOptions
from edgeseg.fitting.update import merge_models, update
from edgeseg.fitting.variants import by_variant
from edgeseg.model.artefact import load_artefact, save_artefact
from edgeseg.vision.group_by import GroupBy
from edgeseg.vision.images import write_image
from tests.support.shares import TINY
from tests.support.small_models import RANDOM
from tests.support.variants import COLOURS, WITH_MAP, coloured, colours, two_colours, write_colours


@pytest.mark.parametrize("config", [TINY, WITH_MAP], ids=["plain", "map"])
def test_a_prediction_names_the_variant(tmp_path: Path, config: FitConfig) -> None:
    save_artefact(two_colours(config), tmp_path / "m.edgeseg")
    model = load(tmp_path / "m.edgeseg")
    for colour in COLOURS:
        result = model.predict(coloured(colour, 60))
        assert (result.variant, result.verdict) == (colour, "good")
    assert model.info["config"]["variants"] == ["blue", "red"]


@pytest.mark.parametrize(
    "config",
    [TINY, WITH_MAP, replace(TINY, moments="blocks", share=2), replace(TINY, covariance="global")],
    ids=["plain", "map", "blocks", "global"],
)
def test_images_measure_what_their_moments_say(config: FitConfig) -> None:
    calibration = two_colours(config).calibration
    assert calibration.measured_d2 == pytest.approx(calibration.expected_d2, rel=1e-4)


def test_the_same_images_give_the_same_file(tmp_path: Path) -> None:
    save_artefact(two_colours(), tmp_path / "a.edgeseg")
    again = fit(open_dataset(colours(), variants=True), TINY, RANDOM)
    save_artefact(again, tmp_path / "b.edgeseg")
    assert (tmp_path / "a.edgeseg").read_bytes() == (tmp_path / "b.edgeseg").read_bytes()
    loaded = load_artefact(tmp_path / "a.edgeseg")
    assert loaded.factors.variant_means is not None
    assert loaded.moments is None


def test_without_asking_folders_are_one_product() -> None:
    assert not fit(open_dataset(colours()), TINY, RANDOM).config.variants


def test_every_fold_has_all_variants() -> None:
    ordered = by_variant([4, 0, 3, 1, 2], [0, 1, 0, 1, 0])
    assert ordered == [4, 0, 2, 3, 1]
    assert by_variant([2, 0, 1], []) == [2, 0, 1]


def test_the_fit_tells_what_one_threshold_means_to_each() -> None:
    notes: list[str] = []
    fit(open_dataset(colours(), variants=True), TINY, replace(RANDOM, note=notes.append))
    head, blue, red = (line.split() for line in notes[-3:])
    assert head[0] == "variant"
    assert (blue[0], red[0]) == ("blue", "red")
    assert blue[1] == red[1] == "7"
    assert " ".join(blue[3:6]) == "7 of 7", "all of them named rightly"


def options(folder: Path, *, resume: bool, stop: bool = False) -> FitOptions:
    def progress(items, *, length, label):
        for done, item in enumerate(items):
            if stop and label == "Fitting" and done == 2:
                raise InterruptedError
            yield item

    checkpoints = Checkpoints(folder=folder, resume=resume, seconds=0)
    return replace(RANDOM, checkpoints=checkpoints, progress=progress)


def test_a_stopped_fit_goes_on(tmp_path: Path) -> None:
    data, parts = open_dataset(colours(), variants=True), tmp_path / "parts"
    with pytest.raises(InterruptedError):
        fit(data, TINY, options(parts, resume=False, stop=True))
    resumed = fit(data, TINY, options(parts, resume=True))
    expected = two_colours().factors
    np.testing.assert_array_equal(resumed.factors.factor, expected.factor)
    np.testing.assert_array_equal(resumed.factors.variant_means, expected.variant_means)


def refused(folder: Path, config: FitConfig = TINY, given: FitOptions = RANDOM) -> str:
    with pytest.raises(EdgesegError) as caught:
        fit(open_dataset(folder, variants=True), config, given)
    return str(caught.value)


def test_folders_that_are_no_variants_are_refused(tmp_path: Path) -> None:
    folder = write_colours(tmp_path / "c", each=2)
    write_image(folder / "loose.png", coloured("red", 9))
    assert "loose.png: beside the folders of the variants (blue, red)" in refused(folder)
    (folder / "loose.png").unlink()
    (folder / "red/001.png").unlink()
    assert "1 good pictures in the folder red" in refused(folder)
    shutil.rmtree(folder / "red")
    assert "two folders or more" in refused(folder)


def test_a_variant_of_one_part_cannot_be_held_out() -> None:
    together = replace(RANDOM, group_by=GroupBy(text="folder"))
    assert "variant blue: no picture is left" in refused(colours(), given=together)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pool": 0}, "compares pictures of one product"),
        ({"frame_hw": (128, 128)}, "fit without tiles"),
    ],
)
def test_settings_that_do_not_go_with_variants(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        TINY.with_options({"variants": ("blue", "red")} | changes)
    with pytest.raises(UsageError, match="two names"):
        TINY.with_options({"variants": ("blue",)})


def test_models_of_variants_are_fitted_again() -> None:
    model = two_colours()
    with pytest.raises(UsageError, match="fit again on all pictures"):
        update(model, Changes(more=open_dataset(colours())), RANDOM)
    with pytest.raises(UsageError, match="a has several variants"):
        merge_models({"a": model, "b": model}, apart=None, options=RANDOM)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    fitted = two_colours()
    assert fitted.factors.variant_means is not None
    short = replace(fitted.factors, variant_means=fitted.factors.variant_means[:1])
    save_artefact(replace(fitted, factors=short), tmp_path / "m.edgeseg")
    with pytest.raises(ArtefactError, match=r"variants\.mean"):
        load_artefact(tmp_path / "m.edgeseg")


def test_settings_of_another_fit_name_its_variants(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pictures of the variants none, expected those of blue"):
        fit(open_dataset(colours()), two_colours().config, RANDOM)


def test_a_held_out_variant_is_missed(tmp_path: Path) -> None:
    """With a holdout, chance may take all pictures of a small variant."""
    config = replace(TINY, calibration="holdout", holdout=0.9)
    with pytest.raises(DatasetError, match="no picture is left"):
        fit(open_dataset(write_colours(tmp_path / "c", each=2), variants=True), config, RANDOM)
