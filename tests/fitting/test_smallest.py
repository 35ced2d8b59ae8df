"""The smallest defect that matters: what is said before a fit, and what planted spots prove."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgeseg
from edgeseg.base.errors import UsageError
from edgeseg.config import FitConfig
from edgeseg.data.datasets import open_dataset
from edgeseg.decision.planted_scores import spots_found
from edgeseg.fitting.options import Changes, FitOptions
from edgeseg.fitting.smallest import CellSize, spots_on, what_is_seen
from edgeseg.fitting.update import update
from edgeseg.model.artefact import Artefact, load_artefact, save_artefact
from edgeseg.vision.geometry import Geometry, Roi
from edgeseg.vision.images import write_image
from tests.support.commands import fail, succeed
from tests.support.messages import says
from tests.support.shares import FIT_TINY, TINY, write_tiny
from tests.support.small_models import RANDOM, fit_small

CAMERA = (1024, 2048)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("tiny") / "plate", train=9)


@pytest.fixture(scope="module")
def fitted(data) -> Artefact:
    return fit_small(data, config=TINY, options=replace(RANDOM, smallest=9))


@pytest.mark.parametrize(
    ("config", "cell"),
    [
        (FitConfig(), 2048 / 32),
        (FitConfig(size_hw=(512, 512)), 2048 / 64),
        (FitConfig(geometry=Geometry(roi=Roi(x=0, y=0, w=512, h=256))), 16),
        (FitConfig(frame_hw=(512, 1024)), 16),
    ],
    ids=["whole", "larger", "region", "tiles"],
)
def test_a_cell_in_pixels_of_the_camera(config: FitConfig, cell: float):
    assert CellSize.of(config, CAMERA).cell == cell
    says(
        what_is_seen(config, CAMERA, round(cell)),
        "smallest_seen",
        n=round(cell),
        n_cells=1,
        n_cell=cell,
    )
    assert what_is_seen(config, CAMERA, round(cell) - 1).key == "smallest_faint"


def test_what_no_pixel_shows_is_refused_and_the_advice_holds():
    with pytest.raises(UsageError, match=r"smallest=7: .* region of at most 224x224 .* 2368x1184$"):
        what_is_seen(FitConfig(), CAMERA, 7)
    advised = (
        FitConfig(geometry=Geometry(roi=Roi(x=0, y=0, w=224, h=224))),
        FitConfig(size_hw=(1184, 2368)),
    )
    assert [what_is_seen(config, CAMERA, 7).key for config in advised] == ["smallest_seen"] * 2


def test_spots_have_the_size_that_was_asked_for(data):
    samples = open_dataset(data).train
    for side in (4, 9):
        spots = list(spots_on(samples, range(9), config=TINY, smallest=side))
        assert spots
        for spot in spots:
            assert side**2 / 2 <= spot.planted.area_px <= 1.5 * side**2
            assert spot.input_hwc.shape[:2] == TINY.size_hw


def test_a_fit_keeps_the_scores_of_its_spots(data, fitted, tmp_path):
    facts = fitted.data["smallest"]
    assert facts["px"] == 9
    assert 1 <= len(facts["scores"]) <= 9
    found = spots_found(facts, fitted.calibration.score_threshold)
    above = sum(score > fitted.calibration.score_threshold for score in facts["scores"])
    says(found, "smallest_found", n=above, n_all=len(facts["scores"]), n_px=9)
    save_artefact(fitted, tmp_path / "part.edgeseg")
    assert load_artefact(tmp_path / "part.edgeseg").data["smallest"] == facts


def test_spots_change_nothing_else(data, fitted):
    plain = fit_small(data, config=TINY, options=RANDOM)
    assert "smallest" not in plain.data
    np.testing.assert_array_equal(plain.factors.factor, fitted.factors.factor)
    assert plain.calibration.thresholds == fitted.calibration.thresholds


def test_an_updated_model_forgets_what_an_earlier_one_found(data, fitted, tmp_path):
    more = write_tiny(tmp_path / "more", train=3, seed=7)
    changed = update(fitted, Changes(more=open_dataset(more)), RANDOM)
    assert changed.data["smallest"] == fitted.data["smallest"] | {"scores": []}
    says(spots_found(changed.data["smallest"], 1.0), "smallest_untried", n=9)


def test_arrays_keep_their_own_pixels():
    """Their cells are told in the pixels of the arrays, not of the input."""
    rng = np.random.default_rng(0)
    arrays = [rng.integers(90, 110, (128, 128, 3)).astype(np.uint8) for _ in range(6)]
    lines: list[str] = []
    edgeseg.fit(arrays, preset=TINY, smallest=5, options=replace(RANDOM, note=lines.append))
    cell = CellSize.of(TINY, (128, 128)).cell
    assert any(line == str(what_is_seen(TINY, (128, 128), 5)) for line in lines), (cell, lines)


def test_the_command_says_it_before_and_after(data, tmp_path):
    out = tmp_path / "part.edgeseg"
    small = FIT_TINY
    said = succeed("fit", data, "--out", out, *small, "--smallest", 12, "--planted", 0).output
    lines = said.splitlines()
    before = next(place for place, line in enumerate(lines) if line.startswith("a defect of 12"))
    after = next(place for place, line in enumerate(lines) if line.startswith("spots of 12"))
    assert before < lines.index(next(line for line in lines if line.startswith("fitting"))) < after
    assert "--smallest" in fail("fit", data, "--out", out, *small, "--smallest", 1, code=2)


def test_the_command_answers_without_a_fit(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for side, words in ((12, "a defect of 12 pixels"), (2, "a defect of 2 pixels")):
        result = succeed("fit", data, *FIT_TINY, "--smallest", side)
        assert result.stdout.startswith(words)
        assert len(result.stdout.splitlines()) == 1
        assert "nothing was fitted" in result.stderr
    assert "to fit, add --out part.edgeseg" in succeed("fit", data, "--smallest", 200).stderr
    write_image(tmp_path / "large/0.png", np.zeros((128, 128, 3), np.uint8))
    lost = succeed("fit", "large", "--smallest", 2, "--size", 32)
    assert "cannot be seen" in lost.stdout
    assert "a fit with these settings is refused" in lost.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["large"]
    asked = ("fit", data, *FIT_TINY, "--smallest", 12, "--locate", "auto")
    assert "--locate auto: the fit finds out" in fail(*asked, code=2)


@pytest.mark.parametrize("more", [(), ("--smallest", 12, "--all"), ("--smallest", 12, "--json")])
def test_a_fit_needs_a_file_to_write(data, more):
    assert fail("fit", data, *more, code=2) == "Missing option '--out' / '-o'."


def test_an_option_below_two_pixels_is_refused():
    with pytest.raises(UsageError, match="smallest=1: expected 2 or more"):
        FitOptions(smallest=1)
