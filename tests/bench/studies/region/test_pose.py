"""The study of parts that move: planted poses are what they say, and locators are compared."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from edgeseg.api import Model
from edgeseg.bench.studies.region import locating_time
from edgeseg.bench.studies.region import pose as study
from edgeseg.bench.studies.region.jitter import jittered
from edgeseg.bench.studies.region.shared_features import evaluated
from edgeseg.config import AUTO, FitConfig
from edgeseg.contract.images import read_image, read_mask, write_image
from edgeseg.data.datasets import open_dataset
from edgeseg.errors import UsageError
from edgeseg.fitting.fitting import fit
from tests.support.moving_parts import SIZE_HW, folder_of, part, scattered
from tests.support.small_models import RANDOM, SMALL


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wedge")
    folder_of(folder / "train/good", scattered(8))
    folder_of(folder / "test/good", scattered(4)[1:])
    folder_of(folder / "test/spot", [part(defect=True)])
    mask = np.zeros(SIZE_HW, np.uint8)
    mask[62:68, 66:74] = 255
    write_image(folder / "ground_truth/spot/000_mask.png", mask)
    return folder


def test_masks_move_with_their_images(parts: Path, tmp_path: Path) -> None:
    dataset = open_dataset(parts)
    assert jittered(dataset, tmp_path, shift=0, turn=0, seed=0) is dataset
    moved = jittered(dataset, tmp_path, shift=9, turn=40, seed=0)
    (sample,) = (sample for sample in moved.test if sample.label)
    assert sample.mask is not None
    inside = read_image(sample.image)[read_mask(sample.mask)]
    assert np.median(inside, axis=0).tolist() == pytest.approx([240, 240, 60], abs=6)
    assert not np.array_equal(read_mask(sample.mask), read_mask(dataset.test[-1].mask))  # type: ignore[arg-type]


def test_locators_are_held_against_planted_poses(parts: Path) -> None:
    errors = study.pose_errors(
        open_dataset(parts), FitConfig(), category="wedge", shift=6, turn=30, seed=0
    )
    good, bad = errors
    assert (good.way, good.parts, good.images, bad.parts) == ("blob", "good", 3, "defective")
    assert good.worst is not None
    assert good.worst < 3.0
    assert good.not_found == 0.0


def test_the_command_goes_on_where_it_was(
    parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def refused(dataset: object, compared: dict[str, FitConfig], options: object) -> None:
        asked.extend(compared)
        raise UsageError("no part stands out; try another way")

    monkeypatch.setattr(study, "evaluated", refused)
    monkeypatch.setattr(locating_time, "_REPEATS", 2)
    arguments = [str(parts), "--jitter", "0/0,3/0", "--out", str(tmp_path)]
    done = CliRunner().invoke(study.main, arguments)
    assert done.exit_code == 0, done.output
    assert asked == ["none", "pool auto", "blob"] * 2
    text = (tmp_path / "report.md").read_text()
    for heading in ("Accuracy under jitter", "Found poses against planted ones", "Steps"):
        assert heading in text
    assert "| blob |" in text
    assert "no part stands out |" in text
    again = CliRunner().invoke(study.main, arguments)
    assert "6 of 6 results are there already" in again.output
    assert len(asked) == 6
    pools = CliRunner().invoke(study.main, [*arguments, "--pools"])
    assert pools.exit_code == 0, pools.output
    assert asked[6:] == ["pool 1", "pool 3", "pool 5", "pool auto"] * 2


def test_a_row_has_the_figures_of_its_threshold(parts: Path) -> None:
    dataset = open_dataset(parts)
    options = replace(RANDOM, planted=0)
    (row,) = study.rows(
        dataset, SMALL, options, category="wedge", view="none", jitter=(0, 0), seed=0
    )
    ((_, _, result), *_) = evaluated(dataset, {"none": SMALL}, options)
    assert row.f1 == pytest.approx(result.f1)
    assert row.pro_05 == pytest.approx(result.figures["pro_05"])


def test_settings_that_share_features_give_what_they_give_alone(parts: Path) -> None:
    dataset = open_dataset(parts)
    settings = {f"pool {pool}": replace(SMALL, pool=pool, context=AUTO) for pool in (1, 3)}
    shared = {name: result for name, _, result in evaluated(dataset, settings, RANDOM)}
    for name, config in settings.items():
        alone = Model(fit(dataset, config, RANDOM)).evaluate(dataset)
        assert shared[name].scores == pytest.approx(alone.scores, rel=1e-5)
        assert shared[name].threshold == pytest.approx(alone.threshold, rel=1e-5)
        assert shared[name].pro == pytest.approx(alone.pro, rel=1e-5)
    with pytest.raises(UsageError, match="differ in their pool alone"):
        list(evaluated(dataset, {"a": SMALL, "b": replace(SMALL, sigma=1.0)}, RANDOM))
